"""Tests for agentrl.ops.advantage."""

import functools

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.ops import advantage
from tests.ops import batches

NUM_GROUPS = 4


@functools.partial(jax.jit, static_argnames=('ddof', 'scale'))
def group_relative(returns, group_ids, valid, ddof=1, scale=True):
  return advantage.group_relative(
      returns, group_ids, valid, num_groups=NUM_GROUPS, ddof=ddof, scale=scale
  )


leave_one_out = functools.partial(
    jax.jit(advantage.leave_one_out, static_argnames='num_groups'),
    num_groups=NUM_GROUPS,
)
whiten = jax.jit(advantage.whiten)


def members_of(group_ids, valid):
  """The valid episodes of each group that has at least two."""
  for group in range(NUM_GROUPS):
    members = [
        e for e in range(len(group_ids)) if valid[e] and group_ids[e] == group
    ]
    if len(members) > 1:
      yield members


def oracle(returns, group_ids, valid, ddof=1, eps=1e-6, scale=True):
  """One group at a time, in float64."""
  out = np.zeros(len(returns))
  for members in members_of(group_ids, valid):
    values = np.array([returns[e] for e in members], np.float64)
    spread = values.std(ddof=ddof) + eps if scale else 1.0
    for e, value in zip(members, values, strict=True):
      out[e] = (value - values.mean()) / spread
  return out


def leave_one_out_oracle(returns, group_ids, valid):
  """The others, one by one (arXiv:2402.14740 eq. 8)."""
  out = np.zeros(len(returns))
  for members in members_of(group_ids, valid):
    for e in members:
      others = [np.float64(returns[other]) for other in members if other != e]
      out[e] = returns[e] - sum(others) / len(others)
  return out


def random_groups(seed, size=12):
  rng = np.random.default_rng(seed)
  # Eighths, as sums of rewards are: often tied, and never so close that the
  # rounding of a mean shows.
  returns = rng.integers(-16, 17, size=size).astype(np.float32) / 8
  return returns, rng.integers(NUM_GROUPS, size=size), rng.random(size) < 0.8


@given(
    seed=st.integers(0, 2**32 - 1),
    choice=st.sampled_from([
        dict(ddof=0),
        dict(ddof=1),
        dict(scale=False),
    ]),
)
def test_matches_oracle(seed, choice):
  groups = random_groups(seed)
  np.testing.assert_allclose(
      group_relative(*groups, **choice),
      oracle(*groups, **choice),
      rtol=1e-5,
      atol=1e-5,
  )


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_leave_one_out_matches_oracle(seed):
  groups = random_groups(seed)
  np.testing.assert_allclose(
      leave_one_out(*groups),
      leave_one_out_oracle(*groups),
      rtol=1e-5,
      atol=1e-6,
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


ESTIMATORS = [
    group_relative,
    functools.partial(group_relative, scale=False),
    leave_one_out,
]


@given(seed=st.integers(0, 2**32 - 1), estimate=st.sampled_from(ESTIMATORS))
@settings(max_examples=40)
def test_order_does_not_matter(seed, estimate):
  groups = random_groups(seed)
  order = np.random.default_rng(seed).permutation(12)
  np.testing.assert_allclose(
      estimate(*(x[order] for x in groups)),
      estimate(*groups)[order],
      rtol=1e-4,
      atol=1e-5,
  )


@given(
    seed=st.integers(0, 2**32 - 1),
    junk=st.sampled_from([np.nan, np.inf, -1e30, 5.0]),
    estimate=st.sampled_from(ESTIMATORS),
)
@settings(max_examples=40)
def test_invalid_and_padding_episodes_count_nowhere(seed, junk, estimate):
  returns, group_ids, valid = random_groups(seed)
  clean = estimate(returns, group_ids, valid)
  dirty = np.where(valid, returns, np.float32(junk))
  np.testing.assert_array_equal(estimate(dirty, group_ids, valid), clean)
  np.testing.assert_array_equal(clean[~valid], 0)
  padded = estimate(
      np.append(returns, [np.float32(junk)] * 3),
      np.append(group_ids, [0, 1, 2]),
      np.append(valid, [False] * 3),
  )
  np.testing.assert_allclose(padded[:12], clean, rtol=1e-6)
  np.testing.assert_array_equal(padded[12:], 0)


@pytest.mark.parametrize('estimate', ESTIMATORS)
def test_a_group_with_one_valid_episode_gets_zero(estimate):
  returns = np.float32([7, 3, 9])
  out = estimate(returns, np.array([0, 1, 1]), np.array([True, True, False]))
  np.testing.assert_array_equal(out, [0, 0, 0])


@given(
    value=st.floats(-1e6, 1e6, width=32),
    size=st.integers(2, 12),
    ddof=st.sampled_from([0, 1]),
)
def test_tied_group_gets_zeros_even_when_its_mean_is_rounded(value, size, ddof):
  returns = np.zeros(12, np.float32)
  returns[:size] = value
  ids = np.where(np.arange(12) < size, 0, 1)
  valid = np.arange(12) < size
  np.testing.assert_array_equal(
      group_relative(returns, ids, valid, ddof=ddof), np.zeros(12)
  )


def all_of_one_group(estimate):
  return jax.jit(
      lambda x: estimate(
          x, np.zeros(len(x), int), np.ones(len(x), bool), num_groups=1
      )
  )


# On all of `x`, as one group or one collection.
ON_ONE_GROUP = {
    'group_relative': all_of_one_group(advantage.group_relative),
    'population': all_of_one_group(
        functools.partial(advantage.group_relative, ddof=0)
    ),
    'centred': all_of_one_group(
        functools.partial(advantage.group_relative, scale=False)
    ),
    'leave_one_out': all_of_one_group(advantage.leave_one_out),
    'whiten': jax.jit(lambda x: advantage.whiten(x, np.ones(len(x), bool))),
}


@pytest.mark.parametrize('name', ON_ONE_GROUP)
@given(
    # Few sizes: each compiles a program. 67 is where a mean of 0.955 first
    # differs from it by more than a millionth.
    size=st.sampled_from([2, 3, 67, 1000, 4096, 10_000]),
    value=st.one_of(
        st.floats(-1e6, 1e6, width=32), st.sampled_from([0.1, 0.955, 1 / 3])
    ),
)
@settings(max_examples=40, deadline=None)
def test_equal_returns_are_tied_whatever_their_number(name, size, value):
  out = ON_ONE_GROUP[name](np.full(size, value, np.float32))
  np.testing.assert_array_equal(out, np.zeros(size))


@pytest.mark.parametrize('name', ON_ONE_GROUP)
@pytest.mark.parametrize('size', [67, 4096, 10_000])
def test_one_return_that_differs_among_thousands_is_not_lost_in_noise(
    name, size
):
  # The rounding of a mean of 10,000 returns is as large as their deviation.
  returns = np.full(size, 0.955, np.float32)
  returns[1] = 0.956
  exact = np.asarray(returns, np.float64)
  expected = exact - exact.mean()
  if name == 'leave_one_out':
    expected *= size / (size - 1)
  elif name != 'centred':
    deviation = exact.std(ddof=name != 'population')
    expected /= (
        np.hypot(deviation, 1e-4) if name == 'whiten' else (deviation + 1e-6)
    )
  # A float32 sum of 10,000 squares is exact to about 1e-4.
  np.testing.assert_allclose(
      ON_ONE_GROUP[name](returns), expected, rtol=1e-3, atol=1e-9
  )


def test_ties_of_one_group_do_not_hang_on_another():
  returns = np.float32([0.955] * 100 + [1e4, -1e4, 7.0])
  ids = np.repeat([0, 1, 2], [100, 2, 1])
  out = np.asarray(group_relative(returns, ids, np.ones(103, bool)))
  np.testing.assert_array_equal(out[:100], 0)
  np.testing.assert_allclose(out[100:102], [2**-0.5, -(2**-0.5)], rtol=1e-5)


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


def test_hand_computed_leave_one_out():
  # 2 - (0 + 1) / 2, 0 - (2 + 1) / 2, 1 - (2 + 0) / 2.
  returns, ids = np.float32([2, 0, 1]), np.zeros(3, int)
  np.testing.assert_array_equal(
      leave_one_out(returns, ids, np.ones(3, bool)), [1.5, -1.5, 0]
  )


def test_leave_one_out_is_the_centred_return_times_n_over_n_minus_1():
  returns = np.float32([2, 0, 1, 7])
  group = np.zeros(4, int), np.ones(4, bool)
  np.testing.assert_allclose(
      leave_one_out(returns, *group),
      4 / 3 * group_relative(returns, *group, scale=False),
      rtol=1e-6,
  )


@pytest.mark.parametrize('seed', range(3))
def test_whiten_matches_oracle(seed):
  rng = np.random.default_rng(seed)
  x = (3 + 2 * rng.normal(size=(4, 9))).astype(np.float32)
  mask = rng.random(x.shape) < 0.6
  tokens = [np.float64(x[b, t]) for b, t in np.argwhere(mask)]
  mean = sum(tokens) / len(tokens)
  variance = sum((v - mean) ** 2 for v in tokens) / (len(tokens) - 1)
  expected = np.where(mask, (x - mean) / variance**0.5, 0)
  np.testing.assert_allclose(whiten(x, mask), expected, rtol=1e-5, atol=1e-6)
  poisoned = np.where(mask, x, np.nan)
  np.testing.assert_array_equal(whiten(poisoned, mask), whiten(x, mask))


@pytest.mark.parametrize('count', [0, 1])
def test_whitening_too_few_gives_zero(count):
  mask = np.arange(6)[None] < count
  np.testing.assert_array_equal(whiten(np.full((1, 6), 7.0), mask), 0)


@given(value=st.floats(-1e4, 1e4, width=32), size=st.integers(2, 60))
@settings(max_examples=60)
def test_whitening_equal_values_gives_zeros_even_when_their_mean_is_rounded(
    value, size
):
  mask = np.arange(60)[None] < size
  x = np.full((1, 60), value, np.float32)
  np.testing.assert_array_equal(whiten(x, mask), 0)


def test_to_tokens_gives_each_sampled_token_its_episodes_value():
  batch = batches.of(
      [[1, 1, 1, 0], [2, 2, 2, 2]],
      sampled=[[False, True, True, False], [True, False, True, False]],
  )
  out = advantage.to_tokens(np.float32([1.5, -2]), batch)
  np.testing.assert_array_equal(out, [[0, 1.5, 1.5, 0], [-2, 0, -2, 0]])


def test_every_segment_of_an_episode_has_its_value():
  batch = batches.of(
      [[1, 1, 1, 1], [2, 2, 2, 0]],
      segments=[[1, 1, 2, 2], [3, 3, 3, 0]],
      sampled=[[False, True, False, True], [False, True, True, False]],
  )
  out = advantage.to_tokens(np.float32([1.5, -2]), batch)
  np.testing.assert_array_equal(out, [[0, 1.5, 0, 1.5], [0, -2, -2, 0]])


def test_rejects_mismatched_shapes():
  returns, group_ids, valid = random_groups(0)
  with pytest.raises(AssertionError, match='shape'):
    group_relative(returns, group_ids[1:], valid)
  with pytest.raises(AssertionError, match='shape'):
    leave_one_out(returns, group_ids[1:], valid)
  with pytest.raises(AssertionError, match='shape'):
    whiten(returns[None], valid[None, 1:])
