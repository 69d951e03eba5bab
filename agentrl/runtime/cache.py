"""Folders in the user's cache, for things made once on a machine."""

import contextlib
import fcntl
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator

from agentrl.errors import EnvError


def root(name: str) -> pathlib.Path:
  """The folder `name` in $AGENTRL_CACHE, else in the user's cache folder.

  Raises:
    EnvError: neither that nor a home is known.
  """
  if own := os.environ.get('AGENTRL_CACHE'):
    return pathlib.Path(own, name)
  shared = os.environ.get('XDG_CACHE_HOME')
  try:
    home = pathlib.Path(shared) if shared else pathlib.Path.home() / '.cache'
  except RuntimeError as error:  # a user id without a name
    raise EnvError(
        f'There is no cache folder: {error}; set AGENTRL_CACHE to a folder that'
        ' can be written.'
    ) from error
  return home / 'agentrl' / name


def private(name: str) -> pathlib.Path:
  """The folder `root(name)`, made if need be, that only this user may write.

  Raises:
    EnvError: it cannot be written, or others can write into it.
  """
  path = root(name)
  try:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(path, os.W_OK | os.X_OK):
      raise PermissionError(f'{path} is read-only')
    status = path.stat()
  except OSError as error:
    raise EnvError(
        f'Cannot write {path}: {error}; set AGENTRL_CACHE'
        ' to a folder that can be written.'
    ) from error
  if status.st_uid != os.getuid() or status.st_mode & 0o022:
    raise EnvError(
        f'{path} has mode {status.st_mode & 0o777:o} and owner'
        f' {status.st_uid}: others may have written into it. Remove it, or set'
        ' AGENTRL_CACHE to a folder of your own.'
    )
  return path


def folder(
    name: str, key: str, write: Callable[[pathlib.Path], None]
) -> pathlib.Path:
  """The folder `key` in `root(name)`, which `write` fills if it is not there.

  If several processes need it, one writes and the others wait. The remains of a
  killed one are written again: the folder gets its name when it is complete.

  Raises:
    EnvError: it cannot be written.
  """
  base = root(name)
  path = base / key
  try:
    if not path.is_dir():
      base.mkdir(parents=True, exist_ok=True)
      with _locked(base / f'{key}.lock'):
        if not path.is_dir():
          partial = base / f'{key}.partial'
          shutil.rmtree(partial, ignore_errors=True)
          partial.mkdir()
          write(partial)
          partial.rename(path)
  except OSError as error:
    raise EnvError(
        f'Cannot write {path}: {error}; set AGENTRL_CACHE'
        ' to a folder that can be written.'
    ) from error
  return path


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
  """Holds an exclusive lock, which the kernel frees if the process dies."""
  with path.open('w') as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    yield
