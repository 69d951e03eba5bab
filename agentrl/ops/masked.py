"""Sums over masked tokens, and the denominators that go with them."""

import jax
import jax.numpy as jnp


def sum(x: jax.Array, mask: jax.Array) -> jax.Array:
  """Sum of `x` where `mask`; other entries, NaN too, do not count."""
  return jnp.sum(jnp.where(mask, x, 0.0))


def max(x: jax.Array, mask: jax.Array) -> jax.Array:
  """Largest of non-negative `x` where `mask`; 0 when the mask is empty."""
  return jnp.max(jnp.where(mask, x, 0.0))


def gather_episodes(per_episode: jax.Array, episode_ids: jax.Array):
  """Spreads `[E]` values over the `[B, T]` tokens of their episodes.

  Padding (episode 0) reads an arbitrary episode: callers mask it.
  """
  return per_episode[jnp.maximum(episode_ids - 1, 0)]


def sum_episodes(
    x: jax.Array, mask: jax.Array, episode_ids: jax.Array, num_episodes: int
) -> jax.Array:
  """`[E]` sums of `[B, T]` values over the masked tokens of each episode."""
  kept = jnp.where(mask & (episode_ids > 0), x, 0).astype(jnp.float32)
  # Padding is episode 0 and adds 0 to the first episode.
  index = jnp.maximum(episode_ids - 1, 0)
  return jax.ops.segment_sum(
      kept.ravel(), index.ravel(), num_segments=num_episodes
  )


def loss_mask(
    completion_mask: jax.Array, episode_ids: jax.Array, valid: jax.Array
) -> jax.Array:
  """`[B, T]` bool: sampled tokens of valid episodes."""
  return completion_mask & gather_episodes(valid, episode_ids)
