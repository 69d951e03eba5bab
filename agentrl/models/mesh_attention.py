"""Attention of rows that lie on a mesh.

Rows are split over `data` and `fsdp`, heads over `tensor`, the tokens of a row
over `sequence`. Of these only the last needs another device's data: each
device gathers the keys and values of whole rows and attends with its own
queries. That holds `2 * T * kv_heads * D` numbers a row for the layer at work,
which grouped heads keep far below its `T / n` queries' scores; a ring (arXiv:
2310.01889) would hold an n-th of them, but passes them n times a layer and
must merge partial softmaxes. Every device computes its whole `[T / n, T]` block
of scores, of which causality uses half: no device waits for a longer one, but
the work is twice that of the triangle.

Prefixes that rows share are split over `data` and `fsdp` as rows are, and each
device gathers the keys and values of all: `2 * G * P * kv_heads * D` numbers for
the layer at work, so that any row may continue any prefix.
"""

import functools

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from agentrl.ops import attention
from agentrl.parallel import sharding
from agentrl.parallel.mesh import BATCH_AXES, SEQUENCE, TENSOR


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
  """`ops.attention.causal`, on the mesh that is traced with if there is one.

  `tensor` divides H. It also divides K, or K divides it: then every device
  takes the one key head that its queries read.
  """
  if jax.sharding.get_abstract_mesh().empty:
    return attention.causal(
        *(queries, keys, values, segment_ids),
        window=window,
        scale=scale,
        sinks=sinks,
    )
  kv_spec, copies = _key_heads(queries.shape[2], keys.shape[2])
  return jax.shard_map(
      functools.partial(_causal, copies=copies, scale=scale),
      in_specs=(
          sharding.HEADS, kv_spec, kv_spec, sharding.TOKENS, P(), P(TENSOR)
      ),
      out_specs=sharding.HEADS,
  )(queries, keys, values, segment_ids, window, sinks)  # fmt: skip


def _key_heads(heads: int, kv_heads: int) -> tuple[P, int | None]:
  """Spec of `[B, T, K, D]` keys, and how many devices read each head of them.

  None: every device has the heads that it reads.
  """
  split = sharding.axis_size(TENSOR)
  if kv_heads % split == 0 and heads % split == 0:
    return sharding.HEADS, None
  if heads % split or split % kv_heads:
    raise ValueError(
        f'{heads} heads over {kv_heads} key-value heads cannot be split over'
        f' tensor={split} devices.'
    )
  return P(BATCH_AXES, SEQUENCE), split // kv_heads


def _read(copies: int | None, *arrays: jax.Array) -> tuple[jax.Array, ...]:
  """The key heads that this device reads."""
  if copies is None:
    return arrays
  head = jax.lax.axis_index(TENSOR) // copies
  cut = functools.partial(jax.lax.dynamic_slice_in_dim, slice_size=1, axis=2)
  return tuple(cut(x, head) for x in arrays)


def _causal(
    queries, keys, values, segment_ids, window, sinks, *, copies, scale
):
  """One device's share."""
  keys, values = _read(copies, keys, values)
  options = dict(window=window, scale=scale, sinks=sinks)
  if sharding.axis_size(SEQUENCE) == 1:
    return attention.causal(queries, keys, values, segment_ids, **options)
  whole = functools.partial(
      jax.lax.all_gather, axis_name=SEQUENCE, axis=1, tiled=True
  )
  return attention.causal_part(
      queries,
      whole(keys),
      whole(values),
      segment_ids,
      whole(segment_ids),
      start=jax.lax.axis_index(SEQUENCE) * queries.shape[1],
      **options,
  )


def after_prefix(
    queries: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    segment_ids: jax.Array,
    positions: jax.Array,
    prefix: tuple[jax.Array, jax.Array, jax.Array],
    rows: jax.Array,
    *,
    window: jax.Array | None = None,
    scale: float | None = None,
    sinks: jax.Array | None = None,
) -> jax.Array:
  """`ops.attention.after_prefix`, on the mesh that is traced with if any.

  As for `causal`, and `sequence` is 1. The prefixes are those of G groups,
  `[G, P, K, D]` and `[G, P]`, and the batch axes divide G; `rows`, `[B]` int,
  gives each row's prefix.
  """
  own = (queries, keys, values, segment_ids, positions)
  if jax.sharding.get_abstract_mesh().empty:
    return attention.after_prefix(
        *own, _of_rows(prefix, rows), window=window, scale=scale, sinks=sinks
    )
  kv_spec, copies = _key_heads(queries.shape[2], keys.shape[2])
  kv = (kv_spec, kv_spec, sharding.TOKENS)
  return jax.shard_map(
      functools.partial(_after_prefix, copies=copies, scale=scale),
      in_specs=(
          (sharding.HEADS, *kv, sharding.TOKENS), kv, P(BATCH_AXES), P(), P(TENSOR)
      ),
      out_specs=sharding.HEADS,
  )(own, prefix, rows, window, sinks)  # fmt: skip


def _after_prefix(own, prefix, rows, window, sinks, *, copies, scale):
  """One device's share."""
  queries, keys, values, *where = own
  prefix = (*_read(copies, *prefix[:2]), prefix[2])
  whole = functools.partial(
      jax.lax.all_gather, axis_name=BATCH_AXES, axis=0, tiled=True
  )
  return attention.after_prefix(
      queries,
      *_read(copies, keys, values),
      *where,
      _of_rows(jax.tree.map(whole, prefix), rows),
      window=window,
      scale=scale,
      sinks=sinks,
  )


def _of_rows(prefix: tuple[jax.Array, ...], rows: jax.Array):
  """`[G, ...]` arrays as `[B, ...]`."""
  return tuple(jnp.take(x, rows, axis=0, mode='clip') for x in prefix)
