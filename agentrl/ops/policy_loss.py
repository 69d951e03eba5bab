"""Policy-gradient objectives over masked token batches."""

import chex
import jax
import jax.numpy as jnp

from agentrl.ops import masked


def clipped_surrogate(
    logprobs: jax.Array,
    old_logprobs: jax.Array,
    advantages: jax.Array,
    mask: jax.Array,
    denominator: jax.Array,
    *,
    clip_low: float,
    clip_high: float,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """PPO's pessimistic surrogate over sampled tokens (arXiv:1707.06347 eq. 7).

      loss = -sum_mask min(r A, clip(r, 1 - clip_low, 1 + clip_high) A) / N

  Args:
    logprobs: `[B, T]` under the current policy; the only differentiated input.
    old_logprobs: `[B, T]` under the policy that starts this update.
    advantages: `[B, T]`.
    mask: `[B, T]` bool, True on tokens that the policy chose.
    denominator: N, scalar: such tokens in the whole minibatch, on all devices.
      A mean over one microbatch would weigh microbatches, not tokens.
    clip_low: lower clip range.
    clip_high: upper clip range; equal to `clip_low` in PPO, larger in DAPO.

  Returns:
    Scalar loss, and scalar metrics: sums divided by N (but `ratio_max`, which
    is a maximum over this call's tokens).
  """
  chex.assert_rank([logprobs, old_logprobs, advantages, mask], 2)
  chex.assert_equal_shape([logprobs, old_logprobs, advantages, mask])

  # Mask before exp: a padded position may hold anything, and inf * 0 is NaN.
  log_ratio = jnp.where(mask, logprobs - old_logprobs, 0.0)
  ratio = jnp.exp(log_ratio)
  clipped = jnp.clip(ratio, 1 - clip_low, 1 + clip_high)
  advantages = jnp.where(mask, advantages, 0.0)
  objective = jnp.minimum(ratio * advantages, clipped * advantages)
  # Clipping matters where the pessimistic minimum picks the clipped branch:
  # there, and only there, the gradient is zero.
  inactive = clipped * advantages < ratio * advantages

  total = lambda x: masked.sum(x, mask) / denominator
  metrics = {
      'policy/approx_kl': total(ratio - 1 - log_ratio),
      'policy/clip_fraction': total(inactive.astype(ratio.dtype)),
      'policy/ratio_max': masked.max(ratio, mask),
  }
  return -total(objective), metrics
