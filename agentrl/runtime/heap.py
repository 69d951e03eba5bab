"""Memory that was freed, and that glibc keeps for what comes next.

A compilation takes hundreds of MiB for a moment, and in between them some that stays.
glibc gives back by itself only what lies behind the last of those, so that a process
grows with every program.
"""

import ctypes
import functools
import time

# A call takes up to 0.3 s, and other threads wait where they allocate.
_EVERY_S = 10.0


def trim() -> None:
  """Gives freed memory back to the system, some seconds after the last time.

  Does nothing where the allocator has no such call.
  """
  _trim(int(time.monotonic() / _EVERY_S))


@functools.lru_cache(maxsize=1)
def _trim(period: int) -> None:
  """Once for each period."""
  del period
  give_back = getattr(ctypes.CDLL(None), 'malloc_trim', None)
  if give_back is not None:
    give_back(0)
