"""Tests for agentrl.evaluation.evaluate."""

import asyncio

import pytest

from agentrl.errors import EnvError
from agentrl.evaluation import statistics
from agentrl.evaluation.evaluate import as_metrics, seeded, summarise
from agentrl.rollout.collect import collect
from agentrl.types import Group
from tests import fakes


def run_evaluate(play, task_ids, **settings):
  settings = {'seed': 5, 'concurrency': 3, 'attempts': 1, **settings}
  samples, subtask = settings.pop('samples', 1), settings.pop('subtask', None)
  seed = settings['seed']
  tasks = list(enumerate(task_ids))
  groups = asyncio.run(collect(tasks, samples, seeded(play, seed), **settings))
  return summarise(groups, seed=seed, subtask=subtask), groups


def record(assignment, success, **fields):
  return fakes.make_episode(
      (float(success),),
      task_id=assignment.task_id,
      seed=assignment.seed,
      episode_id=f'{assignment.task_id}/{assignment.replica}',
      **fields,
  )


async def even_succeed(assignment):
  return record(assignment, assignment.task_id % 2 == 0)


def test_success_comes_with_wilsons_interval():
  summary, groups = run_evaluate(even_succeed, [4, 1, 2, 6])
  low, high = statistics.wilson_interval(3, 4)
  assert summary == {
      'mean': 0.75,
      'low': low,
      'high': high,
      'n': 4,
      'tasks': 4,
      'invalid': 0,
      'return_mean': 0.75,
      'turns_mean': 1.0,
  }
  assert [group.task_id for group in groups] == [4, 1, 2, 6]


def test_invalid_episodes_are_counted_and_no_zeros():
  async def play(assignment):
    if assignment.task_id == 1:
      return record(assignment, False, stop_reason='env_error', error='down')
    return record(assignment, True)

  summary, _ = run_evaluate(play, [1, 2, 3])
  assert (summary['mean'], summary['n'], summary['invalid']) == (1.0, 2, 1)


def test_dead_environment_is_an_error():
  async def play(assignment):
    return record(assignment, False, stop_reason='env_error', error='down')

  with pytest.raises(EnvError, match='down'):
    run_evaluate(play, [1, 2, 3])


def test_no_valid_episode_gives_no_mean():
  summary = summarise([fakes.make_group(None)], seed=0)
  assert summary['mean'] is None
  assert (summary['low'], summary['high']) == (0.0, 1.0)
  assert (summary['n'], summary['invalid']) == (0, 1)


def test_seed_of_an_episode_depends_on_task_and_replica_only():
  def seeds_of(task_ids, **settings):
    _, groups = run_evaluate(even_succeed, task_ids, samples=2, **settings)
    return {e.episode_id: e.seed for g in groups for e in g.episodes}

  many, few = seeds_of([4, 1, 2, 6]), seeds_of([2, 1])
  assert len(set(many.values())) == 8
  assert few == {k: v for k, v in many.items() if k in few}
  assert not set(many.values()) & set(seeds_of([4, 1, 2, 6], seed=6).values())


def test_subtasks_have_a_row_each():
  kind = lambda task_id: 'even' if task_id % 2 == 0 else 'odd'
  summary, _ = run_evaluate(even_succeed, [4, 1, 2, 6], subtask=kind)
  rows = summary['subtasks']
  assert {k: (r['mean'], r['n']) for k, r in rows.items()} == {
      'even': (1.0, 3),
      'odd': (0.0, 1),
  }


def test_a_summary_has_metrics():
  kind = lambda task_id: 'even' if task_id % 2 == 0 else 'odd'
  summary, _ = run_evaluate(even_succeed, [4, 1, 2, 6], subtask=kind)
  assert as_metrics(summary, 'eval') == {
      'eval/success': 0.75,
      'eval/success_low': summary['low'],
      'eval/success_high': summary['high'],
      'eval/episodes': 4.0,
      'eval/invalid': 0.0,
      'eval/return_mean': 0.75,
      'eval/turns_mean': 1.0,
      'eval/even/success': 1.0,
      'eval/odd/success': 0.0,
  }
  # Means of nothing are left out.
  nothing = as_metrics(summarise([], seed=0), 'eval_before')
  assert nothing['eval_before/episodes'] == 0
  assert 'eval_before/success' not in nothing


def test_several_samples_are_averaged_by_task():
  def outcomes(task_id, *successes):
    return Group(
        task_id,
        task_id,
        tuple(fakes.make_episode((float(s),)) for s in successes),
    )

  groups = [outcomes(0, 1, 0), outcomes(1, 0, 0), outcomes(2, 1, 1)]
  summary = summarise(groups, seed=0)
  assert summary['mean'] == pytest.approx(0.5)
  assert (summary['n'], summary['tasks']) == (6, 3)
  assert (summary['low'], summary['high']) == statistics.bootstrap_interval(
      [0.5, 0.0, 1.0], seed=0
  )
  assert as_metrics(summary, 'eval')['eval/pass_at_2'] == pytest.approx(2 / 3)
  # pass@2: tasks 0 and 2 succeed in at least one of their two.
  assert summary['pass_at_k'] == pytest.approx({'1': 0.5, '2': 2 / 3})
