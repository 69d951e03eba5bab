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
