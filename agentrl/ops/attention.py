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


# Rows are cut into at most so many blocks of queries, so that few scores are
# computed only to be masked; a block has at least so many tokens, or the
# products become too small to be fast.
_MAX_BLOCKS = 8
_MIN_BLOCK = 96


def _grouped(
    queries: jax.Array, keys: jax.Array, values: jax.Array, mask: jax.Array
) -> jax.Array:
  """Attends `[B, T, H, D]` queries to `[B, K, S, D]` keys under `[B, T, S]`."""
  batch, length, heads, dim = queries.shape
  kv_heads, size = keys.shape[1:3]
  group = heads // kv_heads
  # The heads that share a key become rows of one matrix, [B, K, G * T, D]: as
  # an axis of its own the group would make G small products of each large one.
  queries = queries.reshape(batch, length, kv_heads, group, dim)
  queries = queries.transpose(0, 2, 3, 1, 4) * jnp.asarray(
      dim**-0.5, queries.dtype
  )
  rows = (batch, kv_heads, group * length)
  scores = jnp.einsum(
      'bkqd,bksd->bkqs',
      queries.reshape(*rows, dim),
      keys,
      preferred_element_type=jnp.float32,
  ).reshape(batch, kv_heads, group, length, size)
  scores = jnp.where(mask[:, None, None], scores, _MASKED)
  # Softmax whose division comes last: D numbers a row instead of S.
  peak = jax.lax.stop_gradient(jnp.max(scores, axis=-1, keepdims=True))
  weights = jnp.exp(scores - peak)
  total = jnp.sum(weights, axis=-1)[..., None]
  out = jnp.einsum(
      'bkqs,bksd->bkqd',
      weights.reshape(*rows, size).astype(values.dtype),
      values,
      preferred_element_type=jnp.float32,
  ).reshape(batch, kv_heads, group, length, dim)
  out = (out / total).transpose(0, 3, 1, 2, 4).astype(values.dtype)
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
  keys, values = (jnp.swapaxes(x, 1, 2) for x in (keys, values))
  block = max(_MIN_BLOCK, -(-length // _MAX_BLOCKS))
  blocks = []
  for start in range(0, length, block):
    stop = min(start + block, length)
    blocks.append(
        jax.checkpoint(_grouped)(
            queries[:, start:stop],
            keys[:, :, :stop],
            values[:, :, :stop],
            mask[:, start:stop, :stop],
        )
    )
  return jnp.concatenate(blocks, axis=1)


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
