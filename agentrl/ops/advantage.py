"""Estimators of how much better an episode was than expected."""

import chex
import jax
import jax.numpy as jnp

from agentrl.ops import masked


def group_relative(
    returns: jax.Array,
    group_ids: jax.Array,
    valid: jax.Array,
    *,
    num_groups: int,
    ddof: int = 1,
    eps: float = 1e-6,
) -> jax.Array:
  """Standardises each return within its group (GRPO, arXiv:2402.03300 eq. 3).

  Args:
    returns: `[E]` episode returns.
    group_ids: `[E]` integers in `[0, num_groups)`.
    valid: `[E]` bool; failed and padding episodes count nowhere and get 0.
    num_groups: number of distinct tasks in the batch; static.
    ddof: 1 for the unbiased standard deviation, 0 for the population's.
    eps: added to the standard deviation, so a tied group gets zeros, not NaNs.

  Returns:
    `[E]` advantages; 0 in a group with one valid episode.
  """
  chex.assert_rank([returns, group_ids, valid], 1)
  chex.assert_equal_shape([returns, group_ids, valid])

  total = lambda x: jax.ops.segment_sum(
      jnp.where(valid, x, 0.0), group_ids, num_segments=num_groups
  )
  size = total(jnp.ones_like(returns))
  mean = total(returns) / jnp.maximum(size, 1)
  keep = valid & (size > 1)[group_ids]
  centred = jnp.where(keep, returns - mean[group_ids], 0.0)
  variance = total(centred**2) / jnp.maximum(size - ddof, 1)
  # Equal returns whose float32 mean is off by an ulp are tied, not different:
  # dividing such a residue by its own size would make noise a full advantage.
  scale = total(jnp.abs(returns)) / jnp.maximum(size, 1)
  tied = jnp.sqrt(variance) <= 1e-6 * scale
  standardised = centred / (jnp.sqrt(variance)[group_ids] + eps)
  return jnp.where(tied[group_ids], 0.0, standardised)


def to_tokens(
    per_episode: jax.Array, segment_ids: jax.Array, completion_mask: jax.Array
) -> jax.Array:
  """Gives every sampled token its episode's `[E]` value; `[B, T]`, else 0."""
  spread = masked.gather_episodes(per_episode, segment_ids)
  return jnp.where(completion_mask, spread, 0.0)
