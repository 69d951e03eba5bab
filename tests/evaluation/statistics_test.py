"""Tests for agentrl.evaluation.statistics."""

import itertools
import statistics as stdlib_statistics

import numpy as np
import pytest
from hypothesis import given, strategies as st

from agentrl.evaluation import statistics

COUNTS = st.integers(1, 400).flatmap(
    lambda n: st.tuples(st.integers(0, n), st.just(n))
)


@pytest.mark.parametrize(
    'successes, trials, low, high',
    [
        # Table I of Newcombe, Statistics in Medicine 17 (1998), method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_has_the_published_values(successes, trials, low, high):
  interval = statistics.wilson_interval(successes, trials)
  assert interval == pytest.approx((low, high), abs=5e-5)


@given(COUNTS)
def test_wilson_ends_solve_the_score_equation(counts):
  # The definition: rate is z standard errors of p away from p, at both ends.
  successes, trials = counts
  rate = successes / trials
  z = stdlib_statistics.NormalDist().inv_cdf(0.975)
  for p in statistics.wilson_interval(successes, trials):
    left, right = (p - rate) ** 2, z**2 * p * (1 - p) / trials
    assert left == pytest.approx(right, abs=1e-9)


@given(COUNTS)
def test_wilson_holds_the_rate_and_mirrors(counts):
  successes, trials = counts
  low, high = statistics.wilson_interval(successes, trials)
  assert 0 <= low <= successes / trials <= high <= 1
  mirrored = statistics.wilson_interval(trials - successes, trials)
  assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-12)


def test_wilson_of_nothing_says_nothing():
  assert statistics.wilson_interval(0, 0) == (0.0, 1.0)


def test_wilson_refuses_impossible_counts():
  with pytest.raises(ValueError, match='3 successes in 2 trials'):
    statistics.wilson_interval(3, 2)


@pytest.mark.parametrize('trials', range(1, 7))
def test_pass_at_k_is_the_share_of_subsets_with_a_success(trials):
  for successes in range(trials + 1):
    outcomes = [i < successes for i in range(trials)]
    for k in range(1, trials + 1):
      subsets = list(itertools.combinations(outcomes, k))
      expected = sum(any(subset) for subset in subsets) / len(subsets)
      assert statistics.pass_at_k(trials, successes, k) == pytest.approx(
          expected
      )


@pytest.mark.parametrize('trials', range(1, 7))
def test_pass_hat_k_is_the_share_of_subsets_without_a_failure(trials):
  for successes in range(trials + 1):
    outcomes = [i < successes for i in range(trials)]
    for k in range(1, trials + 1):
      subsets = list(itertools.combinations(outcomes, k))
      expected = sum(all(subset) for subset in subsets) / len(subsets)
      assert statistics.pass_hat_k(trials, successes, k) == pytest.approx(
          expected
      )


@pytest.mark.parametrize('estimate', ['pass_at_k', 'pass_hat_k'])
@pytest.mark.parametrize(
    'trials, successes, k', [(2, 3, 1), (2, 1, 3), (2, 1, 0)]
)
def test_passes_refuse_impossible_counts(estimate, trials, successes, k):
  with pytest.raises(ValueError, match=r'pass.k needs'):
    getattr(statistics, estimate)(trials, successes, k)


def test_bootstrap_agrees_with_the_normal_interval_where_that_is_good():
  values = np.random.default_rng(0).normal(3.0, 2.0, size=500)
  error = values.std(ddof=1) / np.sqrt(500)
  low, high = statistics.bootstrap_interval(list(values), seed=1)
  # 2000 draws place a 2.5% quantile to about 0.06 standard errors.
  assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.25 * error)
  assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.25 * error)


def test_bootstrap_repeats_with_its_seed():
  values = [0.0, 0.5, 1.0, 0.25]
  interval = statistics.bootstrap_interval(values, seed=1)
  assert interval == statistics.bootstrap_interval(values, seed=1)
  assert interval[0] < 0.4375 < interval[1]


def test_bootstrap_of_equal_values_is_a_point():
  assert statistics.bootstrap_interval([0.5] * 3, seed=0) == (0.5, 0.5)


def test_bootstrap_of_nothing_is_refused():
  with pytest.raises(ValueError, match='no values'):
    statistics.bootstrap_interval([], seed=0)
