"""The work that several processes share, each a `python -m tests.parallel.processes`.

    python -m tests.parallel.processes OUT.npz update CASE...
    python -m tests.parallel.processes OUT.npz save MESH DIR CASE...
    python -m tests.parallel.processes OUT.npz restore MESH DIR [DAMAGED_DIR]
    python -m tests.parallel.processes OUT.npz lose close|collective DIR
    python -m tests.parallel.processes OUT.npz stay INDEX DIR

The first writes the arrays that came out.
"""

import os
import pathlib
import sys
import threading
import time

import jax
import numpy as np
import pytest

from agentrl.errors import CheckpointError, ProcessLost
from agentrl.parallel import distributed, ranks
from agentrl.runtime import ending, peers
from agentrl.training import state as state_lib
from agentrl.training.checkpoint import Checkpoints
from tests.parallel import learner
from tests.parallel.eight_devices import flat, make_mesh

HOST = {'books': {'step': 3}}


def check_gather(params):
  """Checks that a push gathers the same as each process could by itself."""
  first = distributed.is_first()
  for dtype in (None, 'bfloat16'):
    found = distributed.gather(params, dtype, keep=first)
    assert (found is not None) == first
    whole = jax.tree.leaves(jax.tree.map(distributed.to_host, params))
    for x, expected in zip(jax.tree.leaves(found), whole, strict=first):
      assert x.dtype == (dtype or expected.dtype)
      np.testing.assert_array_equal(x, expected.astype(x.dtype))


def update(*cases):
  jax.config.update('jax_disable_most_optimizations', True)
  return {
      f'{case} {name}': value
      for case in cases
      for name, value in learner.update_on(case).items()
  }


def items_on(shape):
  state, _ = learner.make_learner(make_mesh(shape))
  return {
      'params': state.params,
      'optimizer': {'step': state.step, 'opt_state': state.opt_state},
  }


def save(shape, directory, *cases):
  """Also makes updates: processes take seconds to start."""
  # Not what a restoring process starts with: every leaf of its own.
  change = jax.jit(lambda tree: jax.tree.map(lambda x: 3 * x + 1, tree))
  items = change(items_on(shape))
  checkpoints = Checkpoints(pathlib.Path(directory))
  checkpoints.save(3, items, HOST)
  check_gather(items['params'])
  checkpoints.close()
  return flat(items) | update(*cases)


def restore(shape, directory, damaged=None):
  """Whichever process reads a damaged file, all of them refuse it."""
  if damaged is not None:
    with pytest.raises(CheckpointError, match='is not what was written'):
      restore(shape, damaged)
  like = state_lib.abstract(items_on(shape))
  checkpoints = Checkpoints(pathlib.Path(directory))
  items = checkpoints.restore(like)
  assert checkpoints.host() == HOST
  checkpoints.close()
  places = lambda tree: [x.sharding for x in jax.tree.leaves(tree)]
  assert places(items) == places(like)
  return flat(items)


def lose(told_by, directory):
  """One process is gone amid a save: the other hears of it within seconds."""
  items = items_on('2x2x2x1')
  path = pathlib.Path(directory)
  with (
      pytest.raises(ProcessLost),
      ranks.together(path, os.environ),
      Checkpoints(path) as checkpoints,
  ):
    checkpoints.save(3, items, HOST)
    began = time.monotonic()
    if not distributed.is_first():
      os._exit(0)  # without a word, as when it is killed
    if told_by == 'collective':
      distributed.wait('next')
  return {'seconds': np.float64(time.monotonic() - began)}


def stay(gone, directory):
  """One process is gone, and the other waits for what nobody ends."""
  peers._GRACE_S = 1.0
  with ranks.together(pathlib.Path(directory), os.environ):
    if distributed.index() == int(gone):
      os._exit(0)
    threading.Event().wait()


def main(path, action, *args):
  ranks.join(os.environ, 'train', ready=True)
  assert jax.device_count() == 8
  actions = dict(
      update=update, save=save, restore=restore, lose=lose, stay=stay
  )
  arrays = actions[action](*args)
  if distributed.is_first():
    np.savez(path, **arrays)
  if action == 'lose':
    ending.end(0)  # as launch.py, whose threads may wait for those of others


if __name__ == '__main__':
  main(*sys.argv[1:])
