"""Files below the viewer's root, by names that come from a browser.

A run is named by its path relative to the root, `.` for the root itself, and a
file by its path relative to the run. Names that lead out of the root, by `..`,
as absolute paths or by symbolic links, do not exist here.
"""

import pathlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from agentrl.errors import AgentrlError, DataError

_CHUNK = 2**20  # bytes that are read at a time of a line that is too long
_BEGINNING = 256  # bytes that are kept of it


class Missing(AgentrlError):
  """A run, file, episode or part of one that is not there."""


def run_folder(root: pathlib.Path, run: str) -> pathlib.Path:
  """The folder of a run.

  Raises:
    Missing: there is no such folder below the root.
  """
  path = _inside(root, root, run, pathlib.Path.is_dir)
  if path is None:
    raise Missing(f'There is no run {run!r} here.')
  return path


def file_of(root: pathlib.Path, run: str, name: str) -> pathlib.Path:
  """A file of a run.

  Raises:
    Missing: there is no such run, or no such file in it.
  """
  path = _inside(root, run_folder(root, run), name, pathlib.Path.is_file)
  if path is None:
    raise Missing(f'There is no file {name!r} in the run {run!r}.')
  return path


def _inside(
    root: pathlib.Path,
    base: pathlib.Path,
    name: str,
    exists: Callable[[pathlib.Path], bool],
) -> pathlib.Path | None:
  """The path `name` below `base`; None if there is none within the root."""
  parts = pathlib.PurePosixPath(name)
  if '\0' in name or parts.is_absolute() or '..' in parts.parts:
    return None
  try:
    path = (base / name).resolve()
    valid = path.is_relative_to(root.resolve()) and exists(path)
  except (OSError, RuntimeError):  # too long; links in a circle
    return None
  return path if valid else None


def read_whole(path: pathlib.Path, most: int) -> bytes:
  """The bytes of a small file.

  Raises:
    DataError: it cannot be read, or has more than `most` bytes.
  """
  try:
    with path.open('rb') as file:
      data = file.read(most + 1)
  except OSError as error:
    raise DataError(f'Cannot read {path.name}: {error.strerror}.') from error
  if len(data) > most:
    raise DataError(
        f'{path.name} has more than {most} bytes; no run writes such a file.'
    )
  return data


class Line(NamedTuple):
  """A line of a file.

  Attributes:
    text: its bytes; the first ones alone of a line that is too long.
    size: bytes in the file, with the line end.
    complete: False for a last line without its end: it is still written.
  """

  text: bytes
  size: int
  complete: bool


def lines(file: BinaryIO, most: int) -> Iterator[Line]:
  """The lines from here on; of those longer than `most` bytes, the beginning."""
  while text := file.readline(most):
    size, last = len(text), text
    while not last.endswith(b'\n') and (last := file.readline(_CHUNK)):
      size += len(last)
    if size > most:
      text = text[:_BEGINNING]
    yield Line(text, size, last.endswith(b'\n'))


def read_line(path: pathlib.Path, offset: int, length: int) -> bytes:
  """The bytes of one line of a file.

  Raises:
    DataError: the file cannot be read, or has changed and is shorter now.
  """
  try:
    with path.open('rb') as file:
      file.seek(offset)
      line = file.read(length)
  except OSError as error:
    raise DataError(f'Cannot read {path.name}: {error.strerror}.') from error
  if len(line) < length:
    raise DataError(
        f'{path.name} has changed since it was indexed; load the page again.'
    )
  return line
