"""The end of the parent process, as a child sees it: its input is closed."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable


def watch(
    loop: asyncio.AbstractEventLoop,
    stop: Callable[[], None],
    grace_s: float,
) -> None:
  """Calls `stop` in the loop when standard input ends, however that happens.

  Args:
    loop: of this process.
    stop: ends it.
    grace_s: after which the process is ended from outside the loop.
  """
  thread = threading.Thread(
      target=_watch, args=(loop, stop, grace_s), daemon=True
  )
  thread.start()


def _watch(
    loop: asyncio.AbstractEventLoop,
    stop: Callable[[], None],
    grace_s: float,
) -> None:
  # Not sys.stdin: its lock, held here, would abort the interpreter at exit.
  while os.read(0, 4096):
    pass
  # The loop has ended already, or there is no memory to tell it.
  with contextlib.suppress(RuntimeError, MemoryError):
    loop.call_soon_threadsafe(stop)
  # Nobody is left to end us if something hangs. In this thread: another could not
  # start where memory has run out.
  time.sleep(grace_s)
  os._exit(1)
