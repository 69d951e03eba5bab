"""Tests for agentrl.evaluation.stats.passes."""

import itertools

import pytest
from hypothesis import given, strategies as st

from agentrl.evaluation.stats import intervals, passes

PANELS = st.lists(
    st.lists(st.booleans(), max_size=6), min_size=1, max_size=8
).filter(any)


def enumerated(panel, k, reduce):
  """Mean over tasks of the share of k-subsets that `reduce` accepts."""
  shares = []
  for task in filter(None, panel):
    subsets = list(itertools.combinations(task, k))
    shares.append(sum(map(reduce, subsets)) / len(subsets))
  return sum(shares) / len(shares)


@given(PANELS)
def test_passes_equal_enumeration(panel):
  by_k = passes.by_k(panel)
  assert list(by_k) == list(range(1, min(len(t) for t in panel if t) + 1))
  for k, (any_of, all_of) in by_k.items():
    assert any_of.mean == pytest.approx(enumerated(panel, k, any))
    assert all_of.mean == pytest.approx(enumerated(panel, k, all))
    for interval in (any_of, all_of):
      assert 0 <= interval.low <= interval.mean <= interval.high <= 1


def test_one_attempt_has_the_interval_of_success():
  panel = [[i % 2 == 0, i % 3 == 0] for i in range(40)]
  templates = [i // 2 for i in range(40)]
  any_of, all_of = passes.by_k(panel, clusters=templates)[1]
  assert any_of == pytest.approx(all_of)
  assert any_of == pytest.approx(
      intervals.mean_interval(panel, clusters=templates, bounds=(0, 1))
  )


def test_nothing_has_no_passes():
  assert passes.by_k([[], []]) == {}


@pytest.mark.parametrize('trials', range(1, 7))
def test_pass_at_k_is_the_share_of_subsets_with_a_success(trials):
  for successes in range(trials + 1):
    outcomes = [i < successes for i in range(trials)]
    for k in range(1, trials + 1):
      subsets = list(itertools.combinations(outcomes, k))
      expected = sum(any(subset) for subset in subsets) / len(subsets)
      assert passes.pass_at_k(trials, successes, k) == pytest.approx(expected)


@pytest.mark.parametrize('trials', range(1, 7))
def test_pass_hat_k_is_the_share_of_subsets_without_a_failure(trials):
  for successes in range(trials + 1):
    outcomes = [i < successes for i in range(trials)]
    for k in range(1, trials + 1):
      subsets = list(itertools.combinations(outcomes, k))
      expected = sum(all(subset) for subset in subsets) / len(subsets)
      assert passes.pass_hat_k(trials, successes, k) == pytest.approx(expected)


@pytest.mark.parametrize('estimate', ['pass_at_k', 'pass_hat_k'])
@pytest.mark.parametrize(
    'trials, successes, k', [(2, 3, 1), (2, 1, 3), (2, 1, 0)]
)
def test_passes_refuse_impossible_counts(estimate, trials, successes, k):
  with pytest.raises(ValueError, match=r'pass.k needs'):
    getattr(passes, estimate)(trials, successes, k)
