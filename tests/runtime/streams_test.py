"""Tests for agentrl.runtime.streams."""

import os
import pathlib
import subprocess
import sys

import pytest

_TALKS = """
import os, sys
import rich.console, rich.progress
from agentrl.runtime import streams

with streams.lasting():
  console = rich.console.Console()
  console.print('first')
  sys.stdin.read()  # until the reader is gone
  for _ in range(3):
    console.print('x ' * 5_000)
    print('and by print', flush=True)
    print('error', file=sys.stderr)
    list(rich.progress.track(range(3), console=console))
    os.system('echo from a child')
open(sys.argv[1], 'w').write('went on')
"""
_ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize('stderr', [subprocess.PIPE, subprocess.STDOUT])
def test_a_program_goes_on_when_nobody_reads_it(tmp_path, stderr):
  path = tmp_path / 'end'
  process = subprocess.Popen(
      [sys.executable, '-c', _TALKS, str(path)],
      cwd=_ROOT,
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=stderr,
      text=True,
  )
  assert process.stdout.readline() == 'first\n'
  process.stdout.close()
  process.stdin.close()
  said = process.stderr.read() if process.stderr else ''
  assert process.wait(60) == 0, said
  assert path.read_text() == 'went on'
  if process.stderr:
    first, *more = said.splitlines()
    assert first.startswith('Nobody reads standard output any more')
    assert more == ['error'] * 3


def test_a_terminal_that_is_closed_ends_nothing(tmp_path):
  path = tmp_path / 'end'
  ours, its = os.openpty()
  process = subprocess.Popen(
      [sys.executable, '-c', _TALKS, str(path)],
      cwd=_ROOT,
      stdin=subprocess.PIPE,
      stdout=its,
      stderr=its,
  )
  os.close(its)
  assert os.read(ours, 5) == b'first'
  os.close(ours)
  process.stdin.close()
  assert process.wait(60) == 0
  assert path.read_text() == 'went on'


def test_a_full_disk_is_an_error(tmp_path):
  done = subprocess.run(
      [sys.executable, '-c', _TALKS, str(tmp_path / 'end')],
      cwd=_ROOT,
      stdin=subprocess.DEVNULL,
      stdout=open('/dev/full', 'w'),
      stderr=subprocess.PIPE,
      text=True,
  )
  assert done.returncode and 'No space left on device' in done.stderr
