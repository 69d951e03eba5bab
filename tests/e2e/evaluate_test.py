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


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  """An evaluation that ran to its end; its reader went."""
  run = tmp_path_factory.mktemp('evaluations') / 'whole'
  process = subprocess.Popen(
      command(run, ONE, config=EXPERT),
      cwd=ROOT,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
  )
  journal = run / 'episodes' / 'eval' / 'expert' / 'textcraft.jsonl'
  wait_for(lambda: count(journal) > 2, process)
  process.stdout.close()  # as a `| head` does
  said = process.stderr.read()
  assert process.wait(100) == 0, said
  return run, said


def test_a_reader_that_goes_ends_nothing(whole):
  run, said = whole
  assert 'Nobody reads standard output any more' in said
  assert (run / 'evaluation.json').exists()


def test_killed_stopped_and_resumed_it_is_what_it_would_have_been(
    whole, tmp_path
):
  for number, env in (
      (signal.SIGKILL, 'textcraft'),
      (signal.SIGINT, 'babyai'),  # Ctrl-C
  ):
    journal = tmp_path / 'episodes' / 'eval' / 'expert' / f'{env}.jsonl'
    process = start(tmp_path, ONE, config=EXPERT)
    wait_for(lambda path=journal: count(path) > 2, process)
    process.send_signal(number)
    said, _ = process.communicate(timeout=100)
    gone(process.pid)
    assert 2 < count(journal) < 48
    assert not (tmp_path / 'evaluation.json').exists()
  assert process.returncode == 130
  assert 'The same command plays the episodes that are missing.' in said
  played = [json.loads(line) for line in journal.read_text().splitlines()]
  assert 2 < len(played) < 48
  done = launch(tmp_path, ONE, config=EXPERT)
  assert done.returncode == 0, done.stdout + done.stderr
  assert left(tmp_path) == left(whole[0])
