"""Tests for agentrl.ops.correction."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.ops import correction
from tests.ops import batches

importance = jax.jit(correction.truncated_importance, static_argnames='cap')
sequence_mask = jax.jit(
    correction.sequence_mask, static_argnames=('low', 'high')
)
# Two episodes share the last row.
SEGMENTS = np.array([
    [1, 1, 1, 1, 1, 0, 0, 0],
    [2, 2, 2, 2, 2, 2, 2, 2],
    [3, 3, 3, 4, 4, 4, 4, 4],
])
BATCH = batches.of(SEGMENTS)


def random_batch(seed, scale=0.3):
  rng = np.random.default_rng(seed)
  sampler = -rng.exponential(size=SEGMENTS.shape).astype(np.float32)
  noise = rng.normal(scale=scale, size=SEGMENTS.shape).astype(np.float32)
  mask = (rng.random(SEGMENTS.shape) < 0.7) & (SEGMENTS > 0)
  mask[:, 1] = mask[2, 4] = True  # a sampled token in each episode
  return sampler + noise, sampler, mask


def sequence_oracle(old, sampler, mask, low, high):
  """The product of an episode's ratios, to the power of one over their number."""
  keep = np.zeros(mask.shape, bool)
  for episode in range(1, 5):
    tokens = np.argwhere(mask & (SEGMENTS == episode))
    product = 1.0
    for b, t in tokens:
      product *= np.exp(np.float64(old[b, t]) - sampler[b, t])
    keep |= (SEGMENTS == episode) & (
        low <= product ** (1 / len(tokens)) <= high
    )
  return keep


@pytest.mark.parametrize('cap', [1.0, 1.5, 100.0])
@pytest.mark.parametrize('seed', range(2))
def test_truncated_importance_matches_oracle(seed, cap):
  old, sampler, mask = random_batch(seed)
  expected = np.ones(mask.shape)
  for b, t in np.argwhere(mask):
    expected[b, t] = min(np.exp(np.float64(old[b, t]) - sampler[b, t]), cap)
  np.testing.assert_allclose(
      importance(old, sampler, mask, cap=cap), expected, rtol=1e-5
  )


@pytest.mark.parametrize('seed', range(4))
def test_sequence_mask_matches_oracle(seed):
  batch = random_batch(seed)
  bounds = dict(low=0.95, high=1.08)
  actual = sequence_mask(*batch, BATCH, **bounds)
  expected = sequence_oracle(*batch, **bounds)
  mask = batch[-1]
  np.testing.assert_array_equal(np.asarray(actual)[mask], expected[mask])


def test_the_sequence_mask_takes_and_leaves_whole_episodes():
  old, sampler, mask = random_batch(0, scale=0.0)
  old = old + np.float32(np.log([[1.2], [0.8], [1.0]]))
  keep = sequence_mask(old, sampler, mask, BATCH, low=0.9, high=1.1)
  np.testing.assert_array_equal(np.asarray(keep)[SEGMENTS == 1], False)
  np.testing.assert_array_equal(np.asarray(keep)[SEGMENTS == 2], False)
  np.testing.assert_array_equal(np.asarray(keep)[SEGMENTS > 2], True)


def test_its_bound_does_not_tighten_with_length():
  # The same ratio on every token, of 1 token and of 8.
  old = np.full(SEGMENTS.shape, np.float32(np.log(1.05)))
  mask = SEGMENTS > 0
  mask[0, 1:] = False
  keep = sequence_mask(old, 0 * old, mask, BATCH, low=0.9, high=1.1)
  assert np.asarray(keep)[mask].all()


def test_equal_policies_weigh_one_and_keep_everything():
  old, _, mask = random_batch(1)
  np.testing.assert_array_equal(importance(old, old, mask, cap=2.0), 1)
  assert sequence_mask(old, old, mask, BATCH, low=0.99, high=1.01).all()


@given(
    seed=st.integers(0, 2**32 - 1),
    junk=st.sampled_from([np.nan, np.inf, -np.inf, 1e30]),
)
@settings(max_examples=20)
def test_masked_positions_never_matter(seed, junk):
  old, sampler, mask = random_batch(seed)
  plant = lambda x: np.where(mask, x, np.float32(junk))
  bounds = dict(low=0.95, high=1.08)
  for run in (
      functools.partial(importance, cap=1.5),
      lambda *x: sequence_mask(*x, BATCH, **bounds),
  ):
    np.testing.assert_array_equal(
        run(plant(old), plant(sampler), mask), run(old, sampler, mask)
    )


def test_no_gradient_passes():
  old, sampler, mask = map(jnp.asarray, random_batch(2))

  def total(old, sampler):
    weight = importance(old, sampler, mask, cap=1.5)
    keep = sequence_mask(old, sampler, mask, BATCH, low=0.9, high=1.1)
    return jnp.sum(weight * keep)

  for grad in jax.grad(total, argnums=(0, 1))(old, sampler):
    np.testing.assert_array_equal(grad, 0)


def test_rejects_mismatched_shapes():
  old, sampler, mask = random_batch(0)
  with pytest.raises(AssertionError, match='shape'):
    importance(old, sampler[1:], mask, cap=1.0)
  with pytest.raises(AssertionError, match='shape'):
    sequence_mask(
        old, sampler, mask, batches.of(SEGMENTS[:, 1:]), low=0.9, high=1.1
    )


@pytest.mark.parametrize('d', [20, 50, 89, 200, -20, -50, -89, -200])
def test_ratios_too_large_for_float32_have_weights_all_the_same(d):
  old = np.full(SEGMENTS.shape, np.float32(d))
  mask = SEGMENTS > 0
  weight = importance(old, 0 * old, mask, cap=2.0)
  expected = np.where(mask, min(np.exp(np.float64(d)), 2.0), 1.0)
  np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=3e-9)
  keep = sequence_mask(old, 0 * old, mask, BATCH, low=0.5, high=2.0)
  assert not np.asarray(keep)[mask].any()


# The other rows of the table, each against loops over episodes in float64.


def ratios(old, sampler, mask):
  """(b, t), ratio of each sampled token of each of the four episodes."""
  return {
      episode: [
          ((b, t), float(np.exp(np.float64(old[b, t]) - sampler[b, t])))
          for b, t in np.argwhere(mask & (SEGMENTS == episode))
      ]
      for episode in range(1, 5)
  }


def spread(per_episode):
  """`[B, T]`, the value of each token's episode; 1 on padding."""
  return np.vectorize(lambda e: per_episode.get(e, 1.0))(SEGMENTS)


ROWS = {
    'sequence_importance': (
        dict(cap=1.1),
        lambda found: min(np.prod([r for _, r in found]), 1.1),
    ),
    'k3_mask': (
        dict(most=0.03),
        lambda found: np.mean([r - 1 - np.log(r) for _, r in found]) <= 0.03,
    ),
    'outlier_mask': (
        dict(most=1.7),
        lambda found: all(1 / 1.7 <= r <= 1.7 for _, r in found),
    ),
}


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize('name', ROWS)
def test_rows_of_episodes_match_oracles(name, seed):
  bounds, oracle = ROWS[name]
  old, sampler, mask = random_batch(seed)
  of_episodes = {
      e: float(oracle(x)) for e, x in ratios(old, sampler, mask).items()
  }
  actual = getattr(correction, name)(old, sampler, mask, BATCH, **bounds)
  np.testing.assert_allclose(
      np.asarray(actual, np.float32)[mask], spread(of_episodes)[mask], rtol=1e-5
  )
  # Over the seeds it acts on some episodes and not on others.
  assert any(
      len(set(oracle(x) for x in ratios(*random_batch(s)).values())) > 1
      for s in range(3)
  )


@pytest.mark.parametrize('seed', range(3))
def test_masked_importance_matches_its_oracle(seed):
  old, sampler, mask = random_batch(seed)
  expected = np.ones(mask.shape)
  for of_episode in ratios(old, sampler, mask).values():
    for place, r in of_episode:
      expected[place] = r if 0.8 <= r <= 1.3 else 0.0
  actual = correction.masked_importance(old, sampler, mask, low=0.8, high=1.3)
  np.testing.assert_allclose(actual, expected, rtol=1e-5)
  assert {0.0} < set(expected[mask])


@pytest.mark.parametrize('name', ROWS)
def test_rows_of_episodes_neither_see_other_tokens_nor_pass_gradients(name):
  bounds, _ = ROWS[name]
  run = functools.partial(getattr(correction, name), **bounds)
  old, sampler, mask = random_batch(3)
  plant = lambda x: np.where(mask, x, np.float32(np.nan))
  np.testing.assert_array_equal(
      run(plant(old), plant(sampler), mask, BATCH),
      run(old, sampler, mask, BATCH),
  )
  total = lambda old: jnp.sum(run(old, sampler, mask, BATCH).astype(float))
  np.testing.assert_array_equal(jax.grad(total)(jnp.asarray(old)), 0)
  same = run(old, old, mask, BATCH)
  np.testing.assert_array_equal(np.asarray(same)[mask], 1)
  with pytest.raises(AssertionError, match='shape'):
    run(old, sampler[1:], mask, BATCH)
