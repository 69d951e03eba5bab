"""Tests for agentrl.evaluation.studies.curves."""

import numpy as np
import pytest
from scipy import stats

from agentrl.evaluation.studies import curves
from agentrl.evaluation.workdirs.series import Curve


def curve(x, y):
  x, y = np.asarray(x, float), np.asarray(y, float)
  return Curve(x, x.astype(int), y, None, None, None, len(x), False)


def test_each_step_has_students_interval_over_its_runs():
  rng = np.random.default_rng(0)
  values = rng.random((5, 4))
  runs = {f'r{i}': curve(range(4), row) for i, row in enumerate(values)}
  # One run is shorter, one has a value that is none.
  runs['r1'] = curve(range(2), values[1, :2])
  runs['r2'] = curve(range(4), np.where(np.arange(4) == 3, np.nan, values[2]))
  found = curves.over_seeds(runs, limit=10)
  for step in range(4):
    mine = [
        values[i, step]
        for i in range(5)
        if not (i == 1 and step > 1 or i == 2 and step == 3)
    ]
    ends = stats.ttest_1samp(mine, 0).confidence_interval(0.95)
    assert found.seeds[step] == len(mine)
    assert found.y[step] == pytest.approx(np.mean(mine))
    assert (found.low[step], found.high[step]) == pytest.approx(tuple(ends))
  assert np.isnan(found.runs['r1'][2:]).all()


def test_a_single_run_and_equal_runs_have_no_interval():
  alone = curves.over_seeds({'r': curve([0, 1], [0.5, 0.6])}, limit=9)
  assert np.isnan(alone.low).all() and alone.y.tolist() == [0.5, 0.6]
  equal = curves.over_seeds(
      {name: curve([0], [1 / 3]) for name in 'abc'}, limit=9
  )
  assert np.isnan(equal.high).all() and equal.seeds.tolist() == [3]


def test_buckets_are_first_means_of_each_run():
  runs = {'a': curve(range(6), [0, 2, 4, 6, 8, 10]),
          'b': curve([0, 1, 3, 5], [1, 1, 3, 7])}  # fmt: skip
  found = curves.over_seeds(runs, limit=3)
  np.testing.assert_allclose(found.runs['a'], [1, 5, 9])
  np.testing.assert_allclose(found.runs['b'], [1, 3, 7])
  np.testing.assert_allclose(found.y, [1, 4, 8])
  assert found.total == 6 and found.x.tolist() == [1, 3, 5]


def test_the_interquartile_mean_leaves_out_the_outer_quarters():
  values = [0.0, 0.4, 0.5, 9.0]
  runs = {f'r{i}': curve([3], [y]) for i, y in enumerate(values)}
  found = curves.over_seeds(runs, limit=9, statistic='iqm')
  assert found.y.tolist() == pytest.approx([0.45])
  assert found.low[0] < 0.45 < found.high[0]


def test_no_run_is_an_empty_curve():
  assert curves.over_seeds({}, limit=9).x.tolist() == []


def on_axis(x, steps, y):
  x, steps, y = (np.asarray(values, float) for values in (x, steps, y))
  return Curve(x, steps.astype(int), y, None, None, None, len(x), False)


def test_on_another_axis_a_step_stands_at_the_mean_of_its_runs():
  runs = {
      'quick': on_axis([0, 10, 20], [0, 1, 2], [0.0, 0.2, 0.4]),
      'slow': on_axis([0, 30, 70], [0, 1, 2], [0.2, 0.4, 0.6]),
  }
  found = curves.over_seeds(runs, limit=9)
  assert found.x.tolist() == [0, 20, 45]
  assert found.step.tolist() == [0, 1, 2]
  np.testing.assert_allclose(found.y, [0.1, 0.3, 0.5])


def test_a_run_that_ends_early_does_not_turn_the_axis_back():
  runs = {
      # Its step 2 lies between its neighbours.
      'quick': on_axis([0, 10, 30, 40], [0, 1, 3, 4], [0.0] * 4),
      'slow': on_axis([0, 100], [0, 1], [1.0] * 2),
      'late': on_axis([500, 600], [8, 9], [1.0] * 2),
  }
  found = curves.over_seeds(runs, limit=9)
  assert found.step.tolist() == [0, 1, 3, 4, 8, 9]
  # The mean of 10 and 100; then 20 and 10 of the quick one; then the late one's.
  assert found.x.tolist() == [0, 55, 75, 85, 545, 645]


def test_single_runs_may_have_fewer_points_than_their_mean():
  runs = {name: curve(range(6), range(6)) for name in 'ab'}
  found = curves.over_seeds(runs, limit=6, runs_limit=2)
  assert found.y.tolist() == list(range(6))
  assert found.runs['a'].tolist() == [1, 4]
  assert found.runs_x.tolist() == [1, 4]
