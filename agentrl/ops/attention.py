"""Softmax attention with grouped heads, over whole rows and over a cache.

Queries have H heads, keys and values K of them; query head h reads key head
h // (H // K) (grouped-query attention, arXiv:2305.13245). Scores and softmax
are float32 whatever the inputs are.
"""

import chex
import jax
import jax.numpy as jnp

# Finite, so that a row with nothing to attend to (padding) gives a mean
# instead of NaN; such rows are masked by their callers.
_MASKED = -1e30


def _grouped(
    queries: jax.Array, keys: jax.Array, values: jax.Array, mask: jax.Array
) -> jax.Array:
  """Attends `[B, T, H, D]` queries to `[B, K, S, D]` keys under `[B, T, S]`."""
  batch, length, heads, dim = queries.shape
  kv_heads = keys.shape[1]
  queries = queries.reshape(batch, length, kv_heads, heads // kv_heads, dim)
  scores = jnp.einsum(
      'btkgd,bksd->bkgts', queries, keys, preferred_element_type=jnp.float32
  )
  scores = jnp.where(mask[:, None, None], scores * dim**-0.5, _MASKED)
  weights = jax.nn.softmax(scores, axis=-1).astype(values.dtype)
  out = jnp.einsum('bkgts,bksd->btkgd', weights, values)
  return out.reshape(batch, length, heads, dim)


def causal(
    queries: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    segment_ids: jax.Array,
) -> jax.Array:
  """Causal self-attention inside segments.

  Args:
    queries: `[B, T, H, D]`.
    keys: `[B, T, K, D]`; K divides H.
    values: `[B, T, K, D]`.
    segment_ids: `[B, T]` int; a token sees only its own segment, and nothing
      sees segment 0 (padding) but padding itself.

  Returns:
    `[B, T, H, D]`.
  """
  chex.assert_rank([queries, keys, values, segment_ids], [4, 4, 4, 2])
  chex.assert_equal_shape([keys, values])
  length = queries.shape[1]
  index = jnp.arange(length)
  mask = (segment_ids[:, :, None] == segment_ids[:, None, :]) & (
      index[:, None] >= index[None, :]
  )
  # [B, K, S, D]: the layout in which the batched products run fastest.
  transposed = (jnp.swapaxes(x, 1, 2) for x in (keys, values))
  return _grouped(queries, *transposed, mask)


def cached(
    queries: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    positions: jax.Array,
) -> jax.Array:
  """Attention of new tokens to a cache that already holds them.

  Args:
    queries: `[B, T, H, D]`.
    keys: `[B, K, S, D]`; entry s is the key of position s.
    values: `[B, K, S, D]`.
    positions: `[B, T]` int, the position of each query. It sees the entries at
      and before its position; whatever lies beyond is stale and unseen.

  Returns:
    `[B, T, H, D]`.
  """
  chex.assert_rank([queries, keys, values, positions], [4, 4, 4, 2])
  chex.assert_equal_shape([keys, values])
  mask = positions[:, :, None] >= jnp.arange(keys.shape[2])
  return _grouped(queries, keys, values, mask)
