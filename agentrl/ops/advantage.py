"""Estimators of how much better an episode was than expected."""

import chex
import jax
import jax.numpy as jnp

from agentrl.batch import TokenBatch
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
  above = _above_smallest(returns, group_ids, valid, num_groups)
  mean = total(above) / jnp.maximum(size, 1)
  keep = valid & (size > 1)[group_ids]
  centred = jnp.where(keep, above - mean[group_ids], 0.0)
  if not scale:
    return centred
  variance = total(centred**2) / jnp.maximum(size - ddof, 1)
  return centred / (jnp.sqrt(variance)[group_ids] + eps)


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
  above = _above_smallest(returns, group_ids, valid, num_groups)
  others = (total(above)[group_ids] - above) / jnp.maximum(size - 1, 1)
  return jnp.where(valid & (size > 1), above - others, 0.0)


def _totals(group_ids, valid, num_groups):
  """A function that sums `[E]` values over the valid members of each group."""
  return lambda x: jax.ops.segment_sum(
      jnp.where(valid, x, 0.0), group_ids, num_segments=num_groups
  )


def _above_smallest(
    values: jax.Array, group_ids: jax.Array, valid: jax.Array, num_groups: int
) -> jax.Array:
  """`[E]` values less the smallest of their group; 0 where not valid.

  A mean is rounded, by more the more values it is of, and what equal values
  differ from it by is noise that a division by its own size would make a full
  advantage. Their differences from the smallest are exactly 0, whatever their
  number, and so is the mean of those.

  The same return summed in two orders differs by some ulps: a group that spans
  no more than 1e-6 of its largest magnitude counts as equal.
  """
  smallest, largest, magnitude = (
      jax.ops.segment_max(
          jnp.where(valid, x, -jnp.inf), group_ids, num_segments=num_groups
      )[group_ids]
      for x in (-values, values, jnp.abs(values))
  )
  smallest = -smallest
  differ = largest - smallest > 1e-6 * magnitude
  return jnp.where(valid & differ, values - smallest, 0.0)


def whiten(x: jax.Array, mask: jax.Array, *, eps: float = 1e-8) -> jax.Array:
  """Mean 0, variance 1 over the masked entries; 0 elsewhere.

  The whole collection is one population (REINFORCE++, arXiv:2501.03262),
  with the unbiased variance. Entries that are all equal give zeros.
  """
  chex.assert_equal_shape([x, mask])
  count = jnp.sum(mask)
  one_group = jnp.zeros(x.size, int)
  above = _above_smallest(x.ravel(), one_group, mask.ravel(), 1)
  above = above.reshape(x.shape)
  mean = jnp.sum(above) / jnp.maximum(count, 1)
  centred = jnp.where(mask, above - mean, 0.0)
  variance = jnp.sum(centred**2) / jnp.maximum(count - 1, 1)
  return centred * jax.lax.rsqrt(variance + eps)


def to_tokens(per_episode: jax.Array, batch: TokenBatch) -> jax.Array:
  """`[B, T]`: each sampled token has its episode's `[E]` value, others 0."""
  spread = masked.gather_episodes(per_episode, batch)
  return jnp.where(batch.completion_mask, spread, 0.0)
