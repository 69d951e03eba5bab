"""The arrays that an update learnt from, as `data.episodes.write_learned` left.

They lie beside an episode file, as `NNNNNN.npz`; row b belongs to line b.
"""

import dataclasses
import pathlib
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from agentrl.errors import DataError

# `[B, T]` arrays by name; what each is.
ARRAYS = {
    'advantages': 'advantage',
    'returns': 'return',
    'values': 'value of the critic before the token',
    'old_logprobs': 'log-probability before the updates',
    'ref_logprobs': 'log-probability of the reference',
    'teacher_logprobs': 'log-probability of the teacher',
    'last_logprobs': 'log-probability in the last update',
    'entropy': 'entropy in the last update',
    'shaped_rewards': 'reward with KL and length charged',
    'turn_groups': 'turns of a group that answer one observation',
}
# `[B, 5]`: see `training.policy_update.PLACEMENT`.
PLACEMENTS = 'placements'
_COLUMNS = 5
_MOST_BYTES = 2**30
# Columns that arrays may have whatever the size of the episode file: it need not
# hold the tokens, and rows are padded.
_LEAST_TOKENS = 2**16
# What zipfile and NumPy raise for damaged, encrypted and strangely packed files.
_UNREADABLE = (
    EOFError, OSError, ValueError, zipfile.BadZipFile, zlib.error, RuntimeError,
    OverflowError, SyntaxError,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Place:
  """The place of an episode in its last update.

  Attributes:
    minibatch: of the last epoch, from 0.
    microbatch: in it.
    row: packed row of it.
    start: column where the episode begins.
    shared: first tokens of the episode that were computed once for its group.
  """

  minibatch: int
  microbatch: int
  row: int
  start: int
  shared: int


class Learned:
  """The arrays beside one episode file."""

  def __init__(self, arrays: Mapping[str, np.ndarray]):
    self._arrays = arrays

  @property
  def names(self) -> list[str]:
    """Names of the arrays that were kept."""
    return [name for name in ARRAYS if name in self._arrays]

  @property
  def shape(self) -> tuple[int, ...]:
    """`[B, T]` of every array."""
    return self._arrays[self.names[0]].shape

  def array(self, name: str) -> np.ndarray:
    """The whole array."""
    return self._arrays[name]

  def row(self, name: str, line: int, length: int) -> np.ndarray:
    """`[T]` values of an episode of `length` tokens.

    Raises:
      DataError: the array does not have them.
    """
    values = self._arrays[name]
    if line >= values.shape[0] or length > values.shape[1]:
      raise DataError(
          f'{name} has the shape {values.shape}, but episode {line} of the file'
          f' has {length} tokens.'
      )
    return values[line, :length]

  def place(self, line: int) -> Place | None:
    """The place of an episode; None: not kept, or in no update."""
    places = self._arrays.get(PLACEMENTS)
    if places is None or line >= len(places) or places[line, 0] < 0:
      return None
    return Place(*(int(x) for x in places[line]))

  def places(self) -> dict[int, Place]:
    """Line -> place, of all episodes that were in an update."""
    count = len(self._arrays.get(PLACEMENTS, ()))
    places = {line: self.place(line) for line in range(count)}
    return {line: place for line, place in places.items() if place is not None}


def load(path: pathlib.Path) -> Learned | None:
  """The arrays beside an episode file; None: there are none.

  Raises:
    DataError: it cannot be read, or no run writes such a file; names it.
  """
  beside = path.with_suffix('.npz')
  if not beside.exists():
    return None
  try:
    with zipfile.ZipFile(beside) as file:
      _check(file, path)  # before anything is unpacked
    with np.load(beside) as file:
      arrays = {name: file[name] for name in file.files}
  except _UNREADABLE as error:
    raise DataError(f'{beside} cannot be read: {error}') from error
  shapes = {v.shape for name, v in arrays.items() if name != PLACEMENTS}
  if len(shapes) > 1:
    raise DataError(f'{beside} holds arrays of different shapes: {shapes}.')
  return Learned(arrays)


def _check(file: zipfile.ZipFile, path: pathlib.Path) -> None:
  """Checks the headers of the arrays beside an episode file.

  A few kB of zip may unpack to gigabytes, so that sizes are compared with those
  of the episodes first.

  Raises:
    DataError: no run writes such arrays.
  """
  episodes, size = _extent(path)
  total = 0
  for entry in file.infolist():
    name = entry.filename.removesuffix('.npy')
    with file.open(entry) as member:
      version = np.lib.format.read_magic(member)
      read = {
          (1, 0): np.lib.format.read_array_header_1_0,
          (2, 0): np.lib.format.read_array_header_2_0,
      }.get(version)
      if read is None:
        raise ValueError(f'{name!r:.40} has the format {version} of .npy')
      shape, _, dtype = read(member)
      rest = entry.file_size - member.tell()
    names = ARRAYS if name != PLACEMENTS else (PLACEMENTS,)
    kinds = 'biuf' if name != PLACEMENTS else 'iu'
    if name not in names or dtype.kind not in kinds or len(shape) != 2:
      raise DataError(
          f'{file.filename} holds {name!r:.40} of type {dtype} and shape'
          f' {shape}, which no run writes; delete the file to see'
          f' {path.name} alone.'
      )
    rows, columns = shape
    most = _COLUMNS if name == PLACEMENTS else _LEAST_TOKENS + 16 * size
    if (
        not (0 <= rows <= episodes and 0 <= columns <= most)
        or rows * columns * dtype.itemsize != rest
        or (name == PLACEMENTS and columns != _COLUMNS)
    ):
      raise DataError(
          f'{file.filename} holds {name!r} of shape {shape}, which does not fit'
          f' the {episodes} episodes of {path.name}.'
      )
    total += rest
  if total > _MOST_BYTES:
    raise DataError(
        f'{file.filename} unpacks to {total} bytes; the viewer takes at most'
        f' {_MOST_BYTES}.'
    )


def _extent(path: pathlib.Path) -> tuple[int, int]:
  """Lines and bytes of an episode file."""
  count = size = 0
  with path.open('rb') as file:
    while chunk := file.read(2**20):
      count += chunk.count(b'\n')
      size += len(chunk)
      last = chunk
  return count + (size > 0 and not last.endswith(b'\n')), size


def plain(values: np.ndarray) -> list[Any]:
  """JSON numbers that read back as exactly these; None where not finite."""
  if values.dtype.kind != 'f':
    return values.tolist()
  # The shortest decimals of a float32, not of the double that equals it.
  return [float(str(x)) if np.isfinite(x) else None for x in values]
