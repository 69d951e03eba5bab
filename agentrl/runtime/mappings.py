"""The memory mappings of this process, of which Linux allows so many.

A compiled program has hundreds on a CPU: its code and constants lie in pieces of
their own.
"""

import pathlib

_OWN = pathlib.Path('/proc/self/maps')
_MOST = pathlib.Path('/proc/sys/vm/max_map_count')
# What is left is for programs that nothing can stand in for, threads and arrays.
_SHARE = 0.75


def crowded() -> bool:
  """True once this process has most of the mappings that it may have.

  Beyond the last one no memory is given out, and the process dies. False where
  the system does not tell.
  """
  try:
    most = int(_MOST.read_text())
    return _OWN.read_bytes().count(b'\n') > _SHARE * most
  except (OSError, ValueError):
    return False
