"""Tests for agentrl.ops.attention."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jax.test_util import check_grads

from agentrl.ops import attention

causal = jax.jit(attention.causal, static_argnames='scale')
cached = jax.jit(attention.cached, static_argnames='scale')


def oracle(
    queries, keys, values, segment_ids, window=None, scale=None, sinks=None
):
  """One query of one head at a time, in float64; all `[B, T, heads, D]`."""
  batch, length, heads, dim = queries.shape
  per_key_head = heads // keys.shape[2]
  out = np.zeros(queries.shape, np.float64)
  for b in range(batch):
    for t in range(length):
      first = 0 if window is None else max(0, t + 1 - window)
      seen = [
          s
          for s in range(first, t + 1)
          if segment_ids[b, s] == segment_ids[b, t]
      ]
      for h in range(heads):
        k = h // per_key_head
        scores = [
            np.dot(queries[b, t, h].astype(np.float64), keys[b, s, k])
            * (dim**-0.5 if scale is None else scale)
            for s in seen
        ]
        peak = max(scores)
        weights = np.exp(np.array(scores) - peak)
        sink = 0.0 if sinks is None else np.exp(sinks[h] - peak)
        weights /= weights.sum() + sink
        for weight, s in zip(weights, seen, strict=True):
          out[b, t, h] += weight * values[b, s, k]
  return out


def random_inputs(seed, batch=2, length=6, heads=4, kv_heads=2, dim=4):
  rng = np.random.default_rng(seed)
  queries = rng.normal(size=(batch, length, heads, dim))
  keys, values = rng.normal(size=(2, batch, length, kv_heads, dim))
  return [x.astype(np.float32) for x in (queries, keys, values)]


def as_cache(x, length):
  """`[B, T, K, D]` as `[B, K, length, D]` with garbage after the tokens."""
  garbage = np.full((x.shape[0], length, *x.shape[2:]), 1e6, np.float32)
  garbage[:, : x.shape[1]] = x
  return np.swapaxes(garbage, 1, 2)


@pytest.mark.parametrize('heads, kv_heads', [(1, 1), (4, 4), (4, 2), (6, 1)])
def test_causal_matches_oracle(heads, kv_heads):
  inputs = random_inputs(0, heads=heads, kv_heads=kv_heads)
  segment_ids = np.array([[1, 1, 1, 2, 2, 0], [3, 3, 3, 3, 3, 3]])
  np.testing.assert_allclose(
      causal(*inputs, segment_ids),
      oracle(*inputs, segment_ids),
      rtol=1e-5,
      atol=1e-6,
  )


def test_bfloat16_inputs_are_scored_in_float32():
  inputs = [jnp.asarray(x, jnp.bfloat16) for x in random_inputs(1)]
  segment_ids = np.ones((2, 6), int)
  out = causal(*inputs, segment_ids)
  assert out.dtype == jnp.bfloat16
  expected = oracle(*(np.asarray(x, np.float32) for x in inputs), segment_ids)
  # Two roundings to 8 bits: of the weights and of the result.
  np.testing.assert_allclose(
      np.asarray(out, np.float32), expected, rtol=2e-2, atol=2e-2
  )


@given(seed=st.integers(0, 2**32 - 1), cut=st.integers(1, 5))
@settings(max_examples=20)
def test_packed_segments_equal_rows_of_their_own(seed, cut):
  inputs = random_inputs(seed, batch=1)
  segment_ids = np.where(np.arange(6) < cut, 1, 2)[None]
  packed = causal(*inputs, segment_ids)
  first, second = (
      oracle(*(x[:, part] for x in inputs), segment_ids[:, part])
      for part in (slice(cut), slice(cut, None))
  )
  np.testing.assert_allclose(
      packed, np.concatenate([first, second], 1), rtol=1e-4, atol=1e-5
  )


def test_padding_and_the_future_never_matter():
  inputs = random_inputs(2)
  segment_ids = np.array([[1] * 6, [2, 2, 2, 0, 0, 0]])
  clean = causal(*inputs, segment_ids)
  dirty = [x.copy() for x in inputs]
  for x in dirty:
    x[0, 4:] = 1e6  # the future of positions 0 to 3
    x[1, 3:] = -1e6  # padding
  out = causal(*dirty, segment_ids)
  np.testing.assert_array_equal(out[0, :4], clean[0, :4])
  np.testing.assert_array_equal(out[1, :3], clean[1, :3])
  assert np.isfinite(out).all()


@pytest.mark.parametrize('heads, kv_heads', [(4, 4), (4, 2)])
def test_cached_equals_causal_token_by_token(heads, kv_heads):
  queries, keys, values = random_inputs(3, heads=heads, kv_heads=kv_heads)
  expected = oracle(queries, keys, values, np.ones((2, 6), int))
  key_cache, value_cache = (as_cache(x, 9) for x in (keys, values))
  for t in range(6):
    positions = np.full((2, 1), t)
    out = cached(queries[:, t : t + 1], key_cache, value_cache, positions)
    np.testing.assert_allclose(out[:, 0], expected[:, t], rtol=1e-5, atol=1e-6)


def test_cached_takes_rows_at_different_positions():
  queries, keys, values = random_inputs(4)
  expected = oracle(queries, keys, values, np.ones((2, 6), int))
  key_cache, value_cache = (as_cache(x, 6) for x in (keys, values))
  chunk = np.stack([queries[0, 1:4], queries[1, 3:6]])
  positions = np.array([[1, 2, 3], [3, 4, 5]])
  out = cached(chunk, key_cache, value_cache, positions)
  np.testing.assert_allclose(out[0], expected[0, 1:4], rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(out[1], expected[1, 3:6], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('window', [1, 2, 4, 6, 100])
def test_a_window_hides_what_lies_before_it(window):
  inputs = random_inputs(7)
  segment_ids = np.array([[1, 1, 1, 1, 2, 2], [3, 3, 3, 3, 3, 3]])
  np.testing.assert_allclose(
      causal(*inputs, segment_ids, window=window),
      oracle(*inputs, segment_ids, window=window),
      rtol=1e-5,
      atol=1e-6,
  )


@pytest.mark.parametrize('window', [5, 96, 150])
def test_a_window_holds_across_blocks(window):
  """Rows of more than one block of queries."""
  inputs = random_inputs(8, batch=1, length=200, heads=2, kv_heads=1)
  segment_ids = np.repeat([[1, 2]], [20, 180], axis=1)
  np.testing.assert_allclose(
      causal(*inputs, segment_ids, window=window),
      oracle(*inputs, segment_ids, window=window),
      rtol=1e-4,
      atol=1e-5,
  )


@pytest.mark.parametrize('window', [1, 3, 100])
def test_a_window_holds_in_a_cache(window):
  queries, keys, values = random_inputs(9)
  expected = oracle(queries, keys, values, np.ones((2, 6), int), window=window)
  key_cache, value_cache = (as_cache(x, 9) for x in (keys, values))
  positions = np.array([[2, 3, 4], [3, 4, 5]])
  chunk = np.stack([queries[0, 2:5], queries[1, 3:6]])
  out = cached(chunk, key_cache, value_cache, positions, window=window)
  np.testing.assert_allclose(out[0], expected[0, 2:5], rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(out[1], expected[1, 3:6], rtol=1e-5, atol=1e-6)


def test_scores_may_have_another_scale():
  inputs = random_inputs(10)
  segment_ids = np.ones((2, 6), int)
  expected = oracle(*inputs, segment_ids, scale=0.9)
  out = causal(*inputs, segment_ids, scale=0.9)
  np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
  caches = (as_cache(x, 6) for x in inputs[1:])
  positions = np.tile(np.arange(6), (2, 1))
  out = cached(inputs[0], *caches, positions, scale=0.9)
  np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)


def test_a_sink_takes_its_share_of_each_head():
  queries, keys, values = random_inputs(8)
  segment_ids = np.array([[1, 1, 1, 2, 2, 2], [3, 3, 3, 3, 3, 3]])
  sinks = np.array([-1e9, 0.3, 2.0, 60.0], np.float32)  # none, and almost all
  expected = oracle(queries, keys, values, segment_ids, window=2, sinks=sinks)
  window = jnp.int32(2)
  found = causal(queries, keys, values, segment_ids, window=window, sinks=sinks)
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
  positions = np.tile(np.arange(6), (2, 1))
  found = cached(
      queries,
      as_cache(keys, 9),
      as_cache(values, 9),
      positions,
      window=window,
      sinks=sinks,
  )
  np.testing.assert_allclose(found[1], expected[1], rtol=1e-4, atol=1e-5)


def test_a_sink_is_learnt():
  queries, keys, values = random_inputs(9, batch=1, length=3)
  segment_ids = np.ones((1, 3), np.int32)
  check_grads(
      lambda sinks: attention.causal(
          queries, keys, values, segment_ids, sinks=sinks
      ),
      (np.array([0.1, -0.4, 1.0, 0.0], np.float32),),
      order=1,
      modes=['rev'],
      atol=1e-2,
      rtol=1e-2,
  )


def test_gradient_matches_finite_differences():
  inputs = random_inputs(5, batch=1, length=4, heads=2, kv_heads=1, dim=2)
  segment_ids = np.array([[1, 1, 2, 2]])
  check_grads(
      lambda *x: causal(*x, segment_ids),
      inputs,
      order=1,
      modes=['rev'],
      atol=1e-2,
      rtol=1e-2,
  )


def test_rejects_keys_and_values_of_different_shapes():
  queries, keys, values = random_inputs(6)
  with pytest.raises(AssertionError, match='shape'):
    attention.causal(queries, keys, values[:, 1:], np.ones((2, 6), int))
  with pytest.raises(AssertionError, match='shape'):
    attention.cached(queries, keys, values[:, 1:], np.ones((2, 6), int))


@pytest.mark.parametrize('start, stop', [(0, 2), (2, 5), (5, 6)])
def test_a_part_of_the_queries_gets_its_part_of_the_result(start, stop):
  queries, keys, values = random_inputs(7)
  segment_ids = np.array([[1, 1, 1, 2, 2, 0], [3, 3, 3, 3, 3, 3]])
  part = jax.jit(attention.causal_part)(
      queries[:, start:stop],
      keys,
      values,
      segment_ids[:, start:stop],
      segment_ids,
      start=start,
  )
  expected = causal(queries, keys, values, segment_ids)[:, start:stop]
  np.testing.assert_allclose(part, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('window', [None, 1, 3, 6, 100])
@pytest.mark.parametrize('heads, kv_heads', [(4, 4), (4, 2)])
def test_what_follows_a_prefix_sees_it_and_itself(heads, kv_heads, window):
  """Two segments of a row begin with four tokens, those of the other with two."""
  inputs = random_inputs(11, heads=heads, kv_heads=kv_heads)
  prefix = random_inputs(12, length=4, heads=heads, kv_heads=kv_heads)
  segment_ids = np.array([[1, 1, 1, 2, 2, 0], [3, 3, 3, 3, 4, 4]])
  positions = np.array([[4, 5, 6, 4, 5, 0], [2, 3, 4, 5, 2, 3]])
  valid = np.array([[1, 1, 1, 1], [1, 1, 0, 0]])
  prefix[1][1, 2:] = prefix[2][1, 2:] = 1e6  # padding
  out = jax.jit(attention.after_prefix)(
      *inputs, segment_ids, positions, (*prefix[1:], valid), window=window
  )
  for row, segment in ((0, 1), (0, 2), (1, 3), (1, 4)):
    own, size = segment_ids[row] == segment, valid[row].sum()
    whole = [
        np.concatenate([before[row, :size], x[row, own]])[None]
        for before, x in zip(prefix, inputs, strict=True)
    ]
    ones = np.ones((1, len(whole[0][0])), int)
    expected = oracle(*whole, ones, window=window)[0, size:]
    np.testing.assert_allclose(out[row, own], expected, rtol=1e-5, atol=1e-6)


def test_a_prefix_is_seen_by_every_block_of_a_long_row():
  inputs = random_inputs(13, batch=1, length=200, heads=2, kv_heads=1)
  prefix = random_inputs(14, batch=1, length=30, heads=2, kv_heads=1)
  ones = np.ones((1, 230), int)
  out = jax.jit(attention.after_prefix)(
      *inputs, ones[:, 30:], 30 + np.arange(200)[None], (*prefix[1:], ones[:, :30])
  )  # fmt: skip
  whole = [np.concatenate(x, axis=1) for x in zip(prefix, inputs, strict=True)]
  expected = oracle(*whole, ones)[:, 30:]
  np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
