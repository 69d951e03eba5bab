"""Correction for samples of another policy than the trainer assumes.

The sampler's program and the trainer's give different log-probabilities for
the same weights, and a sampler may be some updates behind. Tokens sampled
from p_sampler and trained on as if from p_old are weighed by their ratio, or
left out where it is far off. Ratios are constants: no gradient passes.
"""

import chex
import jax
import jax.numpy as jnp

from agentrl.batch import TokenBatch
from agentrl.ops import masked, ratio


def truncated_importance(
    old_logprobs: jax.Array,
    sampler_logprobs: jax.Array,
    mask: jax.Array,
    *,
    cap: float,
) -> jax.Array:
  """`[B, T]` weights min(p_old / p_sampler, cap); 1 outside the mask.

  Truncated importance sampling (Ionides 2008) per token, as proposed for
  rollouts by other kernels by Yao et al., "Your efficient RL framework secretly
  brings you off-policy RL training" (2025).

  Args:
    old_logprobs: `[B, T]` by the trainer.
    sampler_logprobs: `[B, T]` as reported when the tokens were drawn.
    mask: `[B, T]` bool.
    cap: largest weight; above 1 or equal to it.
  """
  chex.assert_equal_shape([old_logprobs, sampler_logprobs, mask])
  d = jnp.where(mask, old_logprobs - sampler_logprobs, 0.0)
  return jax.lax.stop_gradient(jnp.minimum(ratio.from_log(d), cap))


def sequence_mask(
    old_logprobs: jax.Array,
    sampler_logprobs: jax.Array,
    mask: jax.Array,
    batch: TokenBatch,
    *,
    low: float,
    high: float,
) -> jax.Array:
  """`[B, T]` bool: False on episodes that the two policies see differently.

  An episode is kept while the geometric mean of p_old / p_sampler over its
  sampled tokens lies in [low, high]: a bound that does not tighten with length
  (Liu et al., "When speed kills stability", 2025).

  Args:
    old_logprobs: `[B, T]` by the trainer.
    sampler_logprobs: `[B, T]` as reported when the tokens were drawn.
    mask: `[B, T]` bool.
    batch: of these tokens; an episode is whole in its microbatch.
    low: smallest geometric mean kept.
    high: largest.
  """
  chex.assert_equal_shape(
      [old_logprobs, sampler_logprobs, mask, batch.episodes]
  )
  d = jnp.where(mask, old_logprobs - sampler_logprobs, 0.0)
  total = lambda x: masked.sum_episodes(x, mask, batch)
  mean = ratio.from_log(total(d) / jnp.maximum(total(mask), 1))
  keep = (mean >= low) & (mean <= high)
  return jax.lax.stop_gradient(masked.gather_episodes(keep, batch))
