"""The last word of a process that a library aborts.

JAX's client aborts the process as soon as process 0 of a run is gone, by a SIGABRT
from a thread of C++: no exception, and no handler of Python's runs before the end.
"""

import contextlib
import ctypes
import signal
import threading
from collections.abc import Callable, Iterator

_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)


@contextlib.contextmanager
def answered(answer: Callable[[], object]) -> Iterator[None]:
  """Calls `answer` before this process is aborted.

  It runs in the thread that aborts, and may end the process with another word. If
  it returns, the process is aborted as if there were no answer. Has no effect in
  another thread than the main one, since signals belong to the process.

  Args:
    answer: takes a second at most.
  """
  if threading.current_thread() is not threading.main_thread():
    yield
    return
  libc = ctypes.CDLL(None)
  libc.signal.restype = ctypes.c_void_p
  libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)

  def handle(number: int) -> None:
    answer()
    libc.signal(number, before)  # which may print the stacks of all threads
    signal.raise_signal(number)

  handler = _HANDLER(handle)
  before = libc.signal(signal.SIGABRT, ctypes.cast(handler, ctypes.c_void_p))
  try:
    yield
  finally:
    libc.signal(signal.SIGABRT, before)
