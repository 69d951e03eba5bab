"""Tests for agentrl.ops.advantage."""

import functools

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.ops import advantage

NUM_GROUPS = 4


@functools.partial(jax.jit, static_argnames='ddof')
def group_relative(returns, group_ids, valid, ddof=1):
  return advantage.group_relative(
      returns, group_ids, valid, num_groups=NUM_GROUPS, ddof=ddof
  )


def oracle(returns, group_ids, valid, ddof=1, eps=1e-6):
  """One group at a time, in float64."""
  out = np.zeros(len(returns))
  for group in range(NUM_GROUPS):
    members = [
        e for e in range(len(returns)) if valid[e] and group_ids[e] == group
    ]
    if len(members) < 2:
      continue
    values = np.array([returns[e] for e in members], np.float64)
    for e, value in zip(members, values, strict=True):
      out[e] = (value - values.mean()) / (values.std(ddof=ddof) + eps)
  return out


def random_groups(seed, size=12):
  rng = np.random.default_rng(seed)
  # Eighths, as sums of rewards are: often tied, and never so close that the
  # rounding of a mean shows.
  returns = rng.integers(-16, 17, size=size).astype(np.float32) / 8
  return returns, rng.integers(NUM_GROUPS, size=size), rng.random(size) < 0.8


@given(seed=st.integers(0, 2**32 - 1), ddof=st.sampled_from([0, 1]))
@settings(deadline=None)
def test_matches_oracle(seed, ddof):
  groups = random_groups(seed)
  np.testing.assert_allclose(
      group_relative(*groups, ddof=ddof),
      oracle(*groups, ddof),
      rtol=1e-5,
      atol=1e-5,
  )


def test_hand_computed_group():
  # Mean 1, deviations (1, -1, 0): variance 2 / (3 - ddof).
  returns, ids = np.float32([2, 0, 1]), np.zeros(3, int)
  valid = np.ones(3, bool)
  np.testing.assert_allclose(
      group_relative(returns, ids, valid), [1, -1, 0], atol=2e-6
  )
  np.testing.assert_allclose(
      group_relative(returns, ids, valid, ddof=0),
      np.sqrt(1.5) * np.array([1, -1, 0]),
      atol=2e-6,
  )


@given(seed=st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_order_does_not_matter(seed):
  groups = random_groups(seed)
  order = np.random.default_rng(seed).permutation(12)
  np.testing.assert_allclose(
      group_relative(*(x[order] for x in groups)),
      group_relative(*groups)[order],
      rtol=1e-4,
      atol=1e-5,
  )


@given(
    seed=st.integers(0, 2**32 - 1),
    junk=st.sampled_from([np.nan, np.inf, -1e30, 5.0]),
)
@settings(deadline=None)
def test_invalid_and_padding_episodes_count_nowhere(seed, junk):
  returns, group_ids, valid = random_groups(seed)
  clean = group_relative(returns, group_ids, valid)
  dirty = np.where(valid, returns, np.float32(junk))
  np.testing.assert_array_equal(group_relative(dirty, group_ids, valid), clean)
  np.testing.assert_array_equal(clean[~valid], 0)
  padded = group_relative(
      np.append(returns, [np.float32(junk)] * 3),
      np.append(group_ids, [0, 1, 2]),
      np.append(valid, [False] * 3),
  )
  np.testing.assert_allclose(padded[:12], clean, rtol=1e-6)
  np.testing.assert_array_equal(padded[12:], 0)


def test_a_group_with_one_valid_episode_gets_zero():
  returns = np.float32([7, 3, 9])
  out = group_relative(
      returns, np.array([0, 1, 1]), np.array([True, True, False])
  )
  np.testing.assert_array_equal(out, [0, 0, 0])


@given(
    value=st.floats(-1e6, 1e6, width=32),
    size=st.integers(2, 12),
    ddof=st.sampled_from([0, 1]),
)
@settings(deadline=None)
def test_tied_group_gets_zeros_even_when_its_mean_is_rounded(value, size, ddof):
  returns = np.zeros(12, np.float32)
  returns[:size] = value
  ids = np.where(np.arange(12) < size, 0, 1)
  valid = np.arange(12) < size
  np.testing.assert_array_equal(
      group_relative(returns, ids, valid, ddof=ddof), np.zeros(12)
  )


def test_returns_that_differ_by_rounding_of_their_sums_are_tied():
  # The same rewards added in another order: one unit in the last place apart.
  returns = np.float32([0.3, np.nextafter(np.float32(0.3), np.float32(1)), 0.3])
  out = group_relative(returns, np.zeros(3, int), np.ones(3, bool))
  np.testing.assert_array_equal(out, [0, 0, 0])


def test_small_true_differences_are_not_taken_for_ties():
  # A step penalty of 1e-3 on a return of 1 is a signal, not noise.
  returns = np.float32([1.0, 0.999])
  out = group_relative(returns, np.zeros(2, int), np.ones(2, bool))
  np.testing.assert_allclose(out, [2**-0.5, -(2**-0.5)], rtol=2e-3)


def test_one_success_among_failures_is_the_only_positive_one():
  returns = np.float32([0, 0, 1, 0])
  out = np.asarray(group_relative(returns, np.zeros(4, int), np.ones(4, bool)))
  assert out[2] > 0 and (out[[0, 1, 3]] < 0).all()
  np.testing.assert_allclose(out.sum(), 0, atol=1e-6)


def test_to_tokens_gives_each_sampled_token_its_episodes_value():
  out = advantage.to_tokens(
      np.float32([1.5, -2]),
      np.array([[1, 1, 1, 0], [2, 2, 2, 2]]),
      np.array([[False, True, True, False], [True, False, True, False]]),
  )
  np.testing.assert_array_equal(out, [[0, 1.5, 1.5, 0], [-2, 0, -2, 0]])


def test_rejects_mismatched_shapes():
  returns, group_ids, valid = random_groups(0)
  with pytest.raises(AssertionError, match='shape'):
    group_relative(returns, group_ids[1:], valid)
