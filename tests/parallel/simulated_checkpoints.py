r"""Saves a state from one mesh, restores it on another, or finds it damaged.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 \
        python -m tests.parallel.simulated_checkpoints OUT.npz ACTION MESH DIR

One process of several, if the environment says so.
"""

import os
import pathlib
import sys

import jax
import numpy as np
import pytest

from agentrl.errors import CheckpointError
from agentrl.parallel import distributed
from agentrl.training import ranks, state as state_lib
from agentrl.training.checkpoint import Checkpoints
from tests.parallel.simulated_devices import flat, make_learner, make_mesh

HOST = {'books': {'step': 3}}


def check_gather(params):
  """What is gathered for a push is what each process could gather itself."""
  first = distributed.is_first()
  for dtype in (None, 'bfloat16'):
    found = distributed.gather(params, dtype, keep=first)
    assert (found is not None) == first
    whole = jax.tree.leaves(jax.tree.map(distributed.to_host, params))
    for x, expected in zip(jax.tree.leaves(found), whole, strict=first):
      assert x.dtype == (dtype or expected.dtype)
      np.testing.assert_array_equal(x, expected.astype(x.dtype))


def main(path, action, shape, directory):
  ranks.join(os.environ, 'train', ready=True)
  state, _ = make_learner(make_mesh(shape), 'none')
  items = {
      'params': state.params,
      'optimizer': {'step': state.step, 'opt_state': state.opt_state},
  }
  checkpoints = Checkpoints(pathlib.Path(directory))
  if action == 'save':
    # Not what a restoring process starts with: every leaf of its own.
    change = jax.jit(lambda tree: jax.tree.map(lambda x: 3 * x + 1, tree))
    items = change(items)
    checkpoints.save(3, items, HOST)
    check_gather(items['params'])
  elif action == 'refuse':
    # Whichever process reads the damaged file, all of them say so.
    with pytest.raises(CheckpointError, match='is not what was written'):
      checkpoints.restore(state_lib.abstract(items))
  else:
    like = state_lib.abstract(items)
    items = checkpoints.restore(like)
    assert checkpoints.host() == HOST
    places = lambda tree: [x.sharding for x in jax.tree.leaves(tree)]
    assert places(items) == places(like)
  checkpoints.close()
  arrays = flat('state', items)
  if distributed.is_first():
    np.savez(path, **arrays)


if __name__ == '__main__':
  main(*sys.argv[1:])
