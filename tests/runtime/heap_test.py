"""Memory goes back to the system though what lies behind it stays."""

import platform
import subprocess
import sys

import pytest

# Blocks of 2,000 bytes come from the C allocator; the last one stays.
_PROGRAM = """
import psutil
from agentrl.runtime import heap

rss = lambda: psutil.Process().memory_info().rss
blocks = [bytes(2000) for _ in range(100_000)]
last = blocks[-1]
del blocks
before = rss()
heap.trim()
print((before - rss()) >> 20, len(last))
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != 'glibc', reason='another allocator'
)
def test_freed_memory_is_given_back():
  done = subprocess.run(
      [sys.executable, '-c', _PROGRAM],
      capture_output=True,
      text=True,
      check=True,
  )
  mib = int(done.stdout.split()[0])
  assert 150 < mib < 250
