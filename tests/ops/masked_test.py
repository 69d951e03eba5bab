"""Tests for agentrl.ops.masked."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.ops import masked
from tests.ops import batches

JUNK = [np.nan, np.inf, -np.inf, 1e38]
sum_episodes = jax.jit(masked.sum_episodes)


@given(seed=st.integers(0, 2**32 - 1), junk=st.sampled_from(JUNK))
def test_sum_and_max_do_not_see_what_is_masked(seed, junk):
  rng = np.random.default_rng(seed)
  x = rng.random((3, 5)).astype(np.float32)
  mask = rng.random((3, 5)) < 0.5
  chosen = x[mask].astype(np.float64)
  dirty = np.where(mask, x, np.float32(junk))
  np.testing.assert_allclose(masked.sum(dirty, mask), np.sum(chosen), rtol=1e-5)
  np.testing.assert_allclose(
      masked.max(dirty, mask), np.max(chosen, initial=0.0), rtol=1e-6
  )


@pytest.mark.parametrize('junk', JUNK)
def test_gradient_of_sum_is_the_mask(junk):
  mask = np.array([[True, False, True]])
  x = jnp.asarray(np.where(mask, 2.0, junk), jnp.float32)
  np.testing.assert_array_equal(jax.grad(masked.sum)(x, mask), mask)


def test_gather_episodes_reads_each_tokens_own_episode():
  segment_ids = np.array([[1, 1, 2, 0], [3, 3, 3, 0]])
  spread = masked.gather_episodes(
      jnp.array([10.0, 20.0, 30.0]), batches.of(segment_ids)
  )
  np.testing.assert_array_equal(spread[0, :3], [10, 10, 20])
  np.testing.assert_array_equal(spread[1, :3], [30, 30, 30])


@given(seed=st.integers(0, 2**32 - 1), junk=st.sampled_from(JUNK))
@settings(max_examples=20)
def test_sum_episodes_adds_up_each_episode_wherever_it_lies(seed, junk):
  segment_ids = np.array([[1, 1, 3, 3, 0], [2, 2, 2, 0, 0], [5, 5, 5, 5, 5]])
  rng = np.random.default_rng(seed)
  x = rng.random((3, 5)).astype(np.float32)
  mask = rng.random((3, 5)) < 0.6  # on padding too, which belongs to nobody
  expected = np.zeros(5)
  for b, t in np.argwhere(mask & (segment_ids > 0)):
    expected[segment_ids[b, t] - 1] += np.float64(x[b, t])
  dirty = np.where(mask & (segment_ids > 0), x, np.float32(junk))
  np.testing.assert_allclose(
      sum_episodes(dirty, mask, batches.of(segment_ids)), expected, rtol=1e-5
  )


def test_loss_mask_is_sampled_tokens_of_valid_episodes():
  segment_ids = np.array([[1, 1, 1, 0], [2, 2, 2, 2]])
  completion_mask = np.array([[0, 1, 1, 0], [0, 1, 0, 1]], bool)
  valid = jnp.array([True, False])
  np.testing.assert_array_equal(
      masked.loss_mask(
          batches.of(segment_ids, sampled=completion_mask, valid=valid)
      ),
      [[False, True, True, False], [False] * 4],
  )


# Episode 1 has two segments, 2 has one: ids of segments go up to 3.
SEGMENTS = np.array([[1, 1, 2, 2], [3, 3, 3, 0]])
EPISODES = np.array([[1, 1, 1, 1], [2, 2, 2, 0]])


def test_values_of_episodes_follow_episodes_and_not_segments():
  batch = batches.of(EPISODES, segments=SEGMENTS)
  spread = masked.gather_episodes(jnp.array([10.0, 20.0]), batch)
  np.testing.assert_array_equal(spread[0], [10, 10, 10, 10])
  np.testing.assert_array_equal(spread[1, :3], [20, 20, 20])
  found = sum_episodes(np.ones((2, 4)), EPISODES > 0, batch)
  np.testing.assert_array_equal(found, [4, 3])


@pytest.mark.parametrize('size', [1, 3])
def test_values_that_are_not_one_an_episode_are_refused(size):
  batch = batches.of(EPISODES, segments=SEGMENTS)
  with pytest.raises(AssertionError, match='shape'):
    masked.gather_episodes(jnp.ones(size), batch)
