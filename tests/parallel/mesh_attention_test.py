"""Attention on a mesh is the attention of one device, with its gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

from agentrl.models import mesh_attention
from agentrl.parallel import mesh as mesh_lib, sharding

# Key heads are split in the first, copied to two devices each in the second.
MESHES = {
    'split': dict(data=2, fsdp=2, tensor=2, sequence=1),
    'copied': dict(data=1, fsdp=1, tensor=4, sequence=2),
}
ROWS, LENGTH, HEADS, KV_HEADS, DIM, PREFIX = 4, 32, 4, 2, 16, 16


def inputs():
  """Queries, keys, values; keys, values of two prefixes; sinks; a cotangent."""
  rng = np.random.default_rng(0)
  shapes = [
      *((ROWS, LENGTH, n, DIM) for n in (HEADS, KV_HEADS, KV_HEADS)),
      *[(4, PREFIX, KV_HEADS, DIM)] * 2,
      (HEADS,),
      (ROWS, LENGTH, HEADS, DIM),
  ]
  return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def attend(prefixed, arrays):
  """Result and gradients, as the learner asks for them."""
  *arrays, grad = arrays
  segment_ids = np.repeat(
      [[1, 2, 0], [3, 4, 4], [5, 5, 5], [6, 7, 0]], [10, 18, 4], axis=1
  )
  begins = np.diff(segment_ids, axis=1, prepend=-1) != 0
  index = np.arange(LENGTH)
  own = index - np.maximum.accumulate(np.where(begins, index, 0), axis=1)
  rows = np.array([0, 0, 2, 3])
  valid = (np.arange(PREFIX) < np.array([[5], [9], [16], [12]])).astype(int)
  positions = jnp.asarray(valid.sum(1)[rows][:, None] + own)

  def function(q, k, v, prefix_keys, prefix_values, sinks):
    window = jnp.int32(21)
    if not prefixed:
      return mesh_attention.causal(
          *(q, k, v, jnp.asarray(segment_ids)), window=window, sinks=sinks
      )
    prefix = (prefix_keys, prefix_values, jnp.asarray(valid))
    return mesh_attention.after_prefix(
        *(q, k, v, jnp.asarray(segment_ids), positions),
        *(prefix, rows),
        window=window,
        sinks=sinks,
    )

  out, vjp = jax.vjp(function, *arrays)
  return out, *vjp(grad)


@functools.cache
def expected_of(prefixed):
  return jax.jit(functools.partial(attend, prefixed))(inputs())


@pytest.mark.parametrize(
    'mesh, prefixed', [('split', False), ('copied', False), ('split', True)]
)
def test_any_mesh_gives_the_same_result_and_gradients(mesh, prefixed):
  mesh = mesh_lib.make_mesh(MESHES[mesh])
  run = sharding.on_mesh(functools.partial(attend, prefixed), mesh)
  arrays = jax.device_put(inputs(), NamedSharding(mesh, P()))
  outputs = jax.jit(run)(arrays)
  for x, expected in zip(outputs, expected_of(prefixed), strict=True):
    np.testing.assert_allclose(x, expected, rtol=1e-4, atol=1e-5)
  # Queries, keys and values have a gradient, prefixes if there are any.
  assert [np.any(x) for x in outputs[1:]] == [
      *[True] * 3, *[prefixed] * 2, True
  ]  # fmt: skip
