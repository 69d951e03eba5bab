"""Tests for agentrl.algos.agentevol."""

import jax
import numpy as np

from agentrl.algos import agentevol, sft
from agentrl.algos.policy import Outputs
from tests import tiny


def weighted(batch, weights):
  return batch.replace(
      advantages=batch.completion_mask * np.float32(weights)[:, None]
  )


def random_outputs(batch, seed=0):
  rng = np.random.default_rng(seed)
  return Outputs(*-rng.exponential(size=(2, *batch.tokens.shape)))


def test_the_weight_of_an_episode_scales_each_of_its_tokens():
  batch = tiny.random_batch(0)
  weights = np.random.default_rng(1).random(len(batch.valid))
  outputs = random_outputs(batch)
  batch = weighted(batch, weights)
  loss, metrics = jax.jit(agentevol.loss)(
      outputs, batch, tiny.denominators(batch)
  )
  chosen = np.argwhere(batch.completion_mask)
  expected = np.mean([-weights[b] * outputs.logprobs[b, t] for b, t in chosen])
  np.testing.assert_allclose(loss, expected, rtol=1e-5)
  np.testing.assert_allclose(
      metrics['policy/weight'], np.mean([weights[b] for b, _ in chosen]), 1e-5
  )


def test_equal_weights_are_sft():
  batch = tiny.random_batch(1, failures=0.3)
  batch = weighted(batch, np.ones(len(batch.valid)))
  outputs = random_outputs(batch)
  first, _ = agentevol.loss(outputs, batch, tiny.denominators(batch))
  second, _ = sft.loss(outputs, batch, tiny.denominators(batch))
  np.testing.assert_allclose(first, second, rtol=1e-6)


def test_an_episode_of_weight_zero_teaches_nothing():
  batch = tiny.random_batch(2)
  batch = weighted(batch, np.arange(len(batch.valid)) > 0)
  outputs = random_outputs(batch)
  grad = jax.grad(
      lambda x: agentevol.loss(
          Outputs(x, outputs.entropy), batch, tiny.denominators(batch)
      )[0]
  )(outputs.logprobs)
  assert np.all(grad[0] == 0)
  assert np.all(grad[1:][batch.completion_mask[1:]] < 0)
