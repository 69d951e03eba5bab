"""Tests for agentrl.data.quotas."""

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from agentrl.data.quotas import Quotas

STEPS = 40
WEIGHTS = st.one_of(
    st.integers(0, 20),
    st.floats(0, 100, allow_subnormal=False),
    st.sampled_from([0.1, 0.2, 1 / 3, 1e-6, 1e6]),
)


def drawn(members):
  """Weights of so many members, not all of them 0, and a total."""
  weights = st.lists(WEIGHTS, min_size=1, max_size=members).filter(any)
  return st.tuples(weights, st.integers(1, 64))


def played(weights, total, steps=STEPS):
  quotas = Quotas(weights, total)
  return [quotas.at(step) for step in range(steps)]


def shares(weights, total):
  whole = sum(map(Fraction, weights))
  return [total * Fraction(weight) / whole for weight in weights]


@given(drawn(10))
def test_every_step_has_its_total_and_each_member_its_share_rounded(case):
  exact = shares(*case)
  for step in played(*case):
    assert sum(step) == case[1]
    for quota, share in zip(step, exact, strict=True):
      assert share - 1 < quota < share + 1
      assert quota == share or share.denominator > 1


@pytest.mark.parametrize('members, bound', [(4, 1), (10, 2)])
def test_over_the_steps_totals_stay_with_their_shares(members, bound):
  @given(drawn(members))
  def check(case):
    sums = [0] * len(case[0])
    for count, step in enumerate(played(*case), 1):
      sums = [a + b for a, b in zip(sums, step, strict=True)]
      for found, share in zip(sums, shares(*case), strict=True):
        assert abs(found - count * share) < bound

  check()


@given(drawn(6), st.lists(st.integers(0, STEPS - 1), max_size=8))
def test_a_step_has_its_quotas_whenever_it_is_asked_for(case, asked):
  expected, quotas = played(*case), Quotas(*case)
  for step in asked:
    assert quotas.at(step) == expected[step]


@given(drawn(6), st.sampled_from([0.5, 2, 8, 64]))
def test_weights_are_a_proportion(case, factor):
  weights, total = case
  scaled = [weight * factor for weight in weights]
  assert played(scaled, total, 5) == played(weights, total, 5)


@pytest.mark.parametrize(
    'weights, total, expected',
    [
        ((1,), 8, [(8,), (8,)]),
        ((2, 1, 1), 8, [(4, 2, 2), (4, 2, 2)]),
        # 8/3 each: two of the three get a third task, in turn.
        ((1, 1, 1), 8, [(3, 3, 2), (3, 2, 3), (2, 3, 3), (3, 3, 2)]),
        ((3, 1), 2, [(2, 0), (1, 1), (2, 0), (1, 1)]),
        # Evaluated alone.
        ((1, 0), 3, [(3, 0), (3, 0)]),
        # 0.1 of a step: one in ten.
        ((9, 1), 1, [(1, 0)] * 5 + [(0, 1)] + [(1, 0)] * 9 + [(0, 1)]),
    ],
)
def test_quotas_by_hand(weights, total, expected):
  assert played(weights, total, len(expected)) == expected
