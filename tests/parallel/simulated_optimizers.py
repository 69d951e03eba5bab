"""Updates by every optimizer on meshes of simulated devices.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 \
        python -m tests.parallel.simulated_optimizers OUT.npz NAME/MESH...

No network is run: the gradients are random.
"""

import dataclasses
import functools
import sys

import jax
import numpy as np

from agentrl.models import transformer
from agentrl.parallel import sharding
from agentrl.training import optim, programs as programs_lib, state as state_lib
from agentrl.weights import names
from tests import tiny
from tests.parallel.simulated_devices import flat, make_mesh

# Wide enough that moments are factored, and in blocks of 256 and a rest.
CONFIG = dataclasses.replace(
    tiny.CONFIG, hidden_size=160, intermediate_size=320, head_dim=40
)


def random_params(seed):
  rng = np.random.default_rng(seed)
  draw = lambda x: rng.normal(size=x.shape).astype(x.dtype)
  return jax.tree.map(draw, names.shapes(CONFIG, np.float32))


def updated(name, shape):
  """The state after two updates and one that is skipped."""
  mesh = make_mesh(shape)
  tx = optim.make_optimizer(1e-2, name=name, weight_decay=0.1, eps=1e-3)
  # What many devices hold waits in the host's memory, to no other effect.
  offload = mesh.size > 1
  state = state_lib.create(random_params(0), tx, mesh, offload=offload)
  module = transformer.Transformer(CONFIG, scan_layers=True)
  programs = programs_lib.compile_programs(module, tiny.bound(), tx, state)
  for seed in (1, 2, None):
    grads = random_params(seed or 3)
    if seed is None:
      grads['embed'][0, 0] = np.nan
    place = functools.partial(jax.tree.map, sharding.put_array)
    shardings = jax.tree.map(lambda x: x.sharding, state.params)
    grads = state_lib.Networks(place(grads, shardings))
    state, metrics = programs.apply(state, grads)
    assert float(metrics['train/skipped']) == (seed is None)
    assert sharding.is_on_host(state.opt_state) == offload
  return state


def main(path, cases):
  arrays = {}
  for case in cases:
    state = updated(*case.split('/'))
    arrays |= flat(case, state)
    for leaf in jax.tree.leaves(state.opt_state):
      held = max(shard.data.nbytes for shard in leaf.addressable_shards)
      total = arrays.setdefault(f'{case}/held', np.zeros(2))
      total += (held, leaf.nbytes)
  np.savez(path, **arrays)


if __name__ == '__main__':
  main(sys.argv[1], sys.argv[2:])
