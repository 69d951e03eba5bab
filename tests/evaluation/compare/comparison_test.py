"""Tests for agentrl.evaluation.compare.comparison."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from agentrl.errors import PanelError
from agentrl.evaluation.compare import comparison

SUCCESS = (0, 1)


def panel(values):
  """Values `[tasks][samples]` by (task, sample)."""
  return {
      (f'task {i}', j): value
      for i, task in enumerate(values)
      for j, value in enumerate(task)
  }


def random_panels(seed, tasks, samples):
  rng = np.random.default_rng(seed)
  draw = lambda: rng.binomial(1, 0.5, size=(tasks, samples)).tolist()
  return panel(draw()), panel(draw())


def test_outcomes_keep_their_keys():
  first = panel([[True, True], [False, False], [True, None]])
  second = panel([[True, False], [True, False], [None, True]])
  assert comparison.outcomes(first, second) == comparison.Outcomes(
      won=[('task 0', 1)],
      lost=[('task 1', 0)],
      both=[('task 0', 0)],
      neither=[('task 1', 1)],
      missing=[('task 2', 0), ('task 2', 1)],
  )


@pytest.mark.parametrize(
    'compare',
    [
        comparison.outcomes,
        lambda a, b: comparison.compare(a, b, seed=0, bounds=SUCCESS),
    ],
)
def test_different_panels_are_refused(compare):
  first, second = panel([[1], [0], [1]]), panel([[1], [0]])
  with pytest.raises(PanelError, match=r"1 of 3 .*\('task 2', 0\).*0 of 2"):
    compare(first, second)


def test_a_comparison_of_nothing_is_refused():
  with pytest.raises(ValueError, match='no pair'):
    comparison.compare(panel([[None]]), panel([[1]]), seed=0)


@pytest.mark.parametrize(
    'won, lost, exact, mid',
    [
        # Table II of Fagerland et al. 2013: airway responsiveness.
        (1, 7, 0.0703, 0.0391),
        (7, 1, 0.0703, 0.0391),
        (0, 0, 1.0, 1.0),
        (5, 5, 1.0, 1.0),
    ],
)
def test_mcnemar_has_the_published_values(won, lost, exact, mid):
  assert comparison.mcnemar(won, lost) == pytest.approx((exact, mid), abs=5e-5)


def test_mcnemar_is_the_binomial_test_of_discordant_pairs():
  won, lost = np.array([(a, b) for a in range(12) for b in range(12)][1:]).T
  exact, mid = comparison.mcnemar(won, lost)
  expected = [
      stats.binomtest(a, a + b).pvalue for a, b in zip(won, lost, strict=True)
  ]
  np.testing.assert_allclose(exact, expected)
  seen = stats.binom.pmf(won, won + lost, 0.5)
  np.testing.assert_allclose(mid, np.where(won == lost, 1.0, exact - seen))


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=7))
def test_sign_flips_enumerate_as_scipy_does(totals):
  expected = stats.permutation_test(
      (np.array(totals, float),),
      lambda x, axis: x.sum(axis),
      permutation_type='samples',
      vectorized=True,
  ).pvalue
  # scipy doubles the smaller tail; by symmetry both tails are that.
  assert comparison.sign_flips(totals, seed=0) == pytest.approx(expected)


def test_drawn_signs_come_near_all_signs():
  totals = np.random.default_rng(3).normal(0.4, 1.0, size=(4, 16))
  signs = np.array(list(itertools.product((-1, 1), repeat=16)))
  null = np.abs(totals @ signs.T)
  exact = (null >= np.abs(totals.sum(-1))[:, None] - 1e-9).mean(-1)
  drawn = comparison.sign_flips(totals, seed=0)
  # Five standard errors of 9,999 draws.
  np.testing.assert_allclose(drawn, exact, atol=0.025)
  np.testing.assert_array_equal(drawn, comparison.sign_flips(totals, seed=0))


def test_small_p_values_have_more_draws():
  # All of n signs equal: the exact p-value is 2 / 2^n.
  for n in (14, 15, 16, 17):
    drawn = comparison.sign_flips(np.ones(n), seed=0)
    assert 0.4 * 2 ** (1 - n) < drawn < 2 * 2 ** (1 - n), n
  # None as extreme: one of a million.
  for totals in (np.ones(40), np.full(60, -0.5), np.arange(1.0, 50.0)):
    drawn = comparison.sign_flips(totals, seed=0)
    assert drawn == 1e-6 and comparison.is_bound(drawn, 'permutation')
  assert not comparison.is_bound(2e-6, 'permutation')
  assert not comparison.is_bound(1e-9, 'mcnemar')


def test_larger_p_values_are_those_of_the_first_draws():
  totals = np.random.default_rng(3).normal(0.3, 1.0, size=(200, 30))
  first = comparison.sign_flips(totals, seed=5, most=0)
  more = comparison.sign_flips(totals, seed=5)
  large = first > 20.5 / 10_000
  assert large.any() and not large.all()
  np.testing.assert_array_equal(more[large], first[large])
  assert (more[~large] != first[~large]).all()
  # Other comparisons beside one change none of its draws.
  alone = [comparison.sign_flips(x, seed=5) for x in totals[~large][:3]]
  np.testing.assert_array_equal(
      [comparison.sign_flips(x[None], seed=5)[0] for x in totals[~large][:3]],
      alone,
  )


def test_more_draws_err_as_rarely_as_they_say():
  # No difference: signs are a coin's. With few draws at first, and more after.
  rng = np.random.default_rng(0)
  p_values = np.array([
      comparison.sign_flips(
          rng.normal(size=16), seed=i, resamples=199, most=3_999
      )
      for i in range(2_000)
  ])
  for level in (0.002, 0.01, 0.05, 0.2):
    error = np.sqrt(level * (1 - level) / 2_000)
    assert (p_values <= level).mean() <= level + 3 * error, level


@pytest.mark.parametrize(
    'p_value, bound, words',
    [
        (1.0, False, '1.0000'),
        (0.03125, False, '0.0312'),
        (0.001, False, '0.0010'),
        (0.00058, False, '0.00058'),
        (0.0001, False, '0.0001'),
        (3.14e-5, False, '3.1e-05'),
        (2.0**-29, False, '1.9e-09'),
        (0.0, False, '< 1e-300'),
        (1e-6, True, '<= 0.000001'),
        (3e-6, True, '<= 0.000003'),
    ],
)
def test_p_values_are_never_rounded_to_nothing(p_value, bound, words):
  assert comparison.p_words(p_value, bound=bound) == words


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closure_of_bonferroni(p_values):
  indices = range(len(p_values))
  subsets = [
      subset
      for size in range(1, len(p_values) + 1)
      for subset in itertools.combinations(indices, size)
  ]
  expected = [
      max(
          min(1.0, len(subset) * min(p_values[j] for j in subset))
          for subset in subsets
          if i in subset
      )
      for i in indices
  ]
  assert comparison.holm(p_values) == pytest.approx(expected)


@pytest.mark.parametrize('samples, test', [(1, 'mcnemar'), (3, 'permutation')])
def test_exchanged_policies_mirror(samples, test):
  first, second = random_panels(0, tasks=40, samples=samples)
  options = dict(seed=0, bounds=SUCCESS)
  result = comparison.compare(first, second, **options)
  mirrored = comparison.compare(second, first, **options)
  won, lost = comparison.outcomes(first, second)[:2]
  assert result.test == mirrored.test == test
  assert result.pairs == 40 * samples and result.tasks == 40
  mean, low, high, _ = result.difference
  assert mean == pytest.approx((len(won) - len(lost)) / result.pairs)
  assert -1 < low < mean < high < 1
  assert mirrored.difference == pytest.approx(
      (-mean, -high, -low, result.difference.method)
  )
  assert mirrored.p_value == result.p_value
  assert (result.mid_p_value is None) == (samples > 1)


@pytest.mark.parametrize('samples', [1, 4])
def test_equal_evaluations_have_a_conservative_interval(samples):
  first, _ = random_panels(1, tasks=30, samples=samples)
  result = comparison.compare(first, first, seed=0, bounds=SUCCESS)
  assert result.p_value == 1.0
  assert result.difference.method == 'conservative'
  # No discordant task of 30: at most 11.6% are won, and as many lost.
  expected = stats.binomtest(0, 30).proportion_ci(method='exact').high
  assert result.difference.low == -result.difference.high
  rounded = expected * (1 - 1e-12)
  assert rounded <= result.difference.high <= 1.5 * expected


def test_returns_have_the_paired_t_interval():
  rng = np.random.default_rng(4)
  a, b = rng.normal(size=(25, 3)) + 1, rng.normal(size=(25, 3))
  result = comparison.compare(panel(a), panel(b), seed=0)
  expected = stats.ttest_rel(a.mean(1), b.mean(1)).confidence_interval(0.95)
  assert result.test == 'permutation' and result.difference.method == 't'
  assert result.difference[1:3] == pytest.approx(tuple(expected))


def test_pairs_with_a_missing_episode_are_left_out():
  a, b = random_panels(5, tasks=30, samples=2)
  expected = comparison.compare(
      {key: a[key] for key in a if key[1] == 0},
      {key: b[key] for key in b if key[1] == 0},
      seed=0,
      bounds=SUCCESS,
  )
  a = {key: value if key[1] == 0 else None for key, value in a.items()}
  assert comparison.compare(a, b, seed=0, bounds=SUCCESS) == expected


def test_a_template_counts_once():
  a, b = random_panels(6, tasks=20, samples=1)
  expected = comparison.compare(
      {(t, s): a[t, 0] for t, _ in a for s in (0, 1)},
      {(t, s): b[t, 0] for t, _ in b for s in (0, 1)},
      seed=0,
      bounds=SUCCESS,
  )
  copies = lambda x: {((t, s), 0): x[t, 0] for t, _ in x for s in (0, 1)}
  templates = {(t, s): t for t, _ in a for s in (0, 1)}
  result = comparison.compare(
      copies(a), copies(b), seed=0, bounds=SUCCESS, clusters=templates
  )
  assert result.test == 'permutation' and result.tasks == 40
  assert result.difference == pytest.approx(expected.difference)
  assert result.p_value == expected.p_value
