"""Sums over masked tokens, and values of episodes spread over theirs.

Functions that need to know which token is whose take the batch, not its ids:
those of segments and of episodes look alike, and a wrong gather fails nowhere.
"""

import chex
import jax
import jax.numpy as jnp

from agentrl.batch import TokenBatch


def sum(x: jax.Array, mask: jax.Array) -> jax.Array:
  """Sum of `x` where `mask`; other entries, NaN too, do not count."""
  return jnp.sum(jnp.where(mask, x, 0.0))


def max(x: jax.Array, mask: jax.Array) -> jax.Array:
  """Largest of non-negative `x` where `mask`; 0 when the mask is empty."""
  return jnp.max(jnp.where(mask, x, 0.0))


def gather_episodes(per_episode: jax.Array, batch: TokenBatch) -> jax.Array:
  """Spreads `[E]` values over the `[B, T]` tokens of their episodes.

  Padding (episode 0) reads an arbitrary episode: callers mask it.
  """
  # A gather clamps its indices: values of another length would go unnoticed.
  chex.assert_shape(per_episode, batch.valid.shape)
  return per_episode[jnp.maximum(batch.episodes - 1, 0)]


def sum_episodes(x: jax.Array, mask: jax.Array, batch: TokenBatch) -> jax.Array:
  """`[E]` sums of `[B, T]` values over the masked tokens of each episode.

  An episode is whole in its microbatch.
  """
  chex.assert_equal_shape([x, mask, batch.episodes])
  kept = jnp.where(mask & (batch.episodes > 0), x, 0).astype(jnp.float32)
  # Padding is episode 0 and adds 0 to the first episode.
  index = jnp.maximum(batch.episodes - 1, 0)
  return jax.ops.segment_sum(
      kept.ravel(), index.ravel(), num_segments=len(batch.valid)
  )


def loss_mask(batch: TokenBatch) -> jax.Array:
  """`[B, T]` bool: sampled tokens of valid episodes."""
  return batch.completion_mask & gather_episodes(batch.valid, batch)
