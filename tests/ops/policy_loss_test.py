"""Tests for agentrl.ops.policy_loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.ops import policy_loss

jitted = jax.jit(
    policy_loss.clipped_surrogate, static_argnames=('clip_low', 'clip_high')
)


def loss_of(*batch, clip_low=0.2, clip_high=0.2):
  """The loss alone, over all tokens of the mask."""
  denominator = np.float32(max(batch[-1].sum(), 1))
  return jitted(*batch, denominator, clip_low=clip_low, clip_high=clip_high)[0]


def oracle(logprobs, old_logprobs, advantages, mask, clip_low, clip_high):
  """The same objective and metrics, one token at a time, in float64."""
  terms, kl, clipped_away, ratios = [], [], [], [0.0]
  for b, t in np.argwhere(mask):
    ratio = np.exp(np.float64(logprobs[b, t]) - old_logprobs[b, t])
    clipped = min(max(ratio, 1 - clip_low), 1 + clip_high)
    free, bound = ratio * advantages[b, t], clipped * advantages[b, t]
    terms.append(min(free, bound))
    kl.append(ratio - 1 - np.log(ratio))
    clipped_away.append(bound < free)
    ratios.append(ratio)
  mean = lambda x: np.mean(x) if x else 0.0
  return -mean(terms), {
      'policy/approx_kl': mean(kl),
      'policy/clip_fraction': mean(clipped_away),
      'policy/ratio_max': max(ratios),
  }


def random_batch(seed, batch=3, length=7):
  rng = np.random.default_rng(seed)
  shape = (batch, length)
  logprobs = -rng.exponential(size=shape).astype(np.float32)
  noise = rng.normal(scale=0.3, size=shape).astype(np.float32)
  advantages = rng.normal(size=shape).astype(np.float32)
  mask = rng.random(shape) < 0.6
  return logprobs, logprobs + noise, advantages, mask


@pytest.mark.parametrize('clip_low, clip_high', [(0.2, 0.2), (0.2, 0.28)])
@pytest.mark.parametrize('seed', range(3))
def test_loss_and_metrics_match_oracle(seed, clip_low, clip_high):
  batch = random_batch(seed)
  loss, metrics = jitted(
      *batch,
      np.float32(batch[-1].sum()),
      clip_low=clip_low,
      clip_high=clip_high,
  )
  expected, expected_metrics = oracle(*batch, clip_low, clip_high)
  np.testing.assert_allclose(loss, expected, rtol=1e-5)
  assert metrics.keys() == expected_metrics.keys()
  for name, value in expected_metrics.items():
    np.testing.assert_allclose(metrics[name], value, rtol=1e-4, err_msg=name)


@given(
    seed=st.integers(0, 2**32 - 1),
    junk=st.sampled_from([np.nan, np.inf, -np.inf, 1e30]),
    planted=st.sets(st.sampled_from([0, 1, 2]), min_size=1),
)
@settings(max_examples=40, deadline=None)
def test_masked_positions_never_matter(seed, junk, planted):
  *inputs, mask = random_batch(seed)
  dirty = [
      jnp.where(mask, x, np.float32(junk)) if i in planted else jnp.asarray(x)
      for i, x in enumerate(inputs)
  ]
  run = jax.value_and_grad(lambda x, *rest: loss_of(x, *rest, mask))
  clean_loss, clean_grad = run(*map(jnp.asarray, inputs))
  loss, grad = run(*dirty)
  np.testing.assert_array_equal(loss, clean_loss)
  np.testing.assert_array_equal(grad, clean_grad)
  np.testing.assert_array_equal(np.asarray(grad)[~mask], 0)


@given(seed=st.integers(0, 2**32 - 1), extra=st.sampled_from([0, 4]))
@settings(max_examples=20, deadline=None)
def test_order_and_padding_do_not_matter(seed, extra):
  batch = random_batch(seed)
  order = np.random.default_rng(seed).permutation(3)
  moved = [np.pad(x[order], ((0, 0), (0, extra))) for x in batch]
  # The terms have size 1 and may cancel: float32 is exact to 1e-7 of them.
  np.testing.assert_allclose(
      loss_of(*moved), loss_of(*batch), rtol=1e-5, atol=1e-6
  )


def test_on_policy_gradient_is_reinforce():
  logprobs, _, advantages, mask = random_batch(0)
  grad = jax.grad(lambda x: loss_of(x, logprobs, advantages, mask))
  np.testing.assert_allclose(
      grad(jnp.asarray(logprobs)), -advantages * mask / mask.sum(), rtol=1e-5
  )


@pytest.mark.parametrize(
    'log_ratio, advantage, slope',
    [
        (0.0, 1.0, -1.0),
        (0.3, 1.0, 0.0),  # moved far enough in the good direction
        (0.3, -1.0, np.exp(0.3)),  # moved the wrong way: pulled back
        (-0.3, -1.0, 0.0),
        (-0.3, 1.0, -np.exp(-0.3)),
        (0.23, 1.0, -np.exp(0.23)),  # between 1.2 and 1.28: clip_high counts
    ],
)
def test_gradient_stops_only_past_the_clip(log_ratio, advantage, slope):
  one = np.ones((1, 1), np.float32)
  grad = jax.grad(
      lambda x: loss_of(
          x, -one, advantage * one, one.astype(bool), clip_high=0.28
      )
  )(jnp.asarray((-1 + log_ratio) * one))
  np.testing.assert_allclose(grad, [[slope]], rtol=1e-5)


def test_an_empty_mask_gives_zero():
  logprobs, old_logprobs, advantages, mask = random_batch(1)
  loss, metrics = jitted(
      logprobs,
      old_logprobs,
      advantages,
      np.zeros_like(mask),
      np.float32(1),
      clip_low=0.2,
      clip_high=0.2,
  )
  assert loss == 0 and all(value == 0 for value in metrics.values())


def test_rejects_mismatched_shapes():
  logprobs, old_logprobs, advantages, mask = random_batch(0)
  with pytest.raises(AssertionError, match='shape'):
    loss_of(logprobs, old_logprobs, advantages[:, 1:], mask)
