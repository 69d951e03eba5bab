"""Optimizers whose state is spread over simulated devices.

No network is run: the gradients are random.
"""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from agentrl.models import transformer
from agentrl.parallel import sharding
from agentrl.training import optim, programs as programs_lib, state as state_lib
from agentrl.weights import names
from tests import tiny
from tests.parallel.eight_devices import ALONE, flat, make_mesh

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


def held(state):
  """Bytes of the optimizer state on the fullest devices, and of all of it."""
  leaves = jax.tree.leaves(state.opt_state)
  most = lambda x: max(shard.data.nbytes for shard in x.addressable_shards)
  return sum(map(most, leaves)), sum(x.nbytes for x in leaves)


@pytest.mark.slow
@pytest.mark.parametrize('name', ['adamw8bit', 'adafactor', 'adamw', 'muon'])
def test_a_split_state_is_that_of_one_device(name):
  state = updated(name, '1x4x2x1')
  most, total = held(state)
  # An eighth, but for norms and what is small: factors, scales of blocks.
  assert most < (0.6 if name == 'adafactor' else 0.2) * total
  updates, found = flat(updated(name, ALONE)), flat(state)
  assert len(updates) > 25
  for key, expected in updates.items():
    if expected.dtype.itemsize == 1:
      # A number at the edge of its cell may fall to either side.
      apart = np.abs(found[key].astype(int) - expected)
      assert apart.max() <= 1 and (apart > 0).mean() < 1e-3, key
    else:
      np.testing.assert_allclose(
          found[key], expected, rtol=1e-4, atol=1e-5, err_msg=key
      )
