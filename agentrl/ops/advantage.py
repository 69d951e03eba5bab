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
    scale: bool = True,
) -> jax.Array:
  """Standardises each return within its group (GRPO, arXiv:2402.03300 eq. 3).

  Args:
    returns: `[E]` episode returns.
    group_ids: `[E]` integers in `[0, num_groups)`.
    valid: `[E]` bool; failed and padding episodes count nowhere and get 0.
    num_groups: number of distinct tasks in the batch; static.
    ddof: 1 for the unbiased standard deviation, 0 for the population's.
    eps: added to the standard deviation, so a tied group gets zeros, not NaNs.
    scale: False only subtracts the mean (Dr. GRPO, arXiv:2503.20783).

  Returns:
    `[E]` advantages; 0 in a group with one valid episode.
  """
  chex.assert_rank([returns, group_ids, valid], 1)
  chex.assert_equal_shape([returns, group_ids, valid])

  total = _totals(group_ids, valid, num_groups)
  size = total(jnp.ones_like(returns))
  mean = total(returns) / jnp.maximum(size, 1)
  keep = valid & (size > 1)[group_ids]
  centred = jnp.where(keep, returns - mean[group_ids], 0.0)
  if not scale:
    return centred
  variance = total(centred**2) / jnp.maximum(size - ddof, 1)
  # Equal returns whose float32 mean is off by an ulp are tied, not different:
  # dividing such a residue by its own size would make noise a full advantage.
  magnitude = total(jnp.abs(returns)) / jnp.maximum(size, 1)
  tied = jnp.sqrt(variance) <= 1e-6 * magnitude
  standardised = centred / (jnp.sqrt(variance)[group_ids] + eps)
  return jnp.where(tied[group_ids], 0.0, standardised)


def leave_one_out(
    returns: jax.Array,
    group_ids: jax.Array,
    valid: jax.Array,
    *,
    num_groups: int,
) -> jax.Array:
  """Return minus the mean of the others (RLOO, arXiv:2402.14740).

  Args:
    returns: `[E]` episode returns.
    group_ids: `[E]` integers in `[0, num_groups)`.
    valid: `[E]` bool; failed and padding episodes count nowhere and get 0.
    num_groups: number of distinct tasks in the batch; static.

  Returns:
    `[E]` advantages; 0 in a group with one valid episode.
  """
  chex.assert_rank([returns, group_ids, valid], 1)
  chex.assert_equal_shape([returns, group_ids, valid])
  total = _totals(group_ids, valid, num_groups)
  size = total(jnp.ones_like(returns))[group_ids]
  others = (total(returns)[group_ids] - returns) / jnp.maximum(size - 1, 1)
  return jnp.where(valid & (size > 1), returns - others, 0.0)


def _totals(group_ids, valid, num_groups):
  """A function that sums `[E]` values over the valid members of each group."""
  return lambda x: jax.ops.segment_sum(
      jnp.where(valid, x, 0.0), group_ids, num_segments=num_groups
  )


def whiten(x: jax.Array, mask: jax.Array, *, eps: float = 1e-8) -> jax.Array:
  """Mean 0, variance 1 over the masked entries; 0 elsewhere.

  The whole collection is one population (REINFORCE++, arXiv:2501.03262),
  with the unbiased variance. Entries that are all equal give zeros.
  """
  chex.assert_equal_shape([x, mask])
  count = jnp.sum(mask)
  mean = masked.sum(x, mask) / jnp.maximum(count, 1)
  centred = jnp.where(mask, x - mean, 0.0)
  variance = jnp.sum(centred**2) / jnp.maximum(count - 1, 1)
  # As in `group_relative`: the rounding of a mean is no difference.
  magnitude = masked.sum(jnp.abs(x), mask) / jnp.maximum(count, 1)
  tied = jnp.sqrt(variance) <= 1e-6 * magnitude
  return jnp.where(tied, 0.0, centred * jax.lax.rsqrt(variance + eps))


def to_tokens(
    per_episode: jax.Array, episode_ids: jax.Array, completion_mask: jax.Array
) -> jax.Array:
  """Gives every sampled token its episode's `[E]` value; `[B, T]`, else 0."""
  spread = masked.gather_episodes(per_episode, episode_ids)
  return jnp.where(completion_mask, spread, 0.0)
