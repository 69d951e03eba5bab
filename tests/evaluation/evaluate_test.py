"""Tests for agentrl.evaluation.evaluate."""

import asyncio

import pytest

from agentrl.errors import EnvError
from agentrl.evaluation import rows as rows_lib
from agentrl.evaluation.evaluate import as_metrics, best, seeded, summarise
from agentrl.rollout.collect import collect, rollout_metrics
from agentrl.types import Group
from tests import fakes
from tests.evaluation import recording


def rows_of(groups, kind=lambda task_id: 'easy', samples=1):
  task_ids = [group.task_id for group in groups]
  panel = recording.panel(
      task_ids=task_ids, samples=samples, subtasks=tuple(map(kind, task_ids))
  )
  return rows_lib.of_panel('policy', panel, groups)


def run_evaluate(play, task_ids, **settings):
  settings = {'seed': 5, 'concurrency': 3, 'attempts': 1, **settings}
  samples, kind = settings.pop('samples', 1), settings.pop('kind', None)
  tasks = list(enumerate(task_ids))
  play = seeded(play, settings['seed'])
  groups = asyncio.run(collect(tasks, samples, play, **settings))
  extra = {'kind': kind} if kind else {}
  return summarise(rows_of(groups, samples=samples, **extra)), groups


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


def test_figures_are_those_of_the_rows():
  summary, groups = run_evaluate(even_succeed, [4, 1, 2, 6])
  easy, whole = rows_of(groups)
  success = {
      'mean': 0.75,
      'low': whole.success.low,
      'high': whole.success.high,
      'n': 4,
      'tasks': 4,
  }
  assert summary == success | {
      'invalid': 0,
      'return_mean': 0.75,
      'turns_mean': 1.0,
      'subtasks': {'easy': success},
  }
  assert easy.success == whole.success
  assert [group.task_id for group in groups] == [4, 1, 2, 6]


# As README and the experiments have them, of 256 tasks.
@pytest.mark.parametrize(
    'solved, low, high',
    [
        (0, '0.000', '0.014'),
        (129, '0.443', '0.565'),
        (146, '0.509', '0.629'),
        (158, '0.556', '0.675'),
        (165, '0.584', '0.701'),
        (214, '0.786', '0.876'),
        (231, '0.860', '0.933'),
    ],
)
def test_intervals_are_those_of_the_recorded_runs(solved, low, high):
  groups = [
      Group(i, i, (fakes.make_episode((float(i < solved),)),))
      for i in range(256)
  ]
  summary = summarise(rows_of(groups))
  assert (f'{summary["low"]:.3f}', f'{summary["high"]:.3f}') == (low, high)


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
  summary = summarise(rows_of([fakes.make_group(None)]))
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
  summary, _ = run_evaluate(even_succeed, [4, 1, 2, 6], kind=kind)
  rows = summary['subtasks']
  assert {k: (r['mean'], r['n']) for k, r in rows.items()} == {
      'even': (1.0, 3),
      'odd': (0.0, 1),
  }


def test_a_summary_has_metrics():
  kind = lambda task_id: 'even' if task_id % 2 == 0 else 'odd'
  summary, _ = run_evaluate(even_succeed, [4, 1, 2, 6], kind=kind)
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
  failed = summarise(rows_of([fakes.make_group(None)]))
  nothing = as_metrics(failed, 'eval_before')
  assert nothing['eval_before/episodes'] == 0
  assert 'eval_before/success' not in nothing


def test_progress_is_a_figure_where_it_is_reported():
  turns = (fakes.make_turn(progress=0.25), fakes.make_turn(progress=0.5))
  episode = fakes.make_episode((0.0, 0.0), turns=turns)
  summary = summarise(rows_of([Group(0, 0, (episode,))]))
  assert summary['progress_mean'] == 0.5
  assert as_metrics(summary, 'eval')['eval/progress_mean'] == 0.5
  metrics = rollout_metrics([Group(0, 0, (episode,))], 2)
  assert metrics['rollout/progress'] == 0.5


def test_several_samples_are_averaged_by_task():
  def outcomes(task_id, *successes):
    return Group(
        task_id,
        task_id,
        tuple(fakes.make_episode((float(s),)) for s in successes),
    )

  groups = [outcomes(0, 1, 0), outcomes(1, 0, 0), outcomes(2, 1, 1)]
  rows = rows_of(groups, samples=2)
  summary = summarise(rows)
  assert summary['mean'] == pytest.approx(0.5)
  assert (summary['n'], summary['tasks']) == (6, 3)
  ends = summary['low'], summary['high']
  assert ends == (rows[-1].success.low, rows[-1].success.high)
  assert as_metrics(summary, 'eval')['eval/pass_at_2'] == pytest.approx(2 / 3)
  # pass@2: tasks 0 and 2 succeed in at least one of their two.
  assert summary['pass_at_k'] == pytest.approx({'1': 0.5, '2': 2 / 3})


def kept(mean, checkpoint, **settings):
  values = {'panel': 'a', 'horizon': 6, 'temperature': 1.0}
  return values | {'mean': mean, 'checkpoint': checkpoint} | settings


def test_the_best_evaluation_is_the_first_of_equal_ones():
  evals = {
      'untrained': kept(0.9, None),  # its weights are nowhere
      'before': kept(0.2, 0),
      'step_2': kept(None, 2),  # no valid episode
      'step_4': kept(0.5, 4),
      'step_6': kept(0.5, 6),
      'step_8': kept(0.7, 8),
  }
  assert best(evals, {0, 2, 4, 6, 8}) == 'step_8'
  assert best(evals, {0, 2, 4, 6}) == 'step_4'
  assert best(evals, {6, 0}) == 'step_6'
  assert best(evals, {2}) is best({}, {0}) is None
  # A run of an earlier version has no numbers.
  assert best({'before': {'mean': 0.5}}, {0}) is None


@pytest.mark.parametrize(
    'other', [{'panel': 'b'}, {'horizon': 9}, {'temperature': 0.0}]
)
def test_only_evaluations_at_the_settings_of_the_last_one_compare(other):
  evals = {'before': kept(0.9, 0, **other), 'step_2': kept(0.1, 2)}
  assert best(evals, {0, 2}) == 'step_2'
