"""Tests for agentrl.ops.delta_rule."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from agentrl.ops import delta_rule

HEADS, SIZE, WIDTH = 2, 3, 4
recur, scan = jax.jit(delta_rule.recur), jax.jit(delta_rule.scan)


def draw(rng, batch, length, *, decay=1.0):
  normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
  return [
      normal(batch, length, HEADS, SIZE),
      normal(batch, length, HEADS, SIZE),
      normal(batch, length, HEADS, WIDTH),
      -decay * rng.exponential(size=(batch, length, HEADS)).astype(np.float32),
      rng.random((batch, length, HEADS), np.float32),
  ]


def oracle(parts, segment_ids, memory):
  """One token, head and row at a time, in float64, by the docstring's formula."""
  queries, keys, values, log_decay, rate = (x.astype(np.float64) for x in parts)
  unit = lambda x: x / np.sqrt((x * x).sum() + 1e-6)
  out, ends = np.zeros(values.shape), memory.astype(np.float64).copy()
  for b, h in np.ndindex(len(queries), HEADS):
    state, current = memory[b, h].astype(np.float64), segment_ids[b, 0]
    for t, segment in enumerate(segment_ids[b]):
      if not segment:
        continue
      if segment != current:
        state, current = memory[b, h].astype(np.float64), segment
      k, q = unit(keys[b, t, h]), unit(queries[b, t, h]) * SIZE**-0.5
      state = state * np.exp(log_decay[b, t, h])
      error = values[b, t, h] - state.T @ k
      state = state + rate[b, t, h] * np.outer(k, error)
      out[b, t, h] = state.T @ q
    ends[b, h] = state
  return out, ends


# Segments that end at, before and after the borders of chunks; one of a token.
LENGTHS = [(150,), (64, 64), (1, 63, 65, 40), (70, 1, 1, 20), (5,), (0, 40)]


@pytest.mark.parametrize('begins', [False, True])
@pytest.mark.parametrize('lengths', LENGTHS)
def test_rows_are_as_a_token_at_a_time(lengths, begins):
  rng = np.random.default_rng(len(lengths))
  padding = 7
  segment_ids = np.repeat(
      [[*range(1, len(lengths) + 1), 0]], [*lengths, padding], axis=1
  ).repeat(2, axis=0)
  parts = draw(rng, 2, segment_ids.shape[1])
  memory = np.zeros((2, HEADS, SIZE, WIDTH), np.float32)
  if begins:
    memory = rng.normal(size=memory.shape).astype(np.float32)
  out, last = scan(*parts, segment_ids, memory if begins else None)
  expected, ends = oracle(parts, segment_ids, memory)
  real = segment_ids[0] > 0
  np.testing.assert_allclose(out[:, real], expected[:, real], atol=1e-5)
  np.testing.assert_allclose(last, ends, atol=1e-5)


def test_a_token_at_a_time_is_as_rows():
  rng = np.random.default_rng(0)
  parts = draw(rng, 2, 80, decay=0.1)
  memory = rng.normal(size=(2, HEADS, SIZE, WIDTH)).astype(np.float32)
  expected, last = scan(*parts, np.ones((2, 80), np.int32), memory)
  out = []
  for t in range(80):
    token, memory = recur(*(x[:, t] for x in parts), memory)
    out.append(token)
  np.testing.assert_allclose(np.stack(out, axis=1), expected, atol=1e-5)
  np.testing.assert_allclose(memory, last, atol=1e-5)


def test_a_row_goes_on_where_its_memory_ends():
  rng = np.random.default_rng(1)
  parts, ones = draw(rng, 1, 100), np.ones((1, 100), np.int32)
  expected, last = scan(*parts, ones)
  _, memory = scan(*(x[:, :37] for x in parts), ones[:, :37])
  out, memory = scan(*(x[:, 37:] for x in parts), ones[:, 37:], memory)
  np.testing.assert_allclose(out, expected[:, 37:], atol=1e-5)
  np.testing.assert_allclose(memory, last, atol=1e-5)


def test_what_fades_at_once_gives_no_nan():
  """The logarithm of what is left of a chunk's first token underflows."""
  rng = np.random.default_rng(2)
  parts, ones = draw(rng, 1, 70, decay=300.0), np.ones((1, 70), np.int32)
  value, grads = jax.value_and_grad(
      lambda parts: jnp.sum(scan(*parts, ones)[0] ** 2)
  )(parts)
  assert np.isfinite(value)
  assert all(np.isfinite(x).all() for x in grads)


@pytest.mark.parametrize('begins', [False, True])
def test_gradients_are_those_of_the_values(begins):
  rng = np.random.default_rng(3)
  segment_ids = np.repeat([[1, 2, 0]], [66, 5, 2], axis=1)
  parts = draw(rng, 1, 73, decay=0.1)
  memory = rng.normal(size=(1, HEADS, SIZE, WIDTH)).astype(np.float32)
  real = jnp.asarray(segment_ids > 0)[..., None, None]

  def loss(parts, memory):
    out, last = scan(*parts, segment_ids, memory if begins else None)
    return jnp.sum(jnp.where(real, out, 0) ** 2) + jnp.sum(last)

  check_grads(loss, (parts, memory), order=1, modes=['rev'], rtol=2e-2)
