"""Tests for agentrl.evaluation.compare.matrix."""

import itertools

import numpy as np
import pytest
from scipy import stats

from agentrl.evaluation.compare import matrix, record, report
from agentrl.evaluation.compare.sides import Side
from tests.evaluation import recording

RATES = {'low': 0.2, 'mid': 0.5, 'high': 0.9}


def make(count=40, **fields):
  """Sides of one run each, and what each of them solved."""
  rng = np.random.default_rng(0)
  solved = {name: rng.random(count) < rate for name, rate in RATES.items()}
  sides = [
      recording.side([[int(x)] for x in each], label=name, **fields)
      for name, each in solved.items()
  ]
  return sides, solved


def holm(p_values):
  """Step-down, one at a time."""
  order = sorted(range(len(p_values)), key=lambda i: p_values[i])
  adjusted, worst = {}, 0.0
  for place, i in enumerate(order):
    worst = max(worst, min(1.0, (len(order) - place) * p_values[i]))
    adjusted[i] = worst
  return [adjusted[i] for i in range(len(p_values))]


def test_all_pairs_are_mcnemars_with_holm_and_the_best_first():
  sides, solved = make()
  (found,) = matrix.compare(sides, seed=0)
  names = [each.label for each in found.standings]
  assert names == ['high', 'mid', 'low']
  assert [each.mean for each in found.standings] == pytest.approx(
      [solved[name].mean() for name in names]
  )
  pairs = list(itertools.combinations(names, 2))
  assert [(row.a, row.b) for row in found.rows] == pairs
  p_values = []
  for row, (a, b) in zip(found.rows, pairs, strict=True):
    won = int((solved[a] & ~solved[b]).sum())
    lost = int((solved[b] & ~solved[a]).sum())
    p_values.append(stats.binomtest(won, won + lost).pvalue)
    assert (row.won, row.lost, row.tasks) == (won, lost, 40)
    assert row.difference == pytest.approx((won - lost) / 40)
    assert row.low <= row.difference <= row.high
    assert row.p_value == pytest.approx(p_values[-1])
  assert [row.p_holm for row in found.rows] == pytest.approx(holm(p_values))
  assert not found.seed_rows and not found.refused


def test_a_panel_of_one_template_counts_tasks():
  plain, single = (
      matrix.compare(make(clusters=clusters)[0], seed=0)
      for clusters in (None, ('one',) * 40)
  )
  assert plain == single


def test_a_row_turned_twice_is_itself():
  (found,) = matrix.compare(make()[0], seed=0)
  row = found.rows[0]
  turned = matrix.turned(row)
  assert (turned.won, turned.low) == (row.lost, -row.high)
  assert matrix.turned(turned) == row


def test_the_matrix_of_a_comparison_is_the_same():
  sides, _ = make()
  policies = [side.runs[0] for side in sides]
  compared = record.compare_policies(policies, seed=0)
  assert report.matrices(compared) == matrix.compare(sides, seed=0)
  text = report.to_markdown(compared)
  assert '## textcraft: all pairs, by success' in text
  assert '| policy | success | 95% over tasks | tasks | - mid | - low |' in text
  rows = report.matrix_csv(report.matrices(compared)).splitlines()
  assert len(rows) == 4 and rows[1].startswith('textcraft,high,mid,0.')
  two = record.compare_policies(policies[:2], seed=0)
  assert report.matrices(two) == []
  assert 'all pairs, by success' not in report.to_markdown(two)


def test_panels_nest_and_others_are_refused():
  (low, mid, _), solved = make()
  small = recording.side([[int(x)] for x in solved['high'][:30]], label='small')
  other = recording.side([[1]] * 40, label='other', seed=5)
  (found,) = matrix.compare([low, mid, small, other], seed=0)
  tasks = {(row.a, row.b): row.tasks for row in found.rows}
  assert tasks == {('small', 'mid'): 30, ('small', 'low'): 30,
                   ('mid', 'low'): 40}  # fmt: skip
  assert {(each.a, each.b) for each in found.refused} == {
      (name, 'other') for name in ('low', 'mid', 'small')
  }
  assert 'different panels' in found.refused[0].why
  assert {row.holm_tests for row in found.rows} == {3}


def test_sides_of_several_runs_have_intervals_over_seeds():
  rng = np.random.default_rng(1)
  shares, sides = {}, []
  for name, rate, runs in (('a', 0.4, 4), ('b', 0.6, 3), ('c', 0.5, 1)):
    solved = rng.random((runs, 24)) < rate
    shares[name] = solved.mean(1)
    made = [recording.side([[int(x)] for x in run]).runs[0] for run in solved]
    sides.append(Side(name, made))
  (found,) = matrix.compare(sides, seed=0)
  by_label = {each.label: each for each in found.standings}
  ends = stats.ttest_1samp(shares['a'], 0).confidence_interval(0.95)
  a = by_label['a']
  assert (a.seed_low, a.seed_high) == pytest.approx(tuple(ends))
  assert a.mean == pytest.approx(shares['a'].mean())
  assert by_label['c'].seed_low is None
  (row,) = found.seed_rows  # a single run has no spread over seeds
  first, second = shares[row.a], shares[row.b]
  welch = stats.ttest_ind(first, second, equal_var=False)
  assert (row.mean_low, row.mean_high) == pytest.approx(
      tuple(welch.confidence_interval(0.95))
  )
  frame = {(x['a'], x['b']): x for x in matrix.frame(found)}
  assert frame[row.a, row.b]['seed_low'] == row.mean_low
  assert frame[row.a, row.b]['won'] is None


def test_equal_runs_have_no_interval_over_seeds():
  sides = []
  for name, solved in (('a', 16), ('b', 20)):
    run = recording.side([[int(i < solved)] for i in range(24)]).runs[0]
    sides.append(Side(name, [run, run]))
  (found,) = matrix.compare(sides, seed=0)  # a row that is turned
  [row] = matrix.frame(found)
  assert (row['a'], row['seeds'], row['seed_low']) == ('b', 2, None)
  assert row['p_value'] > 0.05 and row['difference'] > 0
  a, b = (side.runs for side in sides)
  compared = record.compare_algorithms(a, b, seed=0)
  assert b'NaN' not in record.to_json(compared)
  assert '| not known |' in report.to_markdown(compared)


def test_runs_of_one_side_on_other_panels_are_refused():
  sides, _ = make()
  other = recording.side([[1]] * 40, label='other', seed=5)
  mixed = Side('mixed', [sides[0].runs[0], other.runs[0]])
  (found,) = matrix.compare([*sides, mixed], seed=0)
  assert [(each.a, each.b) for each in found.refused] == [('mixed', 'mixed')]
  assert len(found.rows) == len(found.standings) == 3
