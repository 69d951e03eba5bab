"""Tests for agentrl.runtime.parent."""

import subprocess
import sys

import pytest

CHILD = """
import asyncio, resource, sys, threading
from agentrl.runtime import parent

async def main():
  stop = asyncio.Event()
  parent.watch(asyncio.get_running_loop(), stop.set, 2.0)
  if sys.argv[1] == 'full':  # no stack of another thread fits
    pages = int(open('/proc/self/statm').read().split()[0])
    limit = pages * resource.getpagesize() + (1 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
      threading.Thread(target=print).start()
      raise AssertionError('a thread has started')
    except (RuntimeError, MemoryError):
      pass
  print('ready', flush=True)
  if sys.argv[1] == 'hangs':
    threading.Event().wait()
  await stop.wait()

asyncio.run(main())
"""


@pytest.mark.parametrize('kind, code', [('', 0), ('full', 0), ('hangs', 1)])
def test_a_child_ends_with_its_input(kind, code):
  with subprocess.Popen(
      [sys.executable, '-c', CHILD, kind],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
  ) as child:
    try:
      assert child.stdout.readline() == b'ready\n'
      child.stdin.close()
      assert child.wait(30) == code
    finally:
      child.kill()
