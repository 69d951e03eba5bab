"""The end of a process that has failed."""

import os
import sys
import threading
from typing import NoReturn

_WITHIN_S = 5.0


def end(code: int, within_s: float = _WITHIN_S) -> NoReturn:
  """Ends this process with an exit code, whatever its threads do.

  Python waits for all threads, and those of a library may wait for what has
  failed: writers of a checkpoint for a folder, a collective for a process that
  is gone. By now all is said and all children are stopped.

  Args:
    code: of the exit.
    within_s: seconds that the threads get.
  """
  timer = threading.Timer(within_s, leave, (code,))
  timer.daemon = True
  timer.start()
  sys.exit(code)


def leave(code: int) -> None:
  """Ends this process at once; its children end with their input."""
  for stream in (sys.stdout, sys.stderr):
    try:
      stream.flush()
    except (OSError, ValueError):  # closed
      pass
  os._exit(code)
