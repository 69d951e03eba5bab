"""An evaluation as a user runs it, killed and started again."""

import json
import signal
import subprocess

import pytest

from tests.e2e.running import ROOT, command, launch, start, wait_for
from tests.modes.evaluate_test import left
from tests.waiting import gone

pytestmark = pytest.mark.slow
EXPERT = 'configs/evaluate.py:model=expert,env=textcraft;babyai,n=24,samples=2'
# One at a time, so that there is a middle in which to kill it.
ONE = '--config.rollout.concurrency=1'


def count(path):
  return path.read_bytes().count(b'\n') if path.exists() else 0


def test_killed_twice_and_resumed_it_is_what_it_would_have_been(tmp_path):
  whole, killed = tmp_path / 'whole', tmp_path / 'killed'
  done = launch(whole, ONE, config=EXPERT)
  assert done.returncode == 0, done.stdout + done.stderr
  for env in ('textcraft', 'babyai'):
    journal = killed / 'episodes' / 'eval' / 'expert' / f'{env}.jsonl'
    process = start(killed, ONE, config=EXPERT)
    wait_for(lambda path=journal: count(path) > 2, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    gone(process.pid)
    assert 2 < count(journal) < 48
    assert not (killed / 'evaluation.json').exists()
  done = launch(killed, ONE, config=EXPERT)
  assert done.returncode == 0, done.stdout + done.stderr
  assert left(killed) == left(whole)


def test_ctrl_c_keeps_what_was_played(tmp_path):
  process = start(tmp_path, ONE, config=EXPERT)
  journal = tmp_path / 'episodes' / 'eval' / 'expert' / 'textcraft.jsonl'
  wait_for(lambda: count(journal) > 2, process)
  process.send_signal(signal.SIGINT)
  said, _ = process.communicate(timeout=100)
  assert process.returncode == 130
  assert 'The same command plays the episodes that are missing.' in said
  lines = [json.loads(line) for line in journal.read_text().splitlines()]
  assert 2 < len(lines) < 48


def test_a_reader_that_goes_ends_nothing(tmp_path):
  process = subprocess.Popen(
      command(tmp_path / 'run', ONE, config=EXPERT),
      cwd=ROOT,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
  )
  journal = (
      tmp_path / 'run' / 'episodes' / 'eval' / 'expert' / 'textcraft.jsonl'
  )
  wait_for(lambda: count(journal) > 2, process)
  process.stdout.close()  # as a `| head` does
  said = process.stderr.read()
  assert process.wait(100) == 0, said
  assert 'Nobody reads standard output any more' in said
  assert (tmp_path / 'run' / 'evaluation.json').exists()
