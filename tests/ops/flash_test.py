"""Tests for agentrl.ops.flash: it is `ops.attention`, and lowers for CUDA."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.models import variants
from agentrl.ops import attention, flash
from tests import cuda

# Interpreted kernels take longer to compile than to run.
quick_jit = functools.partial(
    jax.jit, compiler_options={'xla_backend_optimization_level': 0}
)
# Three tiles of queries and five of keys, none of them full at the end.
LENGTH = 290
PACKED = np.stack([
    np.repeat([1, 2, 3, 0], [40, 180, 50, 20]),
    np.repeat([4], [LENGTH]),
])  # fmt: skip


def random_inputs(seed, length=LENGTH, heads=4, kv_heads=2, dim=20):
  """Queries, keys and values, `[2, T, heads, D]`."""
  rng = np.random.default_rng(seed)
  queries = rng.normal(size=(2, length, heads, dim))
  keys, values = rng.normal(size=(2, 2, length, kv_heads, dim))
  return [x.astype(np.float32) for x in (queries, keys, values)]


def with_gradients(function, *inputs):
  """The result of `function`, and gradients of a function of it, by input."""

  def value(*inputs):
    out, vjp = jax.vjp(function, *inputs)
    rng = np.random.default_rng(9)
    grad = jnp.asarray(rng.normal(size=out.shape), out.dtype)
    return out, *vjp(grad)

  return quick_jit(value)(*inputs)


def assert_same(ops, reference, *inputs):
  actual = with_gradients(ops, *inputs)
  expected = with_gradients(reference, *inputs)
  for a, b in zip(actual, expected, strict=True):
    assert a.dtype == b.dtype
    # Sums of up to LENGTH float32 products, in another order.
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def both(name, **options):
  """A function of `flash`, and its namesake, with these options."""
  return (
      functools.partial(getattr(flash, name), interpret=True, **options),
      functools.partial(getattr(attention, name), **options),
  )


@pytest.mark.parametrize(
    'heads, kv_heads, dim, window, scale',
    [(4, 2, 20, None, None), (3, 1, 16, 70, 0.3)],
)
def test_packed_rows_and_their_gradients(heads, kv_heads, dim, window, scale):
  """Grouped heads, padding, segments that end inside of tiles."""
  inputs = random_inputs(0, heads=heads, kv_heads=kv_heads, dim=dim)
  options = dict(segment_ids=PACKED, window=window, scale=scale)
  assert_same(*both('causal', **options), *inputs)


def test_rows_shorter_than_a_tile():
  inputs = random_inputs(1, length=7)
  assert_same(*both('causal', segment_ids=PACKED[:, 36:43]), *inputs)


@pytest.mark.parametrize('window', [None, 150])
def test_what_follows_a_prefix(window):
  """Of 45 keys and of 70: the tile in which the second ends has the row too."""
  inputs = random_inputs(2)
  prefix = random_inputs(3, length=70)[1:]
  valid = (np.arange(70) < np.array([[45], [70]])).astype(np.int32)
  # A row's segments begin where its prefix ends; padding anywhere.
  begins = np.diff(PACKED, axis=1, prepend=-1) != 0
  index = np.arange(LENGTH)
  own = index - np.maximum.accumulate(np.where(begins, index, 0), axis=1)
  positions = valid.sum(1, keepdims=True) + own
  ops, reference = (
      lambda q, k, v, pk, pv, f=f: f(
          q, k, v, PACKED, positions, (pk, pv, valid), window=window
      )
      for f in both('after_prefix')
  )
  assert_same(ops, reference, *inputs, *prefix)


def test_a_part_of_the_queries():
  """The last of four, whose first query sees what came before it."""
  queries, keys, values = random_inputs(4, length=288)
  part = PACKED[:, 216:288]
  options = dict(
      segment_ids=part,
      key_segment_ids=PACKED[:, :288],
      start=jnp.int32(216),
      window=100,
  )
  inputs = queries[:, 216:], keys, values
  assert_same(*both('causal_part', **options), *inputs)


def test_bfloat16_is_rounded_no_more_often_than_by_the_reference():
  inputs = random_inputs(5, dim=64)
  inputs = [jnp.asarray(x, jnp.bfloat16) for x in inputs]
  ops, reference = both('causal', segment_ids=PACKED)
  exact = with_gradients(reference, *(x.astype(jnp.float32) for x in inputs))
  error = lambda found: [
      float(jnp.sqrt(jnp.mean((x.astype(jnp.float32) - y) ** 2)))
      for x, y in zip(found, exact, strict=True)
  ]
  actual = with_gradients(ops, *inputs)
  assert {x.dtype for x in actual} == {jnp.dtype(jnp.bfloat16)}
  expected = np.array(error(with_gradients(reference, *inputs)))
  np.testing.assert_array_less(error(actual), 1.01 * expected)


def test_tiles_of_other_segments_are_not_read():
  """What is not read cannot spoil sums; what is masked, a NaN, would."""
  inputs = random_inputs(6, length=512, heads=2, kv_heads=1, dim=16)
  segments = np.broadcast_to(np.repeat([1, 2], 256), (2, 512))
  dirty = [x.copy() for x in inputs]
  for x in dirty[1:]:
    x[:, :256] = np.nan
  ops, _ = both('causal', segment_ids=segments)
  second = lambda *inputs: ops(*inputs)[:, 256:]
  clean = with_gradients(second, *inputs)
  for a, b in zip(with_gradients(second, *dirty), clean, strict=True):
    np.testing.assert_array_equal(a[:, -256:], b[:, -256:])


def test_rejects_heads_that_do_not_group():
  queries, keys, values = random_inputs(7, heads=4, kv_heads=3)
  with pytest.raises(ValueError, match='3 key heads do not divide 4 heads'):
    flash.causal(queries, keys, values, PACKED)


def lowered_for_cuda(function, *shapes):
  """`cuda.lowered` of the gradient of `function`."""
  gradient = jax.grad(
      lambda *x: jnp.sum(function(*x).astype(jnp.float32)), argnums=(0, 1, 2)
  )
  return cuda.lowered(gradient, *shapes)


def largest_array(text):
  """Numbers in the largest array of a module."""
  shapes = re.findall(r'tensor<((?:\d+x)+)', text)
  return max(np.prod([int(n) for n in s.split('x')[:-1]]) for s in shapes)


@cuda.needs_lowering
@pytest.mark.parametrize('length', [4096, 16384, 32768])
@pytest.mark.parametrize('size', ['0.5b', '1.5b', '3b', '7b'])
def test_rows_of_qwen_lower_for_cuda_and_hold_no_scores(size, length):
  """Shapes only: nothing here runs or is compiled by Triton."""
  c = variants.get(f'qwen2.5-{size}')
  array = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.bfloat16)
  queries = array((1, length, c.num_heads, c.head_dim))
  keys = array((1, length, c.num_kv_heads, c.head_dim))
  segment_ids = jax.ShapeDtypeStruct((1, length), jnp.int32)
  text = lowered_for_cuda(flash.causal, queries, keys, keys, segment_ids)
  assert text.count('xla.gpu.triton') == 3
  assert largest_array(text) == queries.size


def test_the_reference_holds_scores_of_an_eighth_of_a_row():
  """By the same count, so that the one above could have been another."""
  array = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.bfloat16)
  queries, keys = array((1, 4096, 14, 64)), array((1, 4096, 2, 64))
  segment_ids = jax.ShapeDtypeStruct((1, 4096), jnp.int32)
  text = lowered_for_cuda(attention.causal, queries, keys, keys, segment_ids)
  assert largest_array(text) == 14 * 4096 * 4096 // 8


@cuda.needs_lowering
@pytest.mark.parametrize(
    'dim, dtype', [(80, 'bfloat16'), (256, 'bfloat16'), (128, 'float32')]
)
def test_prefixes_windows_and_other_widths_lower_for_cuda(dim, dtype):
  array = functools.partial(jax.ShapeDtypeStruct, dtype=dtype)
  queries, keys = array((2, 1000, 6, dim)), array((2, 1000, 3, dim))
  prefix = array((2, 500, 3, dim))
  ints = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.int32)

  def attend(q, k, v, segment_ids, pk, pv, valid, window):
    return flash.after_prefix(
        *(q, k, v, segment_ids, segment_ids), (pk, pv, valid), window=window
    )

  shapes = (queries, keys, keys, ints(2, 1000), prefix, prefix, ints(2, 500))
  text = lowered_for_cuda(attend, *shapes, ints())
  assert text.count('xla.gpu.triton') == 3
