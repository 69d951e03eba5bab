"""The temporary folder of a child process, which does not outlive it for long.

Playwright's driver makes Chromium's profile in the system's folder for temporary
files, and removes it unless it is killed; SGLang never removes its sockets. So each
of them gets a folder of its own there: it is removed with the child, and that of a
dead process by the next of its kind that starts or ends on the machine.
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator

_LOCK = 'lock'  # a file that its process has locked before it had this name
_YOUNG_S = 60.0  # a folder may have no lock yet
_TRIES, _PAUSE_S = 5, 0.2  # processes that die still write
_ENVIRON = threading.Lock()


class Scratch:
  """A new folder; those of dead processes are removed.

  Attributes:
    folder: for what the child writes.
  """

  def __init__(self, kind: str):
    """Makes it.

    Args:
      kind: of the children, in the name of the folder.

    Raises:
      OSError: it cannot be made.
    """
    self._prefix = f'agentrl-{kind}-'
    _sweep(self._prefix)
    self.folder = pathlib.Path(tempfile.mkdtemp(prefix=self._prefix))
    early = self.folder / f'{_LOCK}.new'
    self._lock = _locked(early, os.O_CREAT)
    early.rename(self.folder / _LOCK)

  @contextlib.contextmanager
  def as_tmpdir(self) -> Iterator[None]:
    """Processes that start meanwhile have it as their `TMPDIR`.

    Playwright takes no environment for its driver but the process's own.
    """
    with _ENVIRON:
      before = os.environ.get('TMPDIR')
      os.environ['TMPDIR'] = str(self.folder)
      try:
        yield
      finally:
        if before is None:
          del os.environ['TMPDIR']
        else:
          os.environ['TMPDIR'] = before

  def remove(self) -> None:
    """Removes the folder; what cannot be is left to the next one."""
    _remove(self.folder)
    os.close(self._lock)
    _sweep(self._prefix)


def _remove(folder: pathlib.Path) -> None:
  for _ in range(_TRIES):
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
      break
    time.sleep(_PAUSE_S)


def _sweep(prefix: str) -> None:
  """Removes the folders of processes that have ended."""
  for folder in pathlib.Path(tempfile.gettempdir()).glob(f'{prefix}*'):
    try:
      lock = _locked(folder / _LOCK)
    except FileNotFoundError:  # its process begins, or has died then
      with contextlib.suppress(OSError):
        if time.time() - folder.stat().st_mtime > _YOUNG_S:
          shutil.rmtree(folder, ignore_errors=True)
      continue
    except OSError:  # it is used, gone or somebody else's
      continue
    _remove(folder)
    os.close(lock)


def _locked(path: pathlib.Path, flags: int = 0) -> int:
  """Opens and locks a file.

  Raises:
    OSError: another process has locked it, or it cannot be opened.
  """
  lock = os.open(path, os.O_RDWR | flags, 0o600)
  try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except OSError:
    os.close(lock)
    raise
  return lock
