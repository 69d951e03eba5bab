r"""Parameters that are born on eight simulated devices; writes what came out.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 \
        python -m tests.parallel.simulated_loading OUT.npz MODEL
"""

import functools
import sys
import types

import jax
import numpy as np

from agentrl.parallel import sharding
from agentrl.training import language_model, meshes
from agentrl.weights import pretrained
from tests.parallel.simulated_devices import flat, make_mesh

MESH = '2x2x2x1'


def read_by(mesh):
  """Sizes of what is read, leaf by leaf, when a mesh gets an array."""
  x = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)
  sizes = []

  def read(index):
    sizes.append(x[index].size)
    return x[index]

  spec = jax.NamedSharding(mesh, sharding.P('tensor', 'fsdp'))
  found = sharding.shard(read, x.shape, spec)
  np.testing.assert_array_equal(found, x)
  assert found.sharding == spec
  return np.array(sizes)


def main(path, model):
  mesh = make_mesh(MESH)
  config, params = pretrained.load(
      model, place=functools.partial(meshes.shardings, mesh=mesh)
  )
  words = types.SimpleNamespace(vocab_size=config.vocab_size)
  born = language_model.init_random(
      config, words, seed=7, path='', mesh=mesh
  ).params
  arrays = {'sizes': read_by(mesh)}
  for name, tree in dict(loaded=params, born=born).items():
    arrays |= flat(name, tree)
    shards = jax.tree.map(
        lambda x: np.array(x.addressable_shards[0].data.shape), tree
    )
    arrays |= flat(f'{name}_shards', shards)
  np.savez(path, **arrays)


if __name__ == '__main__':
  main(*sys.argv[1:])
