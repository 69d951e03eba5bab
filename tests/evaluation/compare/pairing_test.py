"""Properties of paired rows, and oracles for what follows from them."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.evaluation.compare import pairing
from agentrl.evaluation.compare.sides import Side
from tests.evaluation import recording

OUTCOMES = st.sampled_from([True, False, None])


def sides_of(data, *, tasks=5, samples=2):
  draw = lambda: data.draw(
      st.lists(
          st.lists(OUTCOMES, min_size=samples, max_size=samples),
          min_size=tasks,
          max_size=tasks,
      )
  )
  subtasks = tuple('xyxyx')[:tasks]
  return [
      recording.side(draw(), label=label, subtasks=subtasks) for label in 'ab'
  ]


def rows_of(a, b):
  panels = a.runs[0].panels
  found = pairing.adjusted(list(pairing.compare_sides(a, b, panels, seed=0)))
  return {(row.metric, row.subtask): row for row in found}


@given(data=st.data())
@settings(max_examples=25)
def test_exchanged_sides_mirror(data):
  a, b = sides_of(data)
  ours, theirs = rows_of(a, b), rows_of(b, a)
  assert ours.keys() == theirs.keys()
  minus = lambda x: None if x is None else pytest.approx(-x)
  for key, row in ours.items():
    other = theirs[key]
    assert row.p_value == other.p_value and row.p_holm == other.p_holm
    assert (row.won, row.lost) == (other.lost, other.won)
    assert (row.mean_a, row.mean_b) == (other.mean_b, other.mean_a)
    assert row.difference == minus(other.difference)
    assert (row.low, row.high) == (minus(other.high), minus(other.low))


@given(data=st.data())
@settings(max_examples=25)
def test_rows_of_subtasks_add_up(data):
  a, b = sides_of(data)
  rows = rows_of(a, b)
  for metric in ('success', 'success_errors_fail'):
    whole, *parts = (rows[metric, name] for name in ('all', 'x', 'y'))
    counts = ('won', 'lost', 'both', 'neither', 'missing', 'pairs', 'tasks')
    for name in counts:
      total = sum(getattr(part, name) for part in parts)
      assert getattr(whole, name) == total, name
    assert whole.pairs + whole.missing == 10
    outcomes = ('won', 'lost', 'both', 'neither')
    assert whole.pairs == sum(getattr(whole, name) for name in outcomes)
  assert rows['success_errors_fail', 'all'].missing == 0


@given(data=st.data())
@settings(max_examples=25)
def test_episode_ids_are_as_many_as_the_row_counts(data):
  a, b = sides_of(data)
  row = rows_of(a, b)['success', 'all']
  found = pairing.episode_outcomes(a, b, 'textcraft')
  seen = []
  for name in ('won', 'lost', 'both', 'neither', 'missing'):
    pairs = getattr(found, name)
    assert len(pairs) == getattr(row, name)
    seen += [(pair.task_id, pair.sample) for pair in pairs]
    for pair in pairs:
      key = f'{pair.task_id}-{pair.sample}'
      assert (pair.a, pair.b) == (f'a-{key}', f'b-{key}')
      assert pair.subtask == 'xyxyx'[pair.task_id]
  assert sorted(seen) == [(task, s) for task in range(5) for s in range(2)]


def row_with(
    p_value, *, env='e', subtask='all', a='a', b='b', metric='success'
):
  return pairing.PairedRow(
      env=env, subtask=subtask, a=a, b=b, metric=metric, p_value=p_value
  )


def holm_of(rows):
  return [
      (row.p_holm and round(row.p_holm, 9), row.holm_family, row.holm_tests)
      for row in pairing.adjusted(rows)
  ]


def test_all_tasks_are_adjusted_for_the_pairs_of_sides():
  pairs = [('a', 'b'), ('a', 'c'), ('b', 'c')]
  rows = [
      row_with(p, a=a, b=b)
      for p, (a, b) in zip((0.02, 0.01, 0.5), pairs, strict=True)
  ]
  # 3 * 0.01, 2 * 0.02, 1 * 0.5.
  expected = [(0.04, 'pairs', 3), (0.03, 'pairs', 3), (0.5, 'pairs', 3)]
  assert holm_of(rows) == expected
  # The order of rows, other environments and other metrics change nothing.
  others = [
      row_with(0.001, env='other', a='a', b='b'),
      row_with(0.001, metric='return', a='a', b='b'),
  ]
  assert holm_of([*rows[::-1], *others])[:3] == expected[::-1]
  # A pair without a valid episode has no test.
  rows[2] = row_with(None, a='b', b='c')
  expected = [(0.02, 'pairs', 2), (0.02, 'pairs', 2), (None, None, None)]
  assert holm_of(rows) == expected


def test_subtasks_are_adjusted_for_all_of_every_pair():
  rows = [
      row_with(p, b=b, subtask=subtask)
      for b, p_values in (('b', (0.5, 0.01, 0.02)), ('c', (0.4, 0.03, 0.04)))
      for subtask, p in zip(('all', 'x', 'y'), p_values, strict=True)
  ]
  both = 'pairs and subtasks'
  assert holm_of(rows) == [
      (0.8, 'pairs', 2),
      (0.04, both, 4),
      (0.06, both, 4),
      (0.8, 'pairs', 2),
      (0.06, both, 4),
      (0.06, both, 4),
  ]
  # One pair alone: its subtasks, and nothing to adjust all tasks for.
  assert holm_of(rows[:3]) == [
      (None, None, None),
      (0.02, 'subtasks', 2),
      (0.02, 'subtasks', 2),
  ]


def test_one_kind_of_task_has_no_row_of_its_own():
  a = recording.side([[1], [0]], subtasks=('x', 'x'))
  b = recording.side([[0], [0]], label='b', subtasks=('x', 'x'))
  assert {subtask for _, subtask in rows_of(a, b)} == {'all'}


def test_a_part_of_one_template_counts_tasks():
  # As the report of the same data does, see `rows`.
  outcomes = {'a': [[1]] * 40, 'b': [[1]] * 8 + [[0]] * 32}
  sides = lambda **fields: [
      recording.side(each, label=label, **fields)
      for label, each in outcomes.items()
  ]
  plain = rows_of(*sides())['success', 'all']
  assert (plain.test, plain.p_value) == ('mcnemar', 2 * 0.5**32)
  assert rows_of(*sides(clusters=('one',) * 40))['success', 'all'] == plain
  # Each subtask has one template, and all tasks have two.
  kinds = tuple('x' * 20 + 'y' * 20)
  naive, found = (
      rows_of(*sides(subtasks=kinds, clusters=clusters))
      for clusters in (None, kinds)
  )
  for kind in 'xy':
    assert found['success', kind] == naive['success', kind]
  assert found['success', 'all'].test == 'permutation'


def test_a_side_of_several_runs_has_their_mean():
  runs = np.random.default_rng(0).integers(0, 2, (3, 6, 2))
  sides = [recording.side(outcomes.tolist()) for outcomes in runs]
  many = Side('a', [side.runs[0] for side in sides])
  b = recording.side([[0, 0]] * 6, label='b')
  row = rows_of(many, b)['success', 'all']
  assert row.difference == pytest.approx(runs.mean())
  assert (row.won, row.pairs, row.test) == (None, 12, 'permutation')


def test_a_runs_failure_leaves_its_pair_to_the_other_runs():
  ours = [recording.side(outcomes) for outcomes in ([[None]], [[1]])]
  many = Side('a', [side.runs[0] for side in ours])
  assert pairing.values_of(many, 'textcraft', 'success') == {(0, 0): 1.0}
  found = pairing.values_of(many, 'textcraft', 'success_errors_fail')
  assert found == {(0, 0): 0.5}


def test_a_score_is_a_mean_over_tasks():
  [run] = recording.side([[1, None], [0, 1], [None, None]]).runs
  assert pairing.score(run, 'textcraft', 'success') == 0.75
  assert pairing.score(run, 'textcraft', 'progress') is None
  assert pairing.score(run, 'textcraft', 'success_errors_fail') == (
      pytest.approx((0.5 + 0.5 + 0) / 3)
  )
