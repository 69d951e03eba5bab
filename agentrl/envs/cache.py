"""What is made once on a machine: folders in the user's cache."""

import contextlib
import fcntl
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator

from agentrl.errors import EnvError


def root(name: str) -> pathlib.Path:
  """The folder `name` in $AGENTRL_CACHE, else in the user's cache folder."""
  if own := os.environ.get('AGENTRL_CACHE'):
    return pathlib.Path(own, name)
  shared = os.environ.get('XDG_CACHE_HOME')
  home = pathlib.Path(shared) if shared else pathlib.Path.home() / '.cache'
  return home / 'agentrl' / name


def folder(
    name: str, key: str, write: Callable[[pathlib.Path], None]
) -> pathlib.Path:
  """The folder `key` in `root(name)`, which `write` fills if it is not there.

  Of several processes, one writes and the others wait. What a killed one left
  behind is written again: the folder gets its name when it is complete.

  Raises:
    EnvError: it cannot be written.
  """
  base = root(name)
  wanted = base / key
  try:
    if not wanted.is_dir():
      base.mkdir(parents=True, exist_ok=True)
      with _locked(base / f'{key}.lock'):
        if not wanted.is_dir():
          partial = base / f'{key}.partial'
          shutil.rmtree(partial, ignore_errors=True)
          partial.mkdir()
          write(partial)
          partial.rename(wanted)
  except OSError as error:
    raise EnvError(
        f'Cannot write {wanted}: {error}; set AGENTRL_CACHE'
        ' to a folder that can be written.'
    ) from error
  return wanted


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
  """Holds an exclusive lock, which the kernel frees if the process dies."""
  with path.open('w') as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    yield
