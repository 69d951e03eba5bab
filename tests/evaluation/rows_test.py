"""Tests for agentrl.evaluation.rows, with NumPy's means as the oracle."""

import dataclasses
import itertools

import numpy as np
import pytest

from agentrl.evaluation import evaluate, results, rows
from agentrl.evaluation.results import ALL, Panel
from agentrl.evaluation.stats import intervals
from agentrl.types import Group
from tests import fakes

SUBTASKS = ('b', 'a', 'a', 'b', 'a')


def panel_of(count=5, **fields):
  values = dict(
      env='fake',
      options={},
      split='test',
      task_file=None,
      task_ids=tuple(range(10, 10 + count)),
      subtasks=SUBTASKS[:count],
      clusters=None,
      samples=3,
      seed=0,
      horizon=9,
      success='reward 1.',
      hash='00',
  )
  return Panel(**(values | fields))


def episode(success, turns=1, progress=None, valid=True):
  """An episode whose last turn has the reward."""
  made = [
      fakes.make_turn(
          float(success) if i == turns - 1 else 0.0,
          completion_tokens=2,
          prompt_tokens=4 + i,
          progress=progress,
      )
      for i in range(turns)
  ]
  mask = (False,) * 4 + (True, True, False) * turns
  failed = {} if valid else {'stop_reason': 'env_error', 'error': 'down'}
  return fakes.make_episode(
      turns=tuple(made),
      success=bool(success),
      tokens=tuple(range(len(mask))),
      completion_mask=mask,
      sampler_logprobs=(0.0,) * len(mask),
      **failed,
  )


def groups_of(tasks, panel):
  return [
      Group(task_id, i, tuple(episodes))
      for i, (task_id, episodes) in enumerate(
          zip(panel.task_ids, tasks, strict=True)
      )
  ]


def random_tasks(seed):
  """Outcomes `[tasks, 3]`, turns and validity, and the episodes."""
  rng = np.random.default_rng(seed)
  shape = (len(SUBTASKS), 3)
  success, valid = rng.random(shape) < 0.5, rng.random(shape) < 0.8
  turns = rng.integers(1, 5, shape)
  valid[:, 0] = True
  tasks = [
      [
          episode(success[i, k], turns[i, k], valid=valid[i, k])
          for k in range(shape[1])
      ]
      for i in range(shape[0])
  ]
  return success, valid, turns, tasks


def mean_over_tasks(values, valid):
  """The mean over tasks of each task's mean valid sample."""
  masked = np.where(valid, values, np.nan)
  return np.nanmean(np.nanmean(masked, axis=1))


def test_tasks_without_a_valid_episode_are_counted_by_why():
  unfit = fakes.make_episode(
      turns=(),
      success=False,
      stop_reason='context',
      error='no room',
      tokens=(1,),
      completion_mask=(False,),
      sampler_logprobs=(0.0,),
  )
  cut = dataclasses.replace(episode(False), stop_reason='context')
  down = episode(False, valid=False)
  tasks = [[unfit] * 2, [down, unfit], [down, down], [cut, cut], [down, cut]]
  panel = panel_of(samples=2)
  found = rows.of_panel('p', panel, groups_of(tasks, panel))
  by_name = {row.subtask: row for row in found}
  assert by_name[ALL].not_played == {'context': 2, 'env_error': 1}
  # SUBTASKS: b is of the first and fourth task.
  assert by_name['b'].not_played == {'context': 1}
  assert by_name['a'].not_played == {'context': 1, 'env_error': 1}
  for row in found:
    played = row.tasks + sum(row.not_played.values())
    assert played == (5 if row.subtask == ALL else SUBTASKS.count(row.subtask))
  summary = evaluate.summarise(found)
  assert summary['not_played'] == by_name[ALL].not_played
  assert summary['subtasks']['b']['not_played'] == {'context': 1}
  whole = rows.of_panel('p', panel, groups_of([[cut, down]] * 5, panel))
  assert 'not_played' not in evaluate.summarise(whole)


@pytest.mark.parametrize('seed', range(5))
def test_means_are_over_tasks_and_errors_count_both_ways(seed):
  success, valid, turns, tasks = random_tasks(seed)
  panel = panel_of()
  found = rows.of_panel('p', panel, groups_of(tasks, panel))
  assert [row.subtask for row in found] == ['a', 'b', ALL]
  for row in found:
    wanted = np.array([row.subtask in (ALL, name) for name in SUBTASKS])
    s, v, t = success[wanted], valid[wanted], turns[wanted]
    assert (row.env, row.policy) == ('fake', 'p')
    assert (row.n, row.tasks) == (v.sum(), len(s))
    assert row.errors == (~v).sum()
    close = pytest.approx
    assert row.success.mean == close(mean_over_tasks(s, v))
    assert row.success_errors_fail.mean == close((s & v).mean())
    assert row.ret.mean == close(mean_over_tasks(s, v))
    assert row.turns == close(mean_over_tasks(t, v))
    assert row.completion_tokens == close(mean_over_tasks(2 * t, v))
    # Each turn's prompt is one token longer than the last.
    prompts = 4 * t + t * (t - 1) / 2
    assert row.prompt_tokens == close(mean_over_tasks(prompts, v))
    assert row.progress is None and row.cost is None
    assert sum(row.stop_reasons.values()) == s.size
    assert row.stop_reasons.get('env_error', 0) == row.errors


def test_success_in_k_tries_is_the_share_of_subsets():
  outcomes = [(1, 0, 0), (1, 1, 0), (0, 0, 0)]
  panel = panel_of(3)
  tasks = [[episode(s) for s in task] for task in outcomes]
  row = rows.of_panel('p', panel, groups_of(tasks, panel))[-1]
  assert list(row.pass_at_k) == list(row.pass_hat_k) == ['1', '2', '3']
  for k in (1, 2, 3):
    pairs = [list(itertools.combinations(task, k)) for task in outcomes]
    some = np.mean([np.mean([any(x) for x in task]) for task in pairs])
    every = np.mean([np.mean([all(x) for x in task]) for task in pairs])
    assert row.pass_at_k[str(k)].mean == pytest.approx(some)
    assert row.pass_hat_k[str(k)].mean == pytest.approx(every)
  assert row.pass_at_k['1'].mean == pytest.approx(row.success.mean)


def test_the_interval_knows_the_clusters():
  # Templates of two tasks that agree: half as many independent outcomes.
  count, success = 40, [i // 2 % 2 for i in range(40)]
  panel = panel_of(
      count,
      subtasks=('a',) * count,
      clusters=tuple(str(i // 2) for i in range(count)),
      samples=1,
  )
  groups = groups_of([[episode(s)] for s in success], panel)
  clustered = rows.of_panel('p', panel, groups)[-1].success
  panel = panel_of(count, subtasks=panel.subtasks, samples=1)
  naive = rows.of_panel('p', panel, groups)[-1].success
  assert naive.method == 'wilson' and clustered.method == 'clustered'
  width = lambda figure: figure.high - figure.low
  assert width(clustered) > 1.3 * width(naive)
  expected = intervals.mean_interval(
      [[float(s)] for s in success],
      clusters=[i // 2 for i in range(count)],
      bounds=(0, 1),
  )
  assert clustered == results.Figure.of(expected)


def test_the_smallest_difference_is_that_of_the_interval():
  count = 100
  panel = panel_of(count, subtasks=('a',) * count, samples=1)
  groups = groups_of([[episode(i % 2)] for i in range(count)], panel)
  row = rows.of_panel('p', panel, groups)[-1]
  low, high = row.success.low, row.success.high
  interval = intervals.Interval(row.success.mean, low, high, 'wilson')
  assert row.detectable == intervals.detectable_difference(
      interval, paired=False
  )
  # (z(0.975) + z(0.8)) sqrt(2 * 0.25 / 100) = 2.80 * 0.0707
  assert row.detectable == pytest.approx(0.198, abs=0.005)


def test_progress_of_an_episode_that_reports_none_is_zero_where_others_do():
  panel = panel_of(2, samples=2)
  tasks = [
      [episode(1, progress=1.0), episode(0, turns=3, progress=0.25)],
      [episode(0), episode(0, progress=0.5)],
  ]
  row = rows.of_panel('p', panel, groups_of(tasks, panel))[-1]
  assert row.progress.mean == pytest.approx(np.mean([1.25 / 2, 0.25]))


def test_a_row_without_a_valid_episode_has_no_figures():
  panel = panel_of(2, samples=1)
  tasks = [[episode(0, valid=False)], [episode(1)]]
  b, a, whole = (
      rows.of_panel('p', panel, groups_of(tasks, panel))[i] for i in (1, 0, 2)
  )
  assert (b.n, b.tasks, b.errors) == (0, 0, 1)
  assert b.success is b.ret is b.turns is b.detectable is None
  assert b.success_errors_fail is None and b.pass_at_k == {}
  assert (a.n, a.success.mean) == (1, 1.0)
  # Of the two tasks one was not played: a failure, or nothing.
  assert (whole.success.mean, whole.success_errors_fail.mean) == (1.0, 0.5)


def test_what_failed_was_paid_for():
  panel = panel_of(2, samples=1)
  groups = groups_of([[episode(1)], [episode(0, valid=False)]], panel)
  price = lambda episodes: 0.5 * len(episodes)
  assert rows.of_panel('p', panel, groups, price=price)[-1].cost == 1.0


def test_a_count_that_a_server_left_out_is_no_zero():
  panel = panel_of(2, samples=1)
  first, second = episode(1), episode(0)
  [turn] = second.turns
  turn = dataclasses.replace(turn, prompt_tokens=None)
  second = dataclasses.replace(second, turns=(turn,))
  row = rows.of_panel('p', panel, groups_of([[first], [second]], panel))[-1]
  assert row.prompt_tokens is None and row.completion_tokens == 2.0


def test_a_row_of_one_template_counts_tasks():
  # All kinds `a` are of one template, which is no reason for one trial.
  clusters = ('x', 'one', 'one', 'y', 'one')
  panel = panel_of(5, samples=1, clusters=clusters)
  groups = groups_of([[episode(x)] for x in (1, 1, 0, 0, 1)], panel)
  found = {
      row.subtask: row.success for row in rows.of_panel('p', panel, groups)
  }
  expected = intervals.mean_interval([[1], [0], [1]], bounds=(0, 1))
  assert found['a'] == results.Figure.of(expected)
  whole = intervals.mean_interval(
      [[1], [1], [0], [0], [1]], clusters=clusters, bounds=(0, 1)
  )
  assert found[ALL] == results.Figure.of(whole)


def test_groups_of_another_panel_are_refused():
  panel = panel_of(2)
  groups = groups_of([[episode(1)], [episode(0)]], panel)
  with pytest.raises(ValueError, match='other tasks'):
    rows.of_panel('p', panel, groups[::-1])


def test_attempts_have_figures_of_their_own_and_no_pass_at_k():
  panel = panel_of(4, samples=2, attempts=2)
  first = [[1, 0], [0, 0], [1, 1], [0, None]]
  second = [[1, 1], [0, 1], [1, 1], [0, 0]]
  tasks = [
      [
          dataclasses.replace(
              episode(value or 0, valid=value is not None), attempt=attempt
          )
          for attempt, found in enumerate((a, b))
          for value in found
      ]
      for a, b in zip(first, second, strict=True)
  ]
  [*_, whole] = rows.of_panel('p', panel, groups_of(tasks, panel))
  mean = lambda found: np.mean([
      np.mean([x for x in task if x is not None]) for task in found
  ])  # fmt: skip
  assert whole.n == 15 and whole.pass_at_k == whole.pass_hat_k == {}
  for number, found in (('1', first), ('2', second)):
    attempt = whole.attempts[number]
    expected = intervals.mean_interval(
        [[x for x in task if x is not None] for task in found], bounds=(0, 1)
    )
    assert attempt.success == results.Figure.of(expected)
    assert attempt.success.mean == attempt.ret.mean == mean(found)
  summary = evaluate.summarise([whole])
  assert summary['success_attempt_2'] == mean(second)
  metrics = evaluate.as_metrics(summary, 'eval')
  assert metrics['eval/return_attempt_1'] == mean(first)


def test_turns_are_those_that_the_horizon_counts():
  panel = panel_of(1, samples=1)
  played = episode(1, turns=3)
  plan = dataclasses.replace(played.turns[0], kind='plan', action='')
  played = dataclasses.replace(played, turns=(plan, *played.turns[1:]))
  [*_, whole] = rows.of_panel('p', panel, groups_of([[played]], panel))
  assert whole.turns == 2 and whole.completion_tokens == 6
