"""sft, dpo and agentevol as a user runs them, continued and exported."""

import json
import pathlib
import signal
from typing import NamedTuple

import numpy as np
import pytest

from agentrl.data import episodes as episodes_lib
from agentrl.runtime import workdir as workdir_lib
from tests.e2e.running import (
    SHORT,
    check_finished,
    export,
    finish,
    finish_killed,
    lines,
    small,
    start,
    summary_of,
    wait_for,
)

pytestmark = pytest.mark.slow
SMALL = ('--config.eval.num_tasks=2',)


def conversation(number):
  """As in AgentTraj: a canned start that is not learnt, then two turns."""
  said = (
      ('human', 'You are in a room. Reply with one action.', None),
      ('gpt', 'OK.', False),
      ('human', f'Your goal: go to red ball {number}.', None),
      ('gpt', f'turn left {number % 3}', True),
      ('human', 'There is a red ball.', None),
      ('gpt', 'go to red ball 1', True),
  )
  return {
      'item_id': f'babyai_{number}',
      'conversations': [
          {'from': speaker, 'value': value, 'loss': loss}
          for speaker, value, loss in said
      ],
  }


@pytest.fixture(scope='module')
def conversations(tmp_path_factory):
  path = tmp_path_factory.mktemp('data') / 'traj.jsonl'
  texts = [json.dumps(conversation(number)) for number in range(16)]
  texts[3] = texts[3][:-20]
  texts[5] = texts[5].replace('babyai_5', 'textcraft_5')
  path.write_text('\n'.join(texts) + '\n')
  return path


class Run(NamedTuple):
  """A run that has ended."""

  workdir: pathlib.Path
  config: str
  flags: tuple[str, ...]
  said: str  # by the process that its fixture names


@pytest.fixture(scope='module')
def sft(conversations, tmp_path_factory):
  run = tmp_path_factory.mktemp('runs') / 'sft'
  config = small('babyai_sft', f'data={conversations}')
  return Run(run, config, SMALL, finish(run, *SMALL, config=config))


@pytest.fixture(scope='module')
def dpo(tmp_path_factory):
  """It was ended by Ctrl-C, which `said` is from, and goes on after that."""
  run = tmp_path_factory.mktemp('runs') / 'dpo'
  config = small('babyai_dpo')
  flags = (*SMALL, *SHORT['dpo'])
  # What a run leaves that was killed before its first checkpoint.
  (run / 'episodes').mkdir(parents=True)
  np.savez(run / 'episodes' / 'pairs.npz', ref_logprobs=np.zeros((2, 3)))
  process = start(run, *flags, config=config)
  metrics = run / 'metrics.jsonl'
  wait_for(lambda: metrics.exists() and metrics.read_text(), process)
  process.send_signal(signal.SIGINT)
  said, _ = process.communicate(timeout=400)
  assert process.returncode == 130 and 'same command' in said, said
  finish(run, *flags, config=config)
  return Run(run, config, flags, said)


@pytest.fixture(scope='module')
def agentevol(tmp_path_factory):
  """It was killed, and `said` is from the process that continued."""
  run = tmp_path_factory.mktemp('runs') / 'agentevol'
  config = small('babyai_agentevol')
  flags = (*SMALL, *SHORT['agentevol'], '--config.checkpoint.keep_best=True')
  # What a run leaves that was killed before its first checkpoint.
  run.mkdir()
  (run / 'metrics.jsonl').write_text('{"step": 0, "policy/version": 7}\n')
  return Run(run, config, flags, finish_killed(run, *flags, config=config))


def test_sft_learns_from_a_file_and_goes_on_exactly(
    sft, conversations, tmp_path
):
  (whole, config, _, said), killed = sft, tmp_path / 'killed'
  assert f'Skipped: {conversations}, line 4: ' in said
  assert "of the environment 'textcraft'" in ' '.join(said.split())
  assert '14 records, 2 broken' in said
  assert summary_of(whole)['updates'] == 6
  evals = summary_of(whole)['eval']
  assert list(evals) == ['before', 'after']
  history = lines(whole / 'metrics.jsonl')
  assert history[0]['eval_before/success'] == evals['before']['mean']
  assert history[-1]['eval/success'] == evals['after']['mean']
  learnt = list(episodes_lib.read(whole / 'episodes' / 'demonstrations.jsonl'))
  assert [turn.completion for turn in learnt[1].turns] == [
      'turn left 1',
      'go to red ball 1',
  ]

  # Without evaluation: it takes no part in the learning.
  quick = ('--config.eval.num_tasks=0', '--config.checkpoint.every=1')
  finish_killed(killed, *quick, config=config, after=2)
  expected, found = (lines(run / 'metrics.jsonl') for run in (whole, killed))
  strip = lambda line: {
      k: v
      for k, v in line.items()
      if not k.startswith(('time', 'eval', 'train/compile', 'train/programs'))
  }
  assert [strip(line) for line in found] == [strip(line) for line in expected]
  assert (
      expected[-1]['policy/heldout_loss'] < expected[1]['policy/heldout_loss']
  )
  check_finished(whole, *SMALL, config=config)


def test_dpo_plays_pairs_and_prefers_and_goes_on_after_ctrl_c(dpo):
  run, config, flags, said = dpo
  assert '8 preference pairs' in said
  history = lines(run / 'metrics.jsonl')
  assert [line['step'] for line in history] == list(range(4))
  # A coin's loss, and the imitation's.
  coin = history[0]['policy/loss'] - history[0]['policy/nll']
  assert coin == pytest.approx(0.6931, abs=1e-3)
  assert history[-1]['preference/margin'] > 0
  assert list(summary_of(run)['eval']) == ['untrained', 'before', 'after']
  pairs = list(episodes_lib.read(run / 'episodes' / 'pairs.jsonl'))
  for better, worse in zip(pairs[::2], pairs[1::2], strict=True):
    assert better.task_id == worse.task_id
    assert better.episode_return > worse.episode_return
  check_finished(run, *flags, config=config)


def test_agentevol_goes_on_after_its_last_whole_round(agentevol):
  run, config, flags, said = agentevol
  assert 'Continuing after step 1' in said
  assert 'Training a tokenizer' not in said
  history = lines(run / 'metrics.jsonl')
  assert [line['step'] for line in history] == [0, 1]
  assert [line['policy/version'] for line in history] == [1, 2]
  assert history[1]['rollout/episodes'] == 8
  evals = summary_of(run)['eval']
  assert history[0]['eval_untrained/success'] == evals['untrained']['mean']
  assert history[0]['eval/success'] == evals['before']['mean']
  assert history[1]['eval/success'] == evals['after']['mean']
  assert list(summary_of(run)['eval']) == ['untrained', 'before', 'after']
  best = summary_of(run)['best']
  assert best['success'] == max(evals[x]['mean'] for x in ('before', 'after'))
  check_finished(run, *flags, config=config)
  found = workdir_lib.run_of(str(run / 'checkpoints' / 'best'))
  assert found == (run, best['checkpoint'])
  kept = run / 'rounds' / '1' / 'kept.jsonl'
  assert len(list(episodes_lib.read(kept))) == history[1]['filter/kept']


def test_what_they_trained_is_exported_and_evaluated(
    sft, dpo, agentevol, tmp_path
):
  folders = [tmp_path / run.workdir.name for run in (sft, dpo, agentevol)]
  for run, folder in zip((sft, dpo, agentevol), folders, strict=True):
    export(run.workdir, folder)
  # Each is a model by its folder's name, asked as it was in training.
  models = ';'.join(map(str, folders))
  evaluation = tmp_path / 'eval'
  said = finish(evaluation, config=f'configs/evaluate.py:model={models},n=2')
  assert said.count('babyai, all: success ') == 3  # in a pipe
  for folder in folders:
    found = summary_of(evaluation)['eval'][folder.name]
    assert found['babyai']['test']['n'] == 2
