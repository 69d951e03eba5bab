"""Tests of a viewer beside a run: it ends when the run does."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

from agentrl.viewer import beside
from tests.viewer import runs

RUN = """
import pathlib, sys, time
from agentrl.viewer import beside

with beside.viewer(pathlib.Path(sys.argv[1])) as line:
  print(line, flush=True)
  time.sleep(600)
"""


def answers(url):
  try:
    with urllib.request.urlopen(f'{url}api/episodes', timeout=30) as found:
      return found.status == 200
  except (ConnectionError, urllib.error.URLError):
    return False


def test_it_shows_the_run_inside_the_block(tmp_path):
  runs.write(tmp_path)
  with beside.viewer(tmp_path / 'run') as line:
    assert line.startswith(f'Showing {tmp_path / "run"}: http://127.0.0.1:')
    url = line.split()[-1]
    assert answers(url)
  assert not answers(url)


def test_it_ends_with_a_run_that_is_killed(tmp_path):
  child = subprocess.Popen(
      [sys.executable, '-c', RUN, str(tmp_path)],
      stdout=subprocess.PIPE,
      text=True,
      env=os.environ | {'PYTHONPATH': os.getcwd()},
  )
  with child.stdout:
    url = child.stdout.readline().split()[-1]
    assert answers(url)
    child.kill()
    child.wait()
  deadline = time.monotonic() + 30
  while answers(url):
    assert time.monotonic() < deadline
    time.sleep(0.1)
