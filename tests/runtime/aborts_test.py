"""Tests for agentrl.runtime.aborts, in processes that are aborted."""

import subprocess
import sys

# As a thread of C++ does: Python has no part in it.
ABORTED = """
import ctypes, faulthandler, sys, threading, time
from agentrl.runtime import aborts, ending

faulthandler.enable()

def answer():
  print('answered', flush=True)
  {does}

def abort():
  ctypes.CDLL(None).abort()

with aborts.answered({answer}):
  if {inside}:
    threading.Thread(target=abort).start()
    time.sleep(60)
abort()
"""


def aborted(does='pass', inside=True, answer='answer'):
  text = ABORTED.format(does=does, inside=inside, answer=answer)
  return subprocess.run(
      [sys.executable, '-c', text], capture_output=True, text=True, timeout=60
  )


def test_an_answer_may_be_the_last_word():
  done = aborted('ending.leave(2)')
  assert (done.returncode, done.stdout, done.stderr) == (2, 'answered\n', '')


def test_an_abort_that_is_not_answered_is_one():
  done = aborted()
  assert (done.returncode, done.stdout) == (-6, 'answered\n')
  assert done.stderr.startswith('Fatal Python error: Aborted')  # faulthandler's


def test_after_the_block_nobody_is_asked():
  done = aborted(inside=False)
  assert (done.returncode, done.stdout) == (-6, '')
  assert done.stderr.startswith('Fatal Python error: Aborted')
