"""Tests for agentrl.ops.returns."""

import functools

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.ops import returns
from tests.ops import batches

gae = jax.jit(returns.gae, static_argnames=('gamma', 'lam'))
discounted = jax.jit(returns.discounted, static_argnames='gamma')
sum_turns = jax.jit(returns.sum_turns)
spread_turns = jax.jit(returns.spread_turns)
first_of_turn = jax.jit(returns.first_of_turn)
SEEDS = st.integers(0, 2**32 - 1)
SHAPE = (3, 11)


def random_rows(seed):
  """Rewards, values, mask and bootstrap of three episodes."""
  rng = np.random.default_rng(seed)
  rewards, values = rng.normal(size=(2, *SHAPE)).astype(np.float32)
  mask = rng.random(SHAPE) < 0.6
  return rewards, values, mask, rng.normal(size=3).astype(np.float32)


def gae_oracle(rewards, values, mask, bootstrap, *, gamma, lam):
  """The sum of arXiv:1506.02438 eq. 16, term by term, in float64.

  A_t = sum over l of (gamma lam)^l delta_{t + l}: no recursion.
  """
  out = np.zeros(mask.shape)
  for b in range(len(mask)):
    moments = np.flatnonzero(mask[b])
    r = [np.float64(rewards[b, t]) for t in moments]
    v = [np.float64(values[b, t]) for t in moments] + [bootstrap[b]]
    delta = [r[i] + gamma * v[i + 1] - v[i] for i in range(len(moments))]
    for i, t in enumerate(moments):
      out[b, t] = sum(
          (gamma * lam) ** (j - i) * delta[j] for j in range(i, len(moments))
      )
  return out


def discounted_oracle(rewards, mask, gamma):
  out = np.zeros(mask.shape)
  for b in range(len(mask)):
    moments = np.flatnonzero(mask[b])
    for i, t in enumerate(moments):
      out[b, t] = sum(
          gamma**k * np.float64(rewards[b, later])
          for k, later in enumerate(moments[i:])
      )
  return out


close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    'gamma, lam', [(1.0, 1.0), (0.9, 0.8), (0.9, 1.0), (1.0, 0.5), (0.7, 0.0)]
)
def test_gae_matches_oracle(gamma, lam):
  rows = random_rows(0)
  close(
      gae(*rows, gamma=gamma, lam=lam), gae_oracle(*rows, gamma=gamma, lam=lam)
  )


@pytest.mark.parametrize('gamma', [1.0, 0.9, 0.0])
def test_discounted_matches_oracle(gamma):
  rewards, _, mask, _ = random_rows(1)
  close(
      discounted(rewards, mask, gamma=gamma),
      discounted_oracle(rewards, mask, gamma),
  )


def test_hand_computed_gae():
  # Two moments around an observation. delta_1 = 1 + 0.5 * 4 - 2 = 1,
  # delta_0 = 0 + 0.5 * 2 - 3 = -2, A_0 = -2 + 0.5 * 0.5 * 1.
  out = gae(
      np.float32([[0, 9, 1]]),
      np.float32([[3, 9, 2]]),
      np.array([[True, False, True]]),
      np.float32([4]),
      gamma=0.5,
      lam=0.5,
  )
  np.testing.assert_array_equal(out, [[-1.75, 0, 1]])


def test_lambda_one_is_the_return_minus_the_value():
  rewards, values, mask, bootstrap = random_rows(2)
  ended = np.zeros_like(bootstrap)
  expected = discounted(rewards, mask, gamma=0.9) - values
  close(
      gae(rewards, values, mask, ended, gamma=0.9, lam=1.0),
      np.where(mask, expected, 0),
  )


def test_lambda_zero_is_the_error_of_one_step():
  rewards, values, _, bootstrap = random_rows(3)
  following = np.append(values[:, 1:], bootstrap[:, None], axis=1)
  close(
      gae(rewards, values, np.ones(SHAPE, bool), bootstrap, gamma=0.9, lam=0.0),
      rewards + 0.9 * following - values,
  )


@given(seed=SEEDS, junk=st.sampled_from([np.nan, np.inf, -1e30]))
@settings(max_examples=20)
def test_masked_positions_never_matter(seed, junk):
  rewards, values, mask, bootstrap = random_rows(seed)
  plant = lambda x: np.where(mask, x, np.float32(junk))
  run = functools.partial(gae, gamma=0.9, lam=0.8)
  clean = run(rewards, values, mask, bootstrap)
  np.testing.assert_array_equal(
      run(plant(rewards), plant(values), mask, bootstrap), clean
  )
  np.testing.assert_array_equal(np.asarray(clean)[~mask], 0)


@given(seed=SEEDS)
@settings(max_examples=20)
def test_inserting_observations_changes_nothing(seed):
  rewards, values, mask, bootstrap = random_rows(seed)
  rng = np.random.default_rng(seed)
  # Every row keeps its columns in order, at random places of a wider one.
  places = np.sort([rng.permutation(16)[:11] for _ in range(3)])
  rows = np.arange(3)[:, None]

  def widen(x, rest):
    out = np.full((3, 16), rest, x.dtype)
    out[rows, places] = x
    return out

  run = functools.partial(gae, gamma=0.9, lam=0.8)
  wide = run(
      widen(rewards, np.nan),
      widen(values, np.nan),
      widen(mask, False),
      bootstrap,
  )
  np.testing.assert_allclose(
      np.asarray(wide)[rows, places],
      run(rewards, values, mask, bootstrap),
      rtol=1e-6,
  )


def test_the_bootstrap_reaches_every_token_of_its_own_row():
  rewards, values, mask, bootstrap = random_rows(4)
  run = functools.partial(gae, gamma=0.9, lam=0.8)
  more = bootstrap + np.float32([0, 10, 0])
  change = np.asarray(
      run(rewards, values, mask, more) - run(rewards, values, mask, bootstrap)
  )
  np.testing.assert_array_equal(change[[0, 2]], 0)
  left = np.cumsum(mask[1, ::-1])[::-1] - 1  # sampled tokens still to come
  expected = 10 * 0.9 * (0.9 * 0.8) ** left
  close(change[1], np.where(mask[1], expected, 0))


def test_a_row_without_sampled_tokens_is_zero():
  rewards, values, mask, bootstrap = random_rows(5)
  mask[1] = False
  out = gae(rewards, values, mask, bootstrap, gamma=0.9, lam=0.8)
  np.testing.assert_array_equal(out[1], 0)


TURN_IDS = np.array([[-1, 0, 0, -1, 1, -1, 2], [0, -1, 1, 1, 1, -1, -1]])
BATCH = batches.of(np.ones_like(TURN_IDS), turns=TURN_IDS)


def test_sum_turns_adds_up_each_turn():
  x = np.float32([[9, 1, 2, 9, 4, 9, 8], [1, 9, 2, 4, 8, 9, np.nan]])
  np.testing.assert_array_equal(
      sum_turns(x, BATCH), [[3, 4, 8, 0, 0, 0, 0], [1, 14, 0, 0, 0, 0, 0]]
  )


def test_spread_turns_gives_each_token_its_turn_s_value():
  per_turn = np.float32([[5, 6, 7, 9, 9, 9, 9], [3, 4, 9, 9, 9, 9, 9]])
  np.testing.assert_array_equal(
      spread_turns(per_turn, BATCH),
      [[0, 5, 5, 0, 6, 0, 7], [3, 0, 4, 4, 4, 0, 0]],
  )


def test_first_of_turn_is_where_a_turn_begins():
  np.testing.assert_array_equal(
      first_of_turn(BATCH),
      np.array([[0, 1, 0, 0, 1, 0, 1], [1, 0, 1, 0, 0, 0, 0]], bool),
  )


def test_a_turn_begins_where_an_episode_does():
  found = first_of_turn(batches.of([[1, 1, 2, 2]], turns=[[0, 0, 0, 0]]))
  np.testing.assert_array_equal(found, [[True, False, True, False]])


def test_rejects_mismatched_shapes():
  rewards, values, mask, bootstrap = random_rows(0)
  with pytest.raises(AssertionError, match='shape'):
    gae(rewards, values[:, 1:], mask, bootstrap, gamma=1.0, lam=1.0)
  with pytest.raises(AssertionError, match='shape'):
    gae(rewards, values, mask, bootstrap[1:], gamma=1.0, lam=1.0)
