"""Runs that end before their last step: what they leave, and the way on."""

import contextlib
import shutil
import signal
import subprocess
import time

import pytest

from agentrl.data import episodes as episodes_lib
from agentrl.evaluation.workdirs import run_facts
from agentrl.runtime import workdir as workdir_lib
from tests import small_disk
from tests.e2e.running import (
    QUICKSTART,
    ROOT,
    SMALL,
    command,
    finish,
    launch,
    lines,
    start,
    summary_of,
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
  history = lines(metrics)
  assert saved == len(history) >= 1
  played = sum(line['rollout/episodes'] for line in history)
  found = summary_of(tmp_path)
  assert (found['status'], found['reason']) == ('stopped', 'SIGINT')
  assert (found['steps'], found['checkpoint']) == (saved, saved)
  assert found['episodes'] == played and found['tokens'] > played
  assert f'{tmp_path}/checkpoints/{saved}' in found['go_on']
  assert 'launch.py' in found['command'] and seldom in found['command']
  facts = run_facts.read(tmp_path.parent, tmp_path.name)
  assert (facts.status, facts.reason, facts.steps) == (
      'stopped',
      'SIGINT',
      saved,
  )

  flags = (*FLAGS, seldom, f'--config.num_steps={saved + 1}')
  finish(tmp_path, *flags, config=QUICKSTART)
  last = lines(metrics)[saved]['rollout/episodes']
  found = summary_of(tmp_path)
  assert (found['status'], found['steps']) == ('finished', saved + 1)
  assert found['episodes'] == played + last and 'reason' not in found


def test_two_signals_end_at_once_and_say_so(tmp_path):
  process = start(tmp_path, *FLAGS, config=QUICKSTART)
  metrics = tmp_path / 'metrics.jsonl'
  # With two lines there, the first step is one that the run has counted.
  wait_for(
      lambda: metrics.exists() and metrics.read_text().count('\n') > 1, process
  )
  # Both are there before it sees the first: else it may have ended by then. Two
  # of one kind that nobody has received yet are one.
  process.send_signal(signal.SIGSTOP)
  process.send_signal(signal.SIGINT)
  process.send_signal(signal.SIGTERM)
  process.send_signal(signal.SIGCONT)
  process.communicate(timeout=400)
  assert process.returncode
  found = summary_of(tmp_path)
  assert found['status'] == 'stopped' and found['steps'] >= 1
  assert found['reason'] in ('SIGTERM, after SIGINT', 'SIGINT, after SIGTERM')
  assert 'same command' in found['go_on']


def test_a_full_disk_ends_a_run_by_name_and_it_goes_on_once_there_is_room(
    tmp_path,
):
  place = tmp_path / 'disk'
  workdir = place / 'run'
  flags = (*FLAGS, '--config.checkpoint.every=1')
  with small_disk.mounted(place, 64):
    process = subprocess.Popen(
        command(workdir, *flags, config=QUICKSTART),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    wait_for((workdir / 'checkpoints' / '1').exists, process)
    filler = place / 'filler'
    with contextlib.suppress(OSError), filler.open('wb', buffering=0) as file:
      while process.poll() is None:
        if not file.write(bytes(2**12)):
          time.sleep(0.05)
    _, said = process.communicate(timeout=400)
    assert process.returncode == 2, said
    last = said.strip().splitlines()[-1]
    assert last.startswith('CheckpointError: '), said
    assert 'No space left on device' in last and 'same command' in last
    assert 'Traceback' not in said
    saved = int(workdir_lib.last_checkpoint(workdir).name)
    assert saved >= 1

    filler.unlink()
    more = f'--config.num_steps={saved + 1}'
    finish(workdir, *flags, more, config=QUICKSTART)
    history = lines(workdir / 'metrics.jsonl')
    assert [line['step'] for line in history] == list(range(saved + 1))
    found = summary_of(workdir)
    assert (found['status'], found['steps']) == ('finished', saved + 1)
    episodes = sum(line['rollout/episodes'] for line in history)
    assert found['episodes'] == episodes


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
  summary = summary_of(tmp_path)
  assert summary['status'] == 'failed' and summary['steps'] == len(history)
  assert summary['reason'].startswith('DivergedError: ')
  assert summary['checkpoint'] == len(history)
  assert 'lower learning rate' in summary['go_on']
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
