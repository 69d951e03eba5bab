"""Compiled programs that outlive the process: JAX's persistent cache."""

import hashlib
import os
import pathlib
import zlib
from collections.abc import Sequence

import jax
from absl import logging

from agentrl.errors import ConfigError, EnvError
from agentrl.runtime import cache

# All are kept: the smallest takes four times as long to compile as to read.
_MIN_COMPILE_S = 0.0
# Limit of the folder; a run of a tiny policy leaves 2 MiB.
_MOST_BYTES = 4 * 2**30


def use(folder: str | None) -> None:
  """Makes this process keep compiled programs; call it before it compiles.

  The key of an entry is program, versions, flags and kind of processor, so a
  stale one is never used. The least recently used go when there are too many,
  and the folder may be deleted at any time. A user who can write into it can
  make the process run anything: the default is a folder that others cannot
  write.

  Args:
    folder: of the programs. None: JAX_COMPILATION_CACHE_DIR, which is left to
      JAX, else compiled/ in $AGENTRL_CACHE or the user's cache folder. Empty:
      nothing is kept.

  Raises:
    ConfigError: the folder that is named cannot be written.
  """
  if folder == '':
    jax.config.update('jax_compilation_cache_dir', None)
    return
  if 'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS' not in os.environ:
    jax.config.update(
        'jax_persistent_cache_min_compile_time_secs', _MIN_COMPILE_S
    )
  if folder is None and _folder():
    return
  try:
    path = _named(folder) if folder else cache.private('compiled')
  except EnvError as error:
    logging.warning('Every start will compile anew: %s', error)
    return
  jax.config.update('jax_compilation_cache_dir', str(path))
  try:
    tidy(path, _MOST_BYTES)
  except OSError as error:
    logging.warning('Compiled programs stay as they are: %s', error)


def _folder() -> str | None:
  """Where JAX keeps programs, if it does."""
  return jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]  # jax adds its options at run time


def _named(folder: str) -> pathlib.Path:
  path = pathlib.Path(folder)
  try:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(path, os.W_OK | os.X_OK):
      raise PermissionError(f'{path} is read-only')
  except OSError as error:
    raise ConfigError(
        f'Cannot keep compiled programs in {path}: {error}; name another'
        ' folder, or none with an empty name.'
    ) from error
  return path


def tidy(path: pathlib.Path, most: int) -> None:
  """Removes broken entries, and the least recently used beyond `most` bytes.

  JAX never replaces a broken entry, and does not write one atomically: after a
  full disk or a kill its program would be compiled at every start. And JAX's
  own bound locks the folder at every read and keeps a second file beside each
  entry: before jax 0.12, if one of them is missing, nothing is written any more.

  Args:
    path: the folder.
    most: bytes of all entries.

  Raises:
    OSError: the folder cannot be changed.
  """
  # Entries from before the last call were checked by it.
  stamp = path / 'tidied'
  since = stamp.stat().st_mtime if stamp.exists() else 0.0
  stamp.touch()
  entries = []
  for entry in path.glob('*-cache'):
    try:
      status = entry.stat()
      whole = status.st_mtime < since or _is_whole(entry.read_bytes())
    except FileNotFoundError:  # another process is tidying
      continue
    if whole:
      # Reading is not recorded everywhere.
      used = max(status.st_atime, status.st_mtime)
      entries.append((used, status.st_size, entry))
    else:
      entry.unlink(missing_ok=True)
  total = sum(size for _, size, _ in entries)
  for _, size, entry in sorted(entries):
    if total <= most:
      break
    entry.unlink(missing_ok=True)
    total -= size


class Notes:
  """Which shapes of a program have been compiled before, as far as is known.

  They lie beside the programs. Nothing depends on them but the time that a run
  takes: entries may have gone since.
  """

  def __init__(self, program: str):
    """Makes no file.

    Args:
      program: text by which it is told from others, the same in all processes.
    """
    folder = _folder()
    key = hashlib.sha256(f'{jax.__version__} {program}'.encode()).hexdigest()
    self._path = folder and pathlib.Path(folder) / f'{key[:32]}.shapes'

  def read(self) -> set[tuple[int, ...]]:
    """The shapes; lines that cannot be read are left out."""
    if not self._path:
      return set()
    try:
      text = self._path.read_text(errors='replace')
    except OSError:  # there are none, or the next run compiles them again
      return set()
    lines = [line.split() for line in text.splitlines() if line]
    return {tuple(map(int, x)) for x in lines if all(map(str.isdecimal, x))}

  def add(self, shape: Sequence[int]) -> None:
    """Notes one more."""
    if not self._path:
      return
    try:
      with self._path.open('a') as file:
        # After the half of a line, too, that a killed process has left.
        file.write('\n' + ' '.join(map(str, shape)) + '\n')
    except OSError as error:
      logging.warning('The next run will not know its programs: %s', error)


def _is_whole(entry: bytes) -> bool:
  """True if JAX can unpack an entry."""
  if entry.startswith(b'\x28\xb5\x2f\xfd'):  # by zstandard, where there is one
    return True
  try:
    zlib.decompress(entry)
  except zlib.error:
    return False
  return True
