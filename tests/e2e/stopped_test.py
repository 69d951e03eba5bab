"""Runs that end before their last step: what they leave, and the way on."""

import shutil
import signal
import subprocess

import pytest

from agentrl.data import episodes as episodes_lib
from agentrl.runtime import workdir as workdir_lib
from tests.e2e.running import (
    QUICKSTART,
    ROOT,
    SMALL,
    command,
    launch,
    lines,
    start,
    wait_for,
)

pytestmark = pytest.mark.slow
# Runs that are ended in their first steps.
FLAGS = (
    *SMALL,
    '--config.num_steps=99',
    '--config.eval.num_tasks=0',
    '--config.eval.every=0',
    "--config.eval.small={'num_tasks': 0}",
    '--config.checkpoint.keep_best=False',
)


def test_a_workdir_deleted_under_a_run_is_one_line(tmp_path):
  workdir = tmp_path / 'run'
  process = subprocess.Popen(
      command(
          workdir,
          *FLAGS,
          '--config.checkpoint.every=99',
          config=QUICKSTART,
      ),
      stdout=subprocess.DEVNULL,
      stderr=subprocess.PIPE,
      text=True,
      cwd=ROOT,
  )
  metrics = workdir / 'metrics.jsonl'
  wait_for(lambda: metrics.exists() and metrics.read_text(), process)
  while workdir.exists():  # whatever is written meanwhile
    shutil.rmtree(workdir, ignore_errors=True)
  _, said = process.communicate(timeout=400)
  assert process.returncode == 2, said
  assert 'was deleted' in said.strip().splitlines()[-1]
  assert 'Traceback' not in said and str(workdir) in said


def test_ctrl_c_saves_and_the_same_command_goes_on(tmp_path):
  seldom = '--config.checkpoint.every=100'
  process = start(tmp_path, *FLAGS, seldom, config=QUICKSTART)
  metrics = tmp_path / 'metrics.jsonl'
  wait_for(lambda: metrics.exists() and metrics.read_text(), process)
  process.send_signal(signal.SIGINT)
  said, _ = process.communicate(timeout=400)
  assert process.returncode == 130 and 'same command' in said
  saved = int(workdir_lib.last_checkpoint(tmp_path).name)
  assert saved == len(lines(metrics)) >= 1


def test_a_run_that_diverges_stops_with_what_is_good(tmp_path):
  flags = (
      '--config.num_steps=8',
      '--config.warmstart.episodes=8',
      '--config.eval.num_tasks=0',
      '--config.rollout.tasks_per_step=1',
      '--config.rollout.group_size=2',
      '--config.checkpoint.every=1',
      # The policy moves although no episode succeeds.
      '--config.algo.entropy_coef=0.01',
      # Beyond float32 once the policy has moved. Before, it is 0 but for the
      # rounding of two passes of different shapes, which some machines have.
      '--config.algo.kl_coef=1e38',
  )
  done = launch(tmp_path, *flags, config=QUICKSTART)
  assert done.returncode == 2, done.stdout + done.stderr
  assert 'of 3 updates in a row were not finite' in done.stderr
  assert 'Traceback' not in done.stderr
  history = lines(tmp_path / 'metrics.jsonl')
  assert history[-1]['train/skips_in_row'] == 3
  assert sum(line['train/skipped'] for line in history) >= 3
  skipped = [line['step'] for line in history if line['train/skipped']]
  found = sorted((tmp_path / 'diverged').iterdir())
  assert [int(path.stem) for path in found] == skipped
  assert all(e.tokens for path in found for e in episodes_lib.read(path))

  # The way out that the message names.
  calm = tmp_path / 'calm'
  done = launch(
      calm,
      *flags[2:-1],
      '--config.num_steps=1',
      '--config.warmstart.episodes=0',
      f'--config.model.name={tmp_path}',
      config=QUICKSTART,
  )
  assert done.returncode == 0, done.stdout + done.stderr
  [line] = lines(calm / 'metrics.jsonl')
  assert not line['train/skipped']
