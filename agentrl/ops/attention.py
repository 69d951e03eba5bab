"""Softmax attention with grouped heads, over whole rows and over a cache.

Queries have H heads, keys and values K of them; query head h reads key head
h // (H // K) (grouped-query attention, arXiv:2305.13245). Scores and softmax
are float32 for inputs of any dtype.

Attention over rows takes these arguments, here and in `models.mesh_attention`,
and returns `[B, T, H, D]`:

- queries: `[B, T, H, D]`.
- keys, values: `[B, T, K, D]`; K divides H.
- segment_ids: `[B, T]` int; a token sees only its own segment, and nothing sees
  segment 0 (padding) but padding itself. The tokens of a segment lie side by
  side.
- positions: `[B, T]` int, from the start of the shared prefix on.
- prefix: keys and values `[B, P, K, D]`, of positions 0 to P - 1, and `[B, P]`
  int, 0 on padding, which comes last.
- window: scalar int: a token sees itself and the `window - 1` before it
  (arXiv:2004.05150). None: all before it.
- scale: of the scores; None: D^-0.5.
- sinks: `[H]`, a score that joins those of a head's keys and has no value, so that
  a token may attend to less than everything (arXiv:2309.17453). None: there is none.
"""

import functools

import chex
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from agentrl.ops import linear

# Finite, so that a row with nothing to attend to (padding) gives a mean
# instead of NaN; such rows are masked by their callers.
_MASKED = -1e30

# Marks results, so that a rematerialisation policy can keep them.
NAME = 'attention'


# Rows are cut into at most this many blocks of queries, so that few scores are
# computed only to be masked; a block has at least this many tokens: smaller
# products are slow.
_MAX_BLOCKS = 8
_MIN_BLOCK = 128


def _grouped(
    queries: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    mask: jax.Array,
    sinks: jax.Array | None,
    scale: float | None,
) -> jax.Array:
  """Attends `[B, T, H, D]` queries to `[B, K, S, D]` keys under `[B, T, S]`."""
  batch, length, heads, dim = queries.shape
  kv_heads, size = keys.shape[1:3]
  group = heads // kv_heads
  # The heads that share a key become rows of one matrix, [B, K, G * T, D]: as
  # an axis of its own the group would make G small products of each large one.
  queries = queries.reshape(batch, length, kv_heads, group, dim)
  scale = dim**-0.5 if scale is None else scale
  queries = queries.transpose(0, 2, 3, 1, 4) * jnp.asarray(scale, queries.dtype)
  rows = (batch, kv_heads, group * length)
  scores = _scores(queries.reshape(*rows, dim), keys)
  scores = scores.reshape(batch, kv_heads, group, length, size)
  scores = jnp.where(mask[:, None, None], scores, _MASKED)
  # Softmax whose division comes last: D numbers a row instead of S.
  peak = jnp.max(scores, axis=-1, keepdims=True)
  if sinks is not None:
    sinks = sinks.astype(jnp.float32).reshape(kv_heads, group, 1, 1)
    peak = jnp.maximum(peak, sinks)
  peak = jax.lax.stop_gradient(peak)
  weights = jnp.exp(scores - peak)
  total = jnp.sum(weights, axis=-1)[..., None]
  if sinks is not None:
    total = total + jnp.exp(sinks - peak)
  out = jnp.einsum(
      'bkqs,bksd->bkqd',
      weights.reshape(*rows, size).astype(values.dtype),
      values,
      preferred_element_type=jnp.float32,
  ).reshape(batch, kv_heads, group, length, dim)
  out = (out / total).transpose(0, 3, 1, 2, 4).astype(values.dtype)
  return out.reshape(batch, length, heads, dim)


def _scores(queries: jax.Array, keys: jax.Array) -> jax.Array:
  """`[B, K, Q, D]` by `[B, K, S, D]` -> `[B, K, Q, S]` float32."""
  if linear.large_first(queries.shape[2]):
    turned = jax.lax.optimization_barrier(jnp.swapaxes(queries, 2, 3))
    scores = jnp.einsum(
        'bksd,bkdq->bksq', keys, turned, preferred_element_type=jnp.float32
    )
    return jnp.swapaxes(jax.lax.optimization_barrier(scores), 2, 3)
  return jnp.einsum(
      'bkqd,bksd->bkqs', queries, keys, preferred_element_type=jnp.float32
  )


def causal(
    queries: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    segment_ids: jax.Array,
    *,
    window: jax.Array | None = None,
    scale: float | None = None,
    sinks: jax.Array | None = None,
) -> jax.Array:
  """Causal self-attention inside segments."""
  chex.assert_rank([queries, keys, values, segment_ids], [4, 4, 4, 2])
  chex.assert_equal_shape([keys, values])
  mask = _inside_segments(segment_ids, window)
  return _by_blocks(
      queries, keys, values, mask, scale=scale, sinks=sinks, triangle=True
  )


def _inside_segments(
    segment_ids: jax.Array, window: jax.Array | None
) -> jax.Array:
  """`[B, T, T]` mask of a row: queries, then keys."""
  index = jnp.arange(segment_ids.shape[1])
  mask = (segment_ids[:, :, None] == segment_ids[:, None, :]) & (
      index[:, None] >= index[None, :]
  )
  if window is not None:
    # Inside a segment, distances in the row are distances of positions.
    mask &= index[:, None] - index[None, :] < window
  return mask


def after_prefix(
    queries: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    segment_ids: jax.Array,
    positions: jax.Array,
    prefix: tuple[jax.Array, jax.Array, jax.Array],
    *,
    window: jax.Array | None = None,
    scale: float | None = None,
    sinks: jax.Array | None = None,
) -> jax.Array:
  """`causal` for rows all of whose segments begin with one prefix.

  One softmax over the keys of the prefix and of the row (shared-prefix
  attention, as in Hydragen, arXiv:2402.05099, which merges two). Queries, keys
  and values are those of the tokens after the prefix.
  """
  chex.assert_rank([queries, keys, values, segment_ids], [4, 4, 4, 2])
  chex.assert_equal_shape([segment_ids, positions])
  prefix_keys, prefix_values, prefix_segment_ids = prefix
  chex.assert_equal_shape([prefix_keys, prefix_values])
  size = prefix_segment_ids.shape[1]
  shape = (*segment_ids.shape, size)
  before = jnp.broadcast_to(prefix_segment_ids[:, None] > 0, shape)
  if window is not None:
    before &= positions[:, :, None] - jnp.arange(size) < window
  return _by_blocks(
      queries,
      jnp.concatenate([prefix_keys, keys], axis=1),
      jnp.concatenate([prefix_values, values], axis=1),
      jnp.concatenate([before, _inside_segments(segment_ids, window)], axis=2),
      scale=scale,
      sinks=sinks,
      triangle=True,
  )


def causal_part(
    queries: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    segment_ids: jax.Array,
    key_segment_ids: jax.Array,
    *,
    start: jax.Array,
    window: jax.Array | None = None,
    scale: float | None = None,
    sinks: jax.Array | None = None,
) -> jax.Array:
  """`causal` for a run of queries out of longer rows.

  Queries and `segment_ids` are those of tokens `start` to `start + Q` of their
  rows; keys, values and `key_segment_ids` are those of whole rows. `start` is
  a traced scalar, so all T keys are scored.
  """
  chex.assert_rank([queries, keys, values, segment_ids], [4, 4, 4, 2])
  chex.assert_equal_shape([keys, values])
  index = start + jnp.arange(queries.shape[1])
  mask = (segment_ids[:, :, None] == key_segment_ids[:, None, :]) & (
      index[:, None] >= jnp.arange(keys.shape[1])
  )
  if window is not None:
    mask &= index[:, None] - jnp.arange(keys.shape[1]) < window
  return _by_blocks(
      queries, keys, values, mask, scale=scale, sinks=sinks, triangle=False
  )


def _by_blocks(
    queries: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    mask: jax.Array,
    *,
    scale: float | None,
    sinks: jax.Array | None,
    triangle: bool,
) -> jax.Array:
  """Attends to `[B, T, K, D]` under `[B, Q, T]`, some queries at a time.

  `triangle`: the last query sees all keys, the one before it all but the last
  and so on at most, and what is not seen needs no scores.
  """
  length, size = mask.shape[1:]
  # [B, K, S, D]: the layout in which the batched products run fastest.
  keys, values = (jnp.swapaxes(x, 1, 2) for x in (keys, values))
  block = max(_MIN_BLOCK, -(-length // _MAX_BLOCKS))
  attend = jax.checkpoint(functools.partial(_grouped, scale=scale))
  blocks = []
  for start in range(0, length, block):
    stop = min(start + block, length)
    seen = size - length + stop if triangle else size
    blocks.append(
        attend(
            queries[:, start:stop],
            keys[:, :, :seen],
            values[:, :, :seen],
            mask[:, start:stop, :seen],
            sinks,
        )
    )
  return checkpoint_name(jnp.concatenate(blocks, axis=1), NAME)


def cached(
    queries: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    positions: jax.Array,
    *,
    window: jax.Array | None = None,
    scale: float | None = None,
    sinks: jax.Array | None = None,
) -> jax.Array:
  """Attention of new tokens to a cache that already holds them.

  Args:
    queries: `[B, T, H, D]`.
    keys: `[B, K, S, D]`; entry s is the key of position s.
    values: `[B, K, S, D]`.
    positions: `[B, T]` int, the position of each query. It sees the entries at
      and before its position; entries beyond are stale and unseen.
    window: scalar int: of those it sees the last `window`. None: all.
    scale: of the scores; None: D^-0.5.
    sinks: `[H]`, see above.

  Returns:
    `[B, T, H, D]`.
  """
  chex.assert_rank([queries, keys, values, positions], [4, 4, 4, 2])
  chex.assert_equal_shape([keys, values])
  entries = jnp.arange(keys.shape[2])
  mask = positions[:, :, None] >= entries
  if window is not None:
    mask &= positions[:, :, None] - entries < window
  return _grouped(queries, keys, values, mask, sinks, scale)
