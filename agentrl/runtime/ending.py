"""The end of a process that has failed."""

import os
import sys
import threading
from typing import NoReturn

_WITHIN_S = 5.0
_CLOSED = 'Event loop is closed'


def mute_closed_loops() -> None:
  """Says nothing of a result that comes to an event loop once that has ended.

  TensorStore goes on writing where a save has failed, as on a full disk, and tells
  the loop of that save; Python prints the refusal as a traceback beside the error.
  """
  before = sys.unraisablehook

  def hook(lost: 'sys.UnraisableHookArgs') -> None:
    late = isinstance(lost.exc_value, RuntimeError) and lost.object is None
    if not (late and str(lost.exc_value) == _CLOSED):
      before(lost)

  sys.unraisablehook = hook


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
