r"""Attends on meshes of simulated devices, by interpreted kernels.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 \
        python -m tests.parallel.simulated_flash OUT.npz

Writes results and gradients of `causal` on each of MESHES and of `after_prefix`
where it may be, and those of `ops.attention` without a mesh, under 'expected'.
"""

import functools
import sys
import types
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

from agentrl.models import mesh_attention
from agentrl.ops import flash
from agentrl.parallel import mesh as mesh_lib, sharding

# Key heads are split in the first, copied to two devices each in the second.
MESHES = {
    'split': dict(data=2, fsdp=2, tensor=2, sequence=1),
    'copied': dict(data=1, fsdp=1, tensor=4, sequence=2),
}
INTERPRETED = types.SimpleNamespace(**{
    name: functools.partial(getattr(flash, name), interpret=True)
    for name in ('causal', 'causal_part', 'after_prefix')
})  # fmt: skip
ROWS, LENGTH, HEADS, KV_HEADS, DIM, PREFIX = 4, 32, 4, 2, 16, 16


def inputs():
  """Queries, keys, values; keys and values of two prefixes; a cotangent."""
  rng = np.random.default_rng(0)
  shapes = [
      *((ROWS, LENGTH, n, DIM) for n in (HEADS, KV_HEADS, KV_HEADS)),
      *[(4, PREFIX, KV_HEADS, DIM)] * 2,
      (ROWS, LENGTH, HEADS, DIM),
  ]
  return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def attend(implementation, prefixed, arrays):
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

  def function(q, k, v, prefix_keys, prefix_values):
    options = dict(window=jnp.int32(21), implementation=implementation)
    if not prefixed:
      return mesh_attention.causal(q, k, v, jnp.asarray(segment_ids), **options)
    prefix = (prefix_keys, prefix_values, jnp.asarray(valid))
    return mesh_attention.after_prefix(
        *(q, k, v, jnp.asarray(segment_ids), positions), prefix, rows, **options
    )

  out, vjp = jax.vjp(function, *arrays)
  return out, *vjp(grad)


def main(path):
  found = {}

  def keep(name, values):
    for i, value in enumerate(values):
      found[f'{name}/{i}'] = np.asarray(value)

  with mock.patch.dict(mesh_attention.IMPLEMENTATIONS, interpreted=INTERPRETED):
    for prefixed in (False, True):
      of = 'prefix' if prefixed else 'causal'
      run = lambda kind, prefixed=prefixed: jax.jit(
          functools.partial(attend, kind, prefixed)
      )
      keep(f'{of}/expected', run('reference')(inputs()))
      for name, sizes in MESHES.items():
        if not prefixed or sizes['sequence'] == 1:
          mesh = mesh_lib.make_mesh(sizes)
          on_mesh = sharding.on_mesh(
              functools.partial(attend, 'interpreted', prefixed), mesh
          )
          arrays = jax.device_put(inputs(), NamedSharding(mesh, P()))
          keep(f'{of}/{name}', jax.jit(on_mesh)(arrays))
  np.savez(path, **found)


if __name__ == '__main__':
  main(sys.argv[1])
