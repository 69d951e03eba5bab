"""A policy that learns from a teacher, as a user trains it."""

import json

import numpy as np
import pytest

from tests.e2e.running import (
    finish,
    finish_killed,
    launch,
    lines,
    measured,
    small,
)

pytestmark = pytest.mark.slow
SFT = small('babyai_sft')
DISTILL = small('quickstart', 'algo=distill')
FLAGS = (
    '--config.warmstart.episodes=0',
    '--config.eval.num_tasks=0',
    '--config.rollout.tasks_per_step=2',
    '--config.rollout.group_size=1',
    '--config.sampler.max_running=2',
    '--config.sampler.deterministic=True',
)


@pytest.fixture(scope='module')
def base(tmp_path_factory):
  directory = tmp_path_factory.mktemp('runs') / 'base'
  finish(directory, '--config.eval.num_tasks=0', config=SFT)
  return directory


def trained_on(run, step):
  return np.load(run / 'episodes' / 'train' / f'{step:06d}.npz')


def test_a_killed_run_is_taught_the_same(base, tmp_path):
  """By its own start, which reads a hint."""
  flags = (
      *FLAGS,
      f'--config.model.name={base}',
      '--config.algo.teacher.hint=The ball is red.',
  )
  whole, killed = tmp_path / 'whole', tmp_path / 'killed'
  finish(whole, *flags, config=DISTILL)
  finish_killed(killed, *flags, config=DISTILL)
  expected = measured(whole / 'metrics.jsonl')
  assert measured(killed / 'metrics.jsonl') == expected
  assert len(expected) == 2
  for line in lines(whole / 'metrics.jsonl'):
    assert line['distill/reverse_kl'] != 0 and line['time/teach_s'] > 0
  kept = trained_on(killed, 1)
  sampled = np.isfinite(kept['teacher_logprobs'])
  np.testing.assert_allclose(
      kept['advantages'][sampled],
      (kept['teacher_logprobs'] - kept['old_logprobs'])[sampled],
      rtol=1e-5,
      atol=1e-6,
  )


def test_a_teacher_that_is_the_student_has_nothing_to_say(base, tmp_path):
  """Scores of an engine equal those of the trainer, and the policy stays."""
  finish(
      tmp_path / 'run',
      *FLAGS,
      f'--config.model.name={base}',
      f'--config.algo.teacher.model={base}',
      '--config.num_steps=1',
      config=DISTILL,
  )
  kept = trained_on(tmp_path / 'run', 0)
  sampled = np.isfinite(kept['teacher_logprobs'])
  assert sampled.sum() > 4
  np.testing.assert_allclose(
      kept['teacher_logprobs'][sampled],
      kept['old_logprobs'][sampled],
      atol=1e-4,
  )


def test_a_teacher_of_other_words_is_refused(base, tmp_path):
  """A tokenizer that was trained on the episodes of another environment."""
  other = tmp_path / 'other'
  finish(
      other,
      '--config.eval.num_tasks=0',
      '--config.data.expert_episodes=8',
      config=small('textcraft_sft', 'model=tiny-1m'),
  )
  result = launch(
      tmp_path / 'run',
      *FLAGS,
      f'--config.model.name={base}',
      f'--config.algo.teacher.model={other}',
      config=DISTILL,
  )
  assert result.returncode == 2
  assert 'has another tokenizer' in result.stderr
  summary = json.loads((tmp_path / 'run' / 'summary.json').read_text())
  assert (summary['status'], summary['steps']) == ('failed', 0)
