"""Tests for agentrl.ops.value_loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.ops import value_loss

clipped = jax.jit(value_loss.clipped, static_argnames='clip')


def oracle(values, old_values, returns, clip):
  """One token at a time, in float64: loss and whether it has no gradient."""
  loss = np.zeros(values.shape)
  stopped = np.zeros(values.shape, bool)
  for i in np.ndindex(*values.shape):
    v, old, target = (np.float64(x[i]) for x in (values, old_values, returns))
    loss[i] = (v - target) ** 2 / 2
    if clip is None:
      continue
    near = min(max(v, old - clip), old + clip)
    worse = (near - target) ** 2 / 2
    if worse > loss[i]:
      loss[i], stopped[i] = worse, True
  return loss, stopped


def random_values(seed):
  return np.random.default_rng(seed).normal(size=(3, 4, 9)).astype(np.float32)


@pytest.mark.parametrize('clip', [None, 0.2, 0.5, 100.0])
@pytest.mark.parametrize('seed', range(2))
def test_matches_oracle(seed, clip):
  loss, stopped = clipped(*random_values(seed), clip=clip)
  expected, expected_stopped = oracle(*random_values(seed), clip)
  np.testing.assert_allclose(loss, expected, rtol=1e-5, atol=1e-6)
  np.testing.assert_array_equal(stopped, expected_stopped)
  assert stopped.any() == (clip in (0.2, 0.5))


@pytest.mark.parametrize('clip', [None, 0.5])
def test_gradient_is_the_error_except_where_clipped(clip):
  values, old_values, returns = random_values(2)
  grad = jax.grad(
      lambda x: clipped(x, old_values, returns, clip=clip)[0].sum()
  )(jnp.asarray(values))
  _, stopped = oracle(values, old_values, returns, clip)
  np.testing.assert_allclose(
      grad, np.where(stopped, 0, values - returns), rtol=1e-5, atol=1e-6
  )


@pytest.mark.parametrize(
    'value, loss, slope',
    [
        # Old value 0, return 1, clip 0.5.
        (0.2, 0.32, -0.8),  # inside the range
        (0.9, 0.125, 0.0),  # moved past it towards the target: no more pull
        (-0.7, 1.445, -1.7),  # moved past it away: pulled back
    ],
)
def test_hand_computed(value, loss, slope):
  one = np.ones((1, 1), np.float32)
  run = jax.value_and_grad(
      lambda x: clipped(x, 0 * one, one, clip=0.5)[0].sum()
  )
  actual, grad = run(jnp.asarray(value * one))
  np.testing.assert_allclose(actual, loss, rtol=1e-5)
  np.testing.assert_allclose(grad, slope * one, rtol=1e-5)


def test_what_is_inside_the_range_never_counts_as_clipped():
  # Regression: old + (value - old) is value but for rounding.
  values, old_values, returns = random_values(3)
  values = old_values + 0.1 * values
  _, stopped = clipped(values, old_values, returns, clip=1.0)
  assert not stopped.any()


def test_rejects_mismatched_shapes():
  values, old_values, returns = random_values(0)
  with pytest.raises(AssertionError, match='shape'):
    value_loss.clipped(values, old_values[:, 1:], returns, clip=None)
