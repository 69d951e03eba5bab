"""Tests for agentrl.evaluation.stats.training_seeds."""

import itertools

import numpy as np
import pytest
from scipy import stats

from agentrl.evaluation.stats import training_seeds


def test_the_mean_has_students_interval():
  values = [0.1, 0.5, 0.4, 0.7]
  result = training_seeds.over_seeds({'a': values}, seed=0)
  expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
  assert result.mean == pytest.approx(0.425)
  assert (result.mean_low, result.mean_high) == pytest.approx(tuple(expected))
  assert result.seeds == 4


def test_the_difference_of_means_has_welchs_interval():
  first, second = [0.9, 0.5, 0.8, 0.7, 0.6], [0.1, 0.2, 0.15]
  result = training_seeds.seed_difference({'a': first}, {'a': second}, seed=0)
  test = stats.ttest_ind(first, second, equal_var=False)
  assert (result.mean_low, result.mean_high) == pytest.approx(
      tuple(test.confidence_interval(0.95))
  )
  assert result.seeds == 3


def test_the_interquartile_mean_leaves_out_the_outer_quarters():
  scores = {'a': [0.0, 0.4, 0.5, 0.6], 'b': [0.3, 0.7, 0.45, 1.0]}
  result = training_seeds.over_seeds(scores, seed=0)
  assert result.interquartile_mean == pytest.approx(
      np.mean([0.4, 0.45, 0.5, 0.6])
  )


def test_the_bootstrap_is_stratified():
  # All draws of three seeds within each environment, none across.
  scores = {'a': [0.0, 0.1, 0.3], 'b': [10.0, 10.4, 11.0]}
  draws = [
      stats.trim_mean(a + b, 0.25)
      for a in itertools.product(scores['a'], repeat=3)
      for b in itertools.product(scores['b'], repeat=3)
  ]
  result = training_seeds.over_seeds(scores, seed=0)
  expected = np.quantile(draws, [0.025, 0.975])
  np.testing.assert_allclose((result.low, result.high), expected, atol=0.03)


def test_a_seed_repeats_and_scale_moves_along():
  scores = {'a': [0.1, 0.5, 0.4], 'b': [0.3, 0.2, 0.9]}
  doubled = {name: [2 * x for x in values] for name, values in scores.items()}
  result = training_seeds.over_seeds(scores, seed=1)
  assert result == training_seeds.over_seeds(scores, seed=1)
  twice = training_seeds.over_seeds(doubled, seed=1)
  assert twice[:-1] == pytest.approx([2 * x for x in result[:-1]])


def test_equal_runs_have_no_interval():
  equal = {'a': [0.7, 0.7]}
  alone = training_seeds.over_seeds(equal, seed=0)
  apart = training_seeds.seed_difference(equal, {'a': [0.5] * 3}, seed=0)
  for found, mean in ((alone, 0.7), (apart, 0.2)):
    assert found.mean == found.interquartile_mean == pytest.approx(mean)
    ends = (found.low, found.high, found.mean_low, found.mean_high)
    assert np.isnan(ends).all() and found.seeds == 2
  # The spread of one side was seen.
  seen = training_seeds.seed_difference(equal, {'a': [0.4, 0.6]}, seed=0)
  assert seen.mean_low < seen.mean < seen.mean_high


def test_a_paired_gain_is_students_test():
  gains = [-0.01, -0.04, -0.02]
  found = training_seeds.paired_gain(gains)
  half = stats.t.ppf(0.975, 2) * stats.sem(gains)
  mean = np.mean(gains)
  assert found[:3] == pytest.approx((mean, mean - half, mean + half))
  # Two-sided, of t with two degrees of freedom.
  assert found.p_value == pytest.approx(
      2 * stats.t.sf(abs(mean) / stats.sem(gains), 2)
  )


def test_too_few_gains_and_equal_ones_have_no_test():
  # 0.7 - 0.5 and 0.6 - 0.4 differ by rounding.
  for gains in ([], [0.1], [0.1, 0.1], [0.7 - 0.5, 0.6 - 0.4]):
    assert training_seeds.paired_gain(gains) is None


@pytest.mark.parametrize('scores', [{}, {'a': [0.5]}, {'a': [1, 2], 'b': [1]}])
def test_one_seed_is_refused(scores):
  with pytest.raises(ValueError, match='Needs two seeds'):
    training_seeds.over_seeds(scores, seed=0)


def test_other_environments_are_refused():
  with pytest.raises(ValueError, match='Different environments'):
    training_seeds.seed_difference({'a': [1, 2]}, {'b': [1, 2]}, seed=0)


def test_means_over_seeds_are_students_column_by_column():
  rng = np.random.default_rng(0)
  scores = rng.random((6, 3, 2))
  scores[0, 0, 0] = scores[2:, 1, 1] = np.nan
  found = training_seeds.mean_intervals(scores)
  for index in np.ndindex(3, 2):
    mine = scores[(slice(None), *index)]
    mine = mine[~np.isnan(mine)]
    ends = stats.ttest_1samp(mine, 0).confidence_interval(0.95)
    assert found.seeds[index] == len(mine)
    np.testing.assert_allclose(
        (found.mean[index], found.low[index], found.high[index]),
        (mine.mean(), *ends),
    )


def test_what_shows_no_spread_has_no_interval_over_seeds():
  found = training_seeds.mean_intervals(
      np.array([[0.1, 0.5, np.nan], [0.1, np.nan, np.nan]])
  )
  assert found.seeds.tolist() == [2, 1, 0]
  assert np.isnan(found.low).all() and np.isnan(found.high).all()
  np.testing.assert_array_equal(found.mean, [0.1, 0.5, np.nan])
