"""Flash attention in Pallas for GPUs: `ops.attention` without its scores.

The functions here have the contracts of their namesakes there; `interpret` runs
them on any machine, slowly, in Pallas's interpreter. The difference is memory:
scores live in registers, a tile at a time (FlashAttention-2, arXiv:
2307.08691), so that a layer holds its inputs, its result and one float32 a query
and head, where `ops.attention` holds an eighth of a row's scores.

A kernel of our own, because what is public leaves out what packed rows need:

- `jax.experimental.pallas.ops.gpu.attention.mha` takes segment ids, but as many
  key heads as query heads, so that grouped ones would be copied H / K times;
  multiplies whole triangles, also where a row packs many episodes; and has no
  windows, no prefixes and no parts of rows.
- `attention_mgpu`, beside it, is for Hopper alone and knows no segments.
- cuDNN's, behind `jax.nn.dot_product_attention`, takes one length a row; packed
  rows would need a mask of `[B, 1, T, T]`.

Here a query sees up to two spans of keys, each from a first to a last: of its
row, which is where its segment and its window begin until itself, and of the
prefix if there is one. Tiles that nobody sees are neither read nor multiplied:
a row that packs n episodes costs about an n-th of its triangle.

The kernels are compared with `ops.attention` in Pallas's interpreter, and lower
to Triton for CUDA. They have not run on a card: the forward tiles are those of
Triton's fused-attention tutorial, smaller where a head is wider, the backward
ones half of them, and none is tuned. jax 0.12 warns that a later version will
take Triton out of Pallas: these kernels are for the versions of requirements.txt.
"""

import functools
import math

import chex
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from agentrl.ops import attention

# Finite, as in `attention`: the difference of two is 0, not NaN.
_MASKED = -1e30
_LOG2_E = math.log2(math.e)  # exp2 is one instruction, exp is two


def causal(
    queries: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    segment_ids: jax.Array,
    *,
    window: jax.Array | None = None,
    scale: float | None = None,
    interpret: bool = False,
) -> jax.Array:
  """`attention.causal`; runs of padding that lie apart do not see each other."""
  chex.assert_rank([queries, keys, values, segment_ids], [4, 4, 4, 2])
  chex.assert_equal_shape([keys, values])
  spans = _row_span(segment_ids, window)[:, None]
  return _padded(queries, keys, values, spans, scale, interpret)


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
    interpret: bool = False,
) -> jax.Array:
  """`attention.causal_part`; keys after the queries are not scored."""
  chex.assert_rank([queries, keys, values, segment_ids], [4, 4, 4, 2])
  chex.assert_equal_shape([keys, values])
  span = jax.lax.dynamic_slice_in_dim(
      _row_span(key_segment_ids, window), start, segment_ids.shape[1], axis=2
  )
  return _padded(queries, keys, values, span[:, None], scale, interpret)


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
    interpret: bool = False,
) -> jax.Array:
  """`attention.after_prefix`."""
  chex.assert_rank([queries, keys, values, segment_ids], [4, 4, 4, 2])
  chex.assert_equal_shape([segment_ids, positions])
  prefix_keys, prefix_values, prefix_segment_ids = prefix
  chex.assert_equal_shape([prefix_keys, prefix_values])
  first = jnp.zeros_like(positions)
  if window is not None:
    first = jnp.maximum(positions - window + 1, 0)
  last = jnp.sum(prefix_segment_ids > 0, axis=1, keepdims=True) - 1
  before = jnp.stack([first, jnp.broadcast_to(last, first.shape)], axis=1)
  own = prefix_keys.shape[1] + _row_span(segment_ids, window)
  return _padded(
      queries,
      jnp.concatenate([prefix_keys, keys], axis=1),
      jnp.concatenate([prefix_values, values], axis=1),
      jnp.stack([before.astype(jnp.int32), own], axis=1),
      scale,
      interpret,
  )


def _row_span(segment_ids: jax.Array, window: jax.Array | None) -> jax.Array:
  """`[B, 2, T]` int32: the first and the last token that each one sees."""
  index = jnp.broadcast_to(
      jnp.arange(segment_ids.shape[1], dtype=jnp.int32), segment_ids.shape
  )
  begins = jnp.diff(segment_ids, axis=1, prepend=segment_ids[:, :1] - 1) != 0
  first = jax.lax.cummax(jnp.where(begins, index, 0), axis=1)
  if window is not None:
    first = jnp.maximum(first, index - window + 1)
  return jnp.stack([first, index], axis=1)


def _padded(queries, keys, values, spans, scale, interpret):
  """`_attend` for any T and D: pads to whole tiles, and cuts the result."""
  length, heads, dim = queries.shape[1:]
  if heads % keys.shape[2]:
    raise ValueError(f'{keys.shape[2]} key heads do not divide {heads} heads.')
  scale = dim**-0.5 if scale is None else scale
  # Triton multiplies tiles of powers of two, of at least 16 numbers a side.
  width = max(16, pl.next_power_of_2(dim))
  held, _ = _tiles(width, queries.dtype)
  pad = lambda x: jnp.pad(
      x, ((0, 0), (0, -x.shape[1] % held), (0, 0), (0, width - dim))
  )
  # Keys beyond the row are in no span; queries beyond it see what its last one
  # does, to no effect.
  more = ((0, 0),) * 3 + ((0, -length % held),)
  spans = jnp.pad(spans, more, mode='edge')
  out = _attend(pad(queries), pad(keys), pad(values), spans, scale, interpret)
  return out[:, :length, :, :dim]


def _tiles(dim: int, dtype: jnp.dtype) -> tuple[int, int]:
  """Tokens that a program holds, and that it takes at a step.

  A tile of each of queries, keys and values takes at most 32, 16 and 16 KiB, so
  that two stages of them fit the 99 KiB of shared memory that the smallest
  cards since Ampere have.
  """
  shrink = max(1, dim * jnp.dtype(dtype).itemsize // 256)
  return max(16, 128 // shrink), max(16, 64 // shrink)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def _attend(queries, keys, values, spans, scale, interpret):
  """Softmax attention of each query to the keys in its spans.

  Args:
    queries: `[B, Q, H, D]`; the tiles of `_tiles` divide Q, S and D.
    keys: `[B, S, K, D]`.
    values: `[B, S, K, D]`.
    spans: `[B, N, 2, Q]` int32: the first and the last key of N spans, which do
      not overlap; one whose last is before its first is empty, but not all are.
    scale: of the scores.
    interpret: see `causal`.

  Returns:
    `[B, Q, H, D]`.
  """
  return _forward(queries, keys, values, spans, scale, interpret)[0]


def _forward(queries, keys, values, spans, scale, interpret):
  """The result, and `[B, H, Q]` log2 of each query's sum of exponentials."""
  batch, length, heads, dim = queries.shape
  size, kv_heads = keys.shape[1:3]
  held, step = _tiles(dim, queries.dtype)
  group = heads // kv_heads
  whole = pl.BlockSpec(
      (None, size, None, dim), lambda i, b, h: (b, 0, h // group, 0)
  )
  own = pl.BlockSpec((None, held, None, dim), lambda i, b, h: (b, i, h, 0))
  return _call(
      functools.partial(_forward_kernel, scale=scale * _LOG2_E, step=step),
      queries,
      keys,
      values,
      spans,
      name='flash_forward',
      grid=(length // held, batch, heads),
      in_specs=[own, whole, whole, _span_spec(spans, held)],
      out_specs=[
          own,
          pl.BlockSpec((None, None, held), lambda i, b, h: (b, h, i)),
      ],
      out_shape=[
          (queries.shape, queries.dtype),
          ((batch, heads, length), jnp.float32),
      ],
      interpret=interpret,
  )


def _span_spec(spans: jax.Array, held: int) -> pl.BlockSpec:
  """The spans of the queries that a program holds."""
  return pl.BlockSpec(
      (None, *spans.shape[1:3], held), lambda i, b, h: (b, 0, 0, i)
  )


def _call(kernel, *args, name, grid, in_specs, out_specs, out_shape, interpret):
  """`pl.pallas_call`, by Triton."""
  return pl.pallas_call(
      kernel,
      name=name,
      grid=grid,
      in_specs=in_specs,
      out_specs=out_specs,
      out_shape=[jax.ShapeDtypeStruct(*x) for x in out_shape],
      compiler_params=triton.CompilerParams(num_warps=8, num_stages=2),
      interpret=interpret,
  )(*args)


def _forward_kernel(
    q_ref, k_ref, v_ref, spans_ref, out_ref, sums_ref, *, scale, step
):
  """A tile of queries of one head, `[held, D]`, and the `[S, D]` it may see."""
  q = q_ref[...]
  held, dim = q.shape

  def over(span):
    def take(i, carry):
      peak, total, out = carry
      at = pl.ds(i * step, step)
      scores = scale * triton.dot(q, k_ref[at, :], trans_b=True)
      seen = _inside(span, i * step, step)
      scores = jnp.where(seen, scores, _MASKED)
      new = jnp.maximum(peak, jnp.max(scores, axis=1))
      # Ones for a query that has seen nothing yet; the first key that it sees,
      # at the latest itself, takes them back: `kept` is 0 then.
      weights = jnp.exp2(scores - new[:, None])
      kept = jnp.exp2(peak - new)
      v = v_ref[at, :]
      product = triton.dot(weights.astype(v.dtype), v)
      total = total * kept + jnp.sum(weights, axis=1)
      return new, total, out * kept[:, None] + product

    return take

  peak = jnp.full([held], _MASKED, jnp.float32)
  total = jnp.zeros([held], jnp.float32)
  out = jnp.zeros([held, dim], jnp.float32)
  peak, total, out = _over_spans(spans_ref, step, over, (peak, total, out))
  out_ref[...] = (out / total[:, None]).astype(out_ref.dtype)
  sums_ref[...] = peak + jnp.log2(total)


def _inside(span, start, count):
  """`[held, count]`: which of the keys from `start` on each query sees."""
  first, last = span
  index = start + jnp.arange(count, dtype=jnp.int32)
  return (first[:, None] <= index[None]) & (index[None] <= last[:, None])


def _over_spans(spans_ref, step, over, carry):
  """Loops over the tiles of keys that any query of this program sees.

  A tile with parts of two spans is taken twice, each time for its own.
  """
  for i in range(spans_ref.shape[0]):
    first, last = spans_ref[i, 0, :], spans_ref[i, 1, :]
    # Python's division rounds down, for which Triton has no instruction.
    lower = jax.lax.div(jnp.min(first), jnp.int32(step))
    upper = jax.lax.div(jnp.max(last) + step, jnp.int32(step))
    carry = jax.lax.fori_loop(lower, upper, over((first, last)), carry)
  return carry


def _save(queries, keys, values, spans, scale, interpret):
  """Forward, with what the backward pass needs."""
  out, sums = _forward(queries, keys, values, spans, scale, interpret)
  # Both, or a layer that keeps the result would run the kernel again for the
  # sums.
  out, sums = (checkpoint_name(x, attention.NAME) for x in (out, sums))
  return out, (queries, keys, values, spans, out, sums)


def _backward(scale, interpret, saved, grad):
  """Two kernels: one holds queries, the other keys; neither needs atomics."""
  queries, keys, values, spans, out, sums = saved
  batch, length, heads, dim = queries.shape
  size, kv_heads = keys.shape[1:3]
  held, step = (max(16, x // 2) for x in _tiles(dim, queries.dtype))
  group = heads // kv_heads
  # Equation 4 of arXiv:2205.14135, appendix B: rows of dP * P sum to this.
  delta = jnp.einsum(
      'bqhd,bqhd->bhq', out, grad, preferred_element_type=jnp.float32
  )
  args = (queries, keys, values, grad, sums, delta, spans)

  def kernel(function):
    return functools.partial(function, scale=scale, step=step)

  own = pl.BlockSpec((None, held, None, dim), lambda i, b, h: (b, i, h, 0))
  row = pl.BlockSpec((None, None, held), lambda i, b, h: (b, h, i))
  whole = pl.BlockSpec(
      (None, size, None, dim), lambda i, b, h: (b, 0, h // group, 0)
  )
  (grad_queries,) = _call(
      kernel(_grad_queries_kernel),
      *args,
      name='flash_grad_queries',
      grid=(length // held, batch, heads),
      in_specs=[own, whole, whole, own, row, row, _span_spec(spans, held)],
      out_specs=[own],
      out_shape=[(queries.shape, queries.dtype)],
      interpret=interpret,
  )
  # Grouped heads are summed in the program that holds their keys.
  whole = pl.BlockSpec((None, length, group, dim), lambda i, b, h: (b, 0, h, 0))
  row = pl.BlockSpec((None, group, length), lambda i, b, h: (b, h, 0))
  every = pl.BlockSpec((None, *spans.shape[1:]), lambda i, b, h: (b, 0, 0, 0))
  range_ = pl.BlockSpec((None, None, 2), lambda i, b, h: (b, i, 0))
  grad_keys, grad_values = _call(
      kernel(_grad_keys_kernel),
      *args,
      _seen_by(spans, size, held),
      name='flash_grad_keys',
      grid=(size // held, batch, kv_heads),
      in_specs=[whole, own, own, whole, row, row, every, range_],
      out_specs=[own, own],
      out_shape=[(keys.shape, keys.dtype), (values.shape, values.dtype)],
      interpret=interpret,
  )
  return grad_queries, grad_keys, grad_values, None


def _seen_by(spans: jax.Array, size: int, held: int) -> jax.Array:
  """`[B, S / held, 2]` int32: the queries from and to which a tile is seen."""
  starts = jnp.arange(0, size, held, dtype=jnp.int32)[:, None]
  first, last = spans[:, :, None, 0], spans[:, :, None, 1]  # [B, N, 1, Q]
  seen = (first <= last) & (first < starts + held) & (last >= starts)
  seen = jnp.any(seen, axis=1)
  index = jnp.arange(spans.shape[-1], dtype=jnp.int32)
  lower = jnp.min(jnp.where(seen, index, spans.shape[-1]), axis=-1)
  upper = jnp.max(jnp.where(seen, index + 1, 0), axis=-1)
  return jnp.stack([lower, upper], axis=-1)


def _weights(q, k, sums, seen, scale):
  """The softmax again, `[queries, keys]`, from its sums."""
  scores = scale * _LOG2_E * triton.dot(q, k, trans_b=True)
  return jnp.where(seen, jnp.exp2(scores - sums[:, None]), 0.0)


def _grad_queries_kernel(
    q_ref,
    k_ref,
    v_ref,
    grad_ref,
    sums_ref,
    delta_ref,
    spans_ref,
    out_ref,
    *,
    scale,
    step,
):
  """As the forward kernel: a tile of queries, and the keys that it may see."""
  q, grad = q_ref[...], grad_ref[...]
  sums, delta = sums_ref[...], delta_ref[...]

  def over(span):
    def take(i, total):
      at = pl.ds(i * step, step)
      k = k_ref[at, :]
      weights = _weights(q, k, sums, _inside(span, i * step, step), scale)
      wanted = triton.dot(grad, v_ref[at, :], trans_b=True)
      scores = weights * (wanted - delta[:, None])
      return total + triton.dot(scores.astype(k.dtype), k)

    return take

  total = jnp.zeros(q.shape, jnp.float32)
  total = _over_spans(spans_ref, step, over, total)
  out_ref[...] = (scale * total).astype(out_ref.dtype)


def _grad_keys_kernel(
    q_ref,
    k_ref,
    v_ref,
    grad_ref,
    sums_ref,
    delta_ref,
    spans_ref,
    range_ref,
    grad_k_ref,
    grad_v_ref,
    *,
    scale,
    step,
):
  """A tile of keys, `[held, D]`, and the queries `[Q, G, D]` of its group."""
  k, v = k_ref[...], v_ref[...]
  held = k.shape[0]
  start = pl.program_id(0) * held
  lower = jax.lax.div(range_ref[0], jnp.int32(step))
  upper = jax.lax.div(range_ref[1] + step - 1, jnp.int32(step))

  def take(h, i, carry):
    grad_k, grad_v = carry
    at = pl.ds(i * step, step)
    q, grad = q_ref[at, h, :], grad_ref[at, h, :]
    seen = functools.reduce(
        jnp.logical_or,
        (
            _inside((spans_ref[n, 0, at], spans_ref[n, 1, at]), start, held)
            for n in range(spans_ref.shape[0])
        ),
    )
    weights = _weights(q, k, sums_ref[h, at], seen, scale)
    wanted = triton.dot(grad, v, trans_b=True)
    scores = weights * (wanted - delta_ref[h, at][:, None])
    grad_v += triton.dot(weights.astype(grad.dtype), grad, trans_a=True)
    grad_k += triton.dot(scores.astype(q.dtype), q, trans_a=True)
    return grad_k, grad_v

  def over(h, carry):
    return jax.lax.fori_loop(lower, upper, functools.partial(take, h), carry)

  zeros = jnp.zeros(k.shape, jnp.float32)
  grad_k, grad_v = jax.lax.fori_loop(0, q_ref.shape[1], over, (zeros, zeros))
  grad_k_ref[...] = (scale * grad_k).astype(grad_k_ref.dtype)
  grad_v_ref[...] = grad_v.astype(grad_v_ref.dtype)


_attend.defvjp(_save, _backward)
