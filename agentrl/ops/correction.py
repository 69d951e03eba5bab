"""Correction for samples of another policy than the trainer assumes.

The sampler's program and the trainer's give different log-probabilities for
the same weights, and a sampler may be some updates behind. Tokens sampled
from p_sampler and trained on as if from p_old are weighed by their ratio, or
left out where it is far off. Ratios are constants: no gradient passes.

| function | of | beyond its bounds |
|---|---|---|
| `truncated_importance` | a token | the bound's weight |
| `masked_importance` | a token | weight 0 |
| `sequence_importance` | an episode: the product | the bound's weight |
| `sequence_mask` | an episode: the geometric mean | left out |
| `k3_mask` | an episode: the mean of k3 | left out |
| `outlier_mask` | an episode: its furthest token | left out |

Weights of a product are unbiased up to their bound, and vary more the longer an
episode is; masks bias towards what both policies agree on (Liu et al., "When
speed kills stability", 2025). `ops.policy_loss` has objectives that look at the
present policy's ratio instead: clipping, DPPO's trust regions, TOPR.
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


def masked_importance(
    old_logprobs: jax.Array,
    sampler_logprobs: jax.Array,
    mask: jax.Array,
    *,
    low: float,
    high: float,
) -> jax.Array:
  """`[B, T]` weights p_old / p_sampler, 0 where outside [low, high].

  IcePop (Ling team, "Every step evolves", arXiv:2510.18855): a token that the two
  policies see too differently teaches nothing, rather than something at the
  bound's weight. 1 outside the mask.

  Args:
    old_logprobs: `[B, T]` by the trainer.
    sampler_logprobs: `[B, T]` as reported when the tokens were drawn.
    mask: `[B, T]` bool.
    low: smallest ratio kept.
    high: largest.
  """
  chex.assert_equal_shape([old_logprobs, sampler_logprobs, mask])
  weight = ratio.from_log(jnp.where(mask, old_logprobs - sampler_logprobs, 0.0))
  keep = (weight >= low) & (weight <= high) | ~mask
  return jax.lax.stop_gradient(jnp.where(keep, weight, 0.0))


def sequence_importance(
    old_logprobs: jax.Array,
    sampler_logprobs: jax.Array,
    mask: jax.Array,
    batch: TokenBatch,
    *,
    cap: float,
) -> jax.Array:
  """`[B, T]` weights min(prod p_old / p_sampler, cap) of the tokens' episodes.

  Args:
    old_logprobs: `[B, T]` by the trainer.
    sampler_logprobs: `[B, T]` as reported when the tokens were drawn.
    mask: `[B, T]` bool.
    batch: of these tokens; an episode is whole in its microbatch.
    cap: largest weight.
  """
  total = masked.sum_episodes(
      _log_ratio(old_logprobs, sampler_logprobs, mask, batch), mask, batch
  )
  weight = jnp.minimum(ratio.from_log(total), cap)
  return jax.lax.stop_gradient(masked.gather_episodes(weight, batch))


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
  d = _log_ratio(old_logprobs, sampler_logprobs, mask, batch)
  mean = ratio.from_log(_mean(d, mask, batch))
  keep = (mean >= low) & (mean <= high)
  return jax.lax.stop_gradient(masked.gather_episodes(keep, batch))


def k3_mask(
    old_logprobs: jax.Array,
    sampler_logprobs: jax.Array,
    mask: jax.Array,
    batch: TokenBatch,
    *,
    most: float,
) -> jax.Array:
  """`[B, T]` bool: False on episodes whose mean k3 is above `most`.

  The mean of r - 1 - log r, r = p_old / p_sampler, estimates KL(sampler || old)
  of the episode's tokens. Unlike the geometric mean it has no sign: tokens that
  became likelier do not make up for others ("Trust region masking", ICML 2026,
  bounds the same).

  Args:
    old_logprobs: `[B, T]` by the trainer.
    sampler_logprobs: `[B, T]` as reported when the tokens were drawn.
    mask: `[B, T]` bool.
    batch: of these tokens; an episode is whole in its microbatch.
    most: nats.
  """
  d = _log_ratio(old_logprobs, sampler_logprobs, mask, batch)
  keep = _mean(ratio.k3(d), mask, batch) <= most
  return jax.lax.stop_gradient(masked.gather_episodes(keep, batch))


def outlier_mask(
    old_logprobs: jax.Array,
    sampler_logprobs: jax.Array,
    mask: jax.Array,
    batch: TokenBatch,
    *,
    most: float,
) -> jax.Array:
  """`[B, T]` bool: False on episodes of which one ratio leaves [1 / most, most].

  A single token that the trainer finds far less likely marks an episode on which
  sampler and trainer disagree about something (verl's veto).

  Args:
    old_logprobs: `[B, T]` by the trainer.
    sampler_logprobs: `[B, T]` as reported when the tokens were drawn.
    mask: `[B, T]` bool.
    batch: of these tokens; an episode is whole in its microbatch.
    most: above 1.
  """
  d = _log_ratio(old_logprobs, sampler_logprobs, mask, batch)
  far = (jnp.abs(d) > jnp.log(most)).astype(jnp.float32)
  keep = masked.sum_episodes(far, mask, batch) == 0
  return jax.lax.stop_gradient(masked.gather_episodes(keep, batch))


def _log_ratio(
    old_logprobs: jax.Array,
    sampler_logprobs: jax.Array,
    mask: jax.Array,
    batch: TokenBatch,
) -> jax.Array:
  """`[B, T]` log of p_old / p_sampler, 0 outside the mask."""
  chex.assert_equal_shape(
      [old_logprobs, sampler_logprobs, mask, batch.episodes]
  )
  return jnp.where(mask, old_logprobs - sampler_logprobs, 0.0)


def _mean(x: jax.Array, mask: jax.Array, batch: TokenBatch) -> jax.Array:
  """`[E]` means of `[B, T]` values over the masked tokens of each episode."""
  total = lambda x: masked.sum_episodes(x, mask, batch)
  return total(x) / jnp.maximum(total(mask), 1)
