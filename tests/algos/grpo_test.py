"""Tests for agentrl.algos.grpo."""

import functools

import jax
import numpy as np
import pytest

from agentrl.algos import grpo, policy
from tests import fakes, tiny


def value_and_grad(batch, logits, **hyperparams):
  """`(loss, metrics), gradient` with respect to logits `[B, T, V]`."""
  return tiny.value_and_grad(
      tiny.bound(**hyperparams), batch, logits, tiny.denominators(batch)
  )


def oracle_loss(logprobs, entropy, batch, num_tokens, kl_coef, entropy_coef):
  """The docstring's formula, one token at a time, in float64."""
  total = 0.0
  for b, t in np.argwhere(batch.completion_mask & batch.valid[:, None]):
    old = batch.old_logprobs[b, t]
    ratio = np.exp(np.float64(logprobs[b, t]) - old)
    a = batch.advantages[b, t]
    d = np.float64(logprobs[b, t]) - batch.ref_logprobs[b, t]
    surrogate = min(ratio * a, min(max(ratio, 0.8), 1.28) * a)
    k3 = np.exp(-d) - 1 + d
    total -= surrogate - kl_coef * k3 + entropy_coef * entropy[b, t]
  return total / num_tokens


@pytest.mark.parametrize('seed', range(3))
def test_loss_matches_oracle(seed):
  rng = np.random.default_rng(seed)
  batch = tiny.random_batch(seed, failures=0.2)
  noise = lambda: rng.normal(scale=0.3, size=batch.tokens.shape).astype('f4')
  logprobs = batch.sampler_logprobs
  batch = batch.replace(
      old_logprobs=logprobs + noise(), ref_logprobs=logprobs + noise()
  )
  entropy = np.abs(noise())
  denominators = tiny.denominators(batch, kl_coef=0.1)
  loss, metrics = jax.jit(
      tiny.bound(kl_coef=0.1, clip_high=0.28, entropy_coef=0.05)
  )(policy.Outputs(logprobs, entropy), batch, denominators)
  expected = oracle_loss(
      logprobs, entropy, batch, denominators.tokens, 0.1, 0.05
  )
  np.testing.assert_allclose(loss, expected, rtol=1e-4)
  assert metrics['policy/kl_ref'] > 0


def test_first_update_needs_no_old_logprobs():
  batch = tiny.random_batch(0)
  logits = tiny.random_logits(batch, 0)
  given_old = batch.replace(old_logprobs=tiny.logprobs_of(logits, batch))
  (skipped, metrics), grad = value_and_grad(batch, logits)
  (loss, _), given_grad = value_and_grad(given_old, logits)
  np.testing.assert_allclose(skipped, loss, rtol=1e-6)
  np.testing.assert_allclose(grad, given_grad, rtol=1e-4, atol=1e-7)
  assert metrics['policy/ratio_max'] == 1.0
  assert metrics['policy/clip_fraction'] == 0.0


def test_tied_groups_have_no_gradient():
  batch = tiny.make_batch(
      [fakes.make_group(1.0, 1.0, 1.0), fakes.make_group(0.0, 0.0)]
  )
  _, grad = value_and_grad(batch, tiny.random_logits(batch, 1))
  np.testing.assert_array_equal(grad, 0)


def test_a_good_episode_becomes_likelier_and_a_bad_one_less_likely():
  batch = tiny.make_batch([fakes.make_group(1.0, 0.0)])
  logits = tiny.random_logits(batch, 2)
  _, grad = value_and_grad(batch, logits)
  change = np.asarray(
      tiny.logprobs_of(logits - grad, batch) - tiny.logprobs_of(logits, batch)
  )
  mask = batch.completion_mask
  assert (change[0][mask[0]] > 0).all() and (change[1][mask[1]] < 0).all()


def test_hand_computed_advantages():
  # Returns 3 and 1: mean 2, unbiased deviation 2^0.5, the population's 1.
  batch = tiny.make_batch([fakes.make_group(3.0, 1.0)])
  run = lambda **chosen: tiny.advantages(grpo, batch, **chosen).advantages[:, 4]
  close = functools.partial(np.testing.assert_allclose, rtol=1e-5)
  close(run(), [2**-0.5, -(2**-0.5)])
  close(run(ddof=0), [1, -1])
  close(run(normalise_std=False), [1, -1])


def test_dr_grpo_does_not_favour_easy_or_hard_tasks():
  # Without the division a task whose returns differ twice as much counts
  # twice; with it they count the same.
  batch = tiny.make_batch(
      [fakes.make_group(2.0, 0.0), fakes.make_group(4.0, 0.0)]
  )
  first = lambda **chosen: tiny.advantages(grpo, batch, **chosen).advantages[
      :, 4
  ]
  np.testing.assert_array_equal(first(normalise_std=False), [1, -1, 2, -2])
  np.testing.assert_allclose(np.abs(first()), np.full(4, 2**-0.5), rtol=1e-5)


def test_truncated_episodes_keep_their_return():
  batch = tiny.make_batch([fakes.make_group(1.0, 0.0)])  # cut at the horizon
  assert batch.truncated.all()
  assert (batch.advantages[0][batch.completion_mask[0]] > 0.7).all()


def test_rejects_mismatched_shapes():
  batch = tiny.random_batch(0)
  short = batch.sampler_logprobs[:, 1:]
  with pytest.raises(AssertionError, match='shape'):
    tiny.bound()(policy.Outputs(short, short), batch, tiny.denominators(batch))
