"""A run in a process of its own that is killed for real."""

import contextlib
import subprocess
import sys


@contextlib.contextmanager
def running(code, directory):
  """Runs `code` with a directory; gives the process and its first line.

  SIGKILL ends it with the block.
  """
  run = subprocess.Popen(
      [sys.executable, '-c', code, str(directory)],
      stdout=subprocess.PIPE,
      text=True,
  )
  with run.stdout:
    try:
      yield run, run.stdout.readline().rstrip('\n')
    finally:
      run.kill()
      run.wait()
