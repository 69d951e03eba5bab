"""Tests for agentrl.runtime.ending."""

import subprocess
import sys
import time

import pytest

_HANGS = """
import sys, threading, time
from agentrl.runtime import ending
threading.Thread(target=time.sleep, args=(300,), daemon=DAEMON).start()
print('out', end='')
print('why', file=sys.stderr)
ending.end(3, within_s=0.5)
"""


@pytest.mark.parametrize('daemon', [False, True])
def test_no_thread_holds_a_process_that_failed(daemon):
  began = time.monotonic()
  done = subprocess.run(
      [sys.executable, '-c', _HANGS.replace('DAEMON', str(daemon))],
      capture_output=True,
      text=True,
      timeout=100,
  )
  assert (done.returncode, done.stdout, done.stderr) == (3, 'out', 'why\n')
  assert time.monotonic() - began < 30


# As of a save that ends before its writes: TensorStore tells its loop.
_LATE = """
import asyncio, threading
import tensorstore
from agentrl.runtime import ending

class Fails:
  def __del__(self):
    raise RuntimeError('in a destructor')

MUTE
promise, future = tensorstore.Promise.new()

async def wait():
  return await future

async def main():
  global task
  task = asyncio.ensure_future(wait())
  await asyncio.sleep(0)

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
loop.close()
writes = threading.Thread(target=promise.set_result, args=(1,))
writes.start()
writes.join()
Fails()
"""


@pytest.mark.parametrize('mute', [False, True])
def test_a_result_that_comes_too_late_is_no_traceback(mute):
  text = _LATE.replace('MUTE', 'ending.mute_closed_loops()' if mute else '')
  done = subprocess.run(
      [sys.executable, '-c', text], capture_output=True, text=True, timeout=100
  )
  assert done.returncode == 0
  assert ('Event loop is closed' in done.stderr) != mute
  assert 'RuntimeError: in a destructor' in done.stderr
