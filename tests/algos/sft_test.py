"""Tests for agentrl.algos.sft."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.algos import sft
from agentrl.algos.policy import Outputs
from tests import tiny


@pytest.mark.parametrize('seed', range(3))
def test_loss_is_the_mean_negative_log_likelihood(seed):
  batch = tiny.random_batch(seed, failures=0.3)
  rng = np.random.default_rng(seed)
  logprobs, entropy = -rng.exponential(size=(2, *batch.tokens.shape))
  chosen = np.argwhere(batch.completion_mask & batch.valid[:, None])
  loss, metrics = jax.jit(sft.loss)(
      Outputs(logprobs, entropy), batch, tiny.denominators(batch)
  )
  mean = lambda x: np.mean([x[b, t] for b, t in chosen])
  np.testing.assert_allclose(loss, -mean(logprobs), rtol=1e-5)
  np.testing.assert_allclose(metrics['policy/loss'], loss)
  np.testing.assert_allclose(
      metrics['policy/entropy'], mean(entropy), rtol=1e-5
  )


def test_gradient_counts_every_chosen_token_once_and_no_other():
  batch = tiny.random_batch(1, failures=0.3)
  chosen = batch.completion_mask & batch.valid[:, None]
  logprobs = jnp.where(chosen, -1.0, jnp.nan)
  grad = jax.grad(
      lambda x: sft.loss(Outputs(x, x), batch, tiny.denominators(batch))[0]
  )(logprobs)
  np.testing.assert_allclose(grad, -1.0 * chosen / chosen.sum(), rtol=1e-6)


@pytest.mark.parametrize('weight', [0.25, 2.0])
def test_prompts_have_their_weight_and_the_metric_has_not(weight):
  batch = tiny.random_batch(3, failures=0.3)
  rng = np.random.default_rng(3)
  logprobs, entropy = -rng.exponential(size=(2, *batch.tokens.shape))
  denominators = tiny.denominators(batch)
  outputs = Outputs(logprobs, entropy)
  loss, metrics = sft.loss(outputs, batch, denominators, prompt_weight=weight)
  valid = [batch.valid[e - 1] and e > 0 for e in batch.segment_ids.ravel()]
  mask = batch.completion_mask.ravel()
  weights = np.where(mask, 1.0, weight) * valid
  expected = -(weights * logprobs.ravel()).sum() / (mask * valid).sum()
  np.testing.assert_allclose(loss, expected, rtol=1e-5)
  plain, _ = sft.loss(outputs, batch, denominators)
  np.testing.assert_allclose(metrics['policy/loss'], plain, rtol=1e-6)
  # Padding and episodes that failed teach nothing, NaN or not.
  alone = jnp.where(
      np.reshape(valid, mask.shape)[None], logprobs.ravel(), np.nan
  )
  grad = jax.grad(
      lambda x: sft.loss(
          Outputs(x, x), batch, denominators, prompt_weight=weight
      )[0]
  )(alone.reshape(logprobs.shape))
  np.testing.assert_allclose(
      grad.ravel(), -weights / (mask * valid).sum(), rtol=1e-5
  )


def test_a_weight_of_prompts_that_are_shared_is_refused():
  batch = tiny.random_batch(0).replace(prefix=object())
  outputs = Outputs(batch.sampler_logprobs, batch.sampler_logprobs)
  with pytest.raises(ValueError, match='shared prefixes'):
    sft.loss(outputs, batch, tiny.denominators(batch), prompt_weight=0.1)


def test_the_advantage_and_the_reward_play_no_part():
  batch = tiny.random_batch(2)
  other = batch.replace(advantages=None, rewards=batch.rewards * 7)
  outputs = Outputs(batch.sampler_logprobs, batch.sampler_logprobs)
  first, second = (
      sft.loss(outputs, b, tiny.denominators(b))[0] for b in (batch, other)
  )
  assert first == second


def test_rejects_mismatched_shapes():
  batch = tiny.random_batch(0)
  with pytest.raises((AssertionError, TypeError, ValueError), match='shape'):
    sft.loss(
        Outputs(batch.sampler_logprobs[:, 1:], batch.sampler_logprobs),
        batch,
        tiny.denominators(batch),
    )
