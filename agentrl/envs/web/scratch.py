"""A browser's temporary folder, which outlives neither it nor a kill for long.

Playwright's driver makes Chromium's profile in the system's folder for temporary
files, and removes it unless it is killed. So each driver gets a folder of its own
there: it is removed with the browser, and that of a dead process by the next
browser that starts or ends on the machine.
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

_PREFIX = 'agentrl-browser-'
_LOCK = 'lock'  # a file that its process has locked before it had this name
_YOUNG_S = 60.0  # a folder may have no lock yet
_TRIES, _PAUSE_S = 5, 0.2  # processes that die still write
_ENVIRON = threading.Lock()


class Scratch:
  """A new folder; those of dead processes are removed."""

  def __init__(self):
    _sweep()
    self._folder = pathlib.Path(tempfile.mkdtemp(prefix=_PREFIX))
    early = self._folder / f'{_LOCK}.new'
    self._lock = _locked(early, os.O_CREAT)
    early.rename(self._folder / _LOCK)

  @contextlib.contextmanager
  def as_tmpdir(self) -> Iterator[None]:
    """Processes that start meanwhile have it as their `TMPDIR`.

    Playwright takes no environment for its driver but the process's own.
    """
    with _ENVIRON:
      before = os.environ.get('TMPDIR')
      os.environ['TMPDIR'] = str(self._folder)
      try:
        yield
      finally:
        if before is None:
          del os.environ['TMPDIR']
        else:
          os.environ['TMPDIR'] = before

  def remove(self) -> None:
    """Removes the folder; what cannot be is left to the next browser."""
    _remove(self._folder)
    os.close(self._lock)
    _sweep()


def _remove(folder: pathlib.Path) -> None:
  for _ in range(_TRIES):
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
      break
    time.sleep(_PAUSE_S)


def _sweep() -> None:
  """Removes the folders of processes that have ended."""
  for folder in pathlib.Path(tempfile.gettempdir()).glob(f'{_PREFIX}*'):
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
