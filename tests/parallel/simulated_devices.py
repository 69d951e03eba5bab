r"""Makes the same update on meshes of simulated devices; writes what came out.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 \
        python -m tests.parallel.simulated_devices OUT.npz

A process of its own: XLA fixes the number of devices when it starts, and the
other tests should see the one that they were written for.
"""

import sys

import jax
import numpy as np

from agentrl.parallel.mesh import make_mesh
from agentrl.training import step as step_lib, weight_sync
from tests import tiny

# Devices along data, fsdp and tensor; the first is what the others must equal.
MESHES = ((1, 1, 1), (2, 1, 1), (1, 4, 1), (2, 2, 2))

MAX_TOKENS = tiny.ROW * 8


def update_on(shape, batch):
  """Flat arrays of one mesh: what an update made of state and metrics."""
  data, fsdp, tensor = shape
  mesh = make_mesh(
      dict(data=data, fsdp=fsdp, tensor=tensor, sequence=1),
      jax.devices()[: data * fsdp * tensor],
  )
  state, steps = tiny.make_learner(mesh=mesh)
  scores = step_lib.score(
      steps, state.networks, batch, max_tokens=MAX_TOKENS
  ).logprobs
  shard = state.params['embed'].addressable_shards[0].data.shape
  state, metrics = step_lib.update(
      steps, state, batch, np.arange(len(scores)), max_tokens=MAX_TOKENS
  )
  copy = weight_sync.engine_layout(state.params)
  out = {'scores': scores, 'embed_shard': np.array(shard)}
  # After one update, Adam's first moment is a tenth of the gradient.
  for name, tree in dict(state=state, metrics=metrics, copy=copy).items():
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
      out[name + jax.tree_util.keystr(path)] = np.asarray(leaf)
  return out


def main(path):
  jax.config.update('jax_disable_most_optimizations', True)
  assert jax.device_count() == 8
  batch = tiny.random_batch(0, num_groups=4, failures=0.1)
  arrays = {}
  for shape in MESHES:
    for name, value in update_on(shape, batch).items():
      arrays[f'{"x".join(map(str, shape))}/{name}'] = value
  np.savez(path, **arrays)


if __name__ == '__main__':
  main(sys.argv[1])
