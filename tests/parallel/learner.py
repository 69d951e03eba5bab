"""A learner on a mesh, and the update that every mesh must make the same."""

import dataclasses
import functools

import jax
import numpy as np

from agentrl.algos import grpo, ppo
from agentrl.data import collate
from agentrl.models import transformer, value_head
from agentrl.parallel import distributed, mesh as mesh_lib
from agentrl.training import programs as programs_lib, state as state_lib
from tests import tiny
from tests.parallel.eight_devices import flat, make_mesh

# Eight heads, so that eight devices can share them; two key heads, so that they
# are split over two devices and copied to four and eight.
CONFIG = dataclasses.replace(tiny.CONFIG, num_heads=8)
MODULE = transformer.Transformer(CONFIG, scan_layers=True)
# 32 packed rows make as many microbatches on one device as on eight.
PACKED_ROWS = 32


@functools.cache
def init_params():
  init = jax.jit(functools.partial(transformer.init_params, MODULE))
  return jax.tree.map(np.asarray, init(jax.random.key(0)))


def make_critic(kind, params):
  # A head of zeros, as it starts, would give its trunk no gradient.
  rng = np.random.default_rng(3)
  critic = value_head.init(kind, MODULE, params)
  critic['head'] = jax.tree.map(
      lambda x: rng.normal(size=x.shape).astype(np.float32), critic['head']
  )
  return critic


def make_learner(mesh, critic=None):
  """State and programs."""
  tx, params, loss = tiny.optimizer(critic), init_params(), tiny.bound(grpo)
  if critic is not None:
    critic, loss = make_critic(critic, params), tiny.bound(ppo)
  state = state_lib.create(params, tx, mesh, critic=critic)
  return state, programs_lib.compile_programs(MODULE, loss, tx, state)


def with_random_estimates(batch, rng):
  """The batch with random advantages, values and returns.

  A group's own advantages cancel: the loss would be nothing but rounding.
  """
  shape = batch.tokens.shape
  return batch.replace(
      advantages=rng.normal(1.0, size=shape).astype(np.float32),
      values=rng.normal(size=shape).astype(np.float32),
      returns=rng.normal(size=shape).astype(np.float32),
  )


@functools.cache
def random_batch():
  return with_random_estimates(
      tiny.random_batch(0, num_groups=31, failures=0.1),
      np.random.default_rng(1),
  )


def pieces_on(mesh, microbatches):
  """The rows of `random_batch`, and its microbatches."""
  batch = random_batch()
  rows = np.arange(len(batch.tokens))
  pieces = collate.microbatches(
      batch,
      rows,
      max_tokens=tiny.ROW * PACKED_ROWS // microbatches,
      multiple=mesh_lib.batch_size(mesh),
  )
  assert len(pieces) == microbatches, len(pieces)
  return rows, pieces


@functools.cache
def update_on(case):
  """Gradient, log-probabilities, metrics and state of one update, flat.

  Args:
    case: `DATAxFSDPxTENSORxSEQUENCE/CRITIC/MICROBATCHES`.
  """
  shape, critic, microbatches = case.split('/')
  mesh, batch = make_mesh(shape), random_batch()
  state, programs = make_learner(mesh, None if critic == 'none' else critic)
  rows, pieces = pieces_on(mesh, int(microbatches))
  grads, parts = programs.zeros(), []
  logprobs = np.zeros(batch.tokens.shape, np.float32)
  for piece, places in pieces:
    grads, metrics, found = programs.accumulate(
        state.networks,
        grads,
        state_lib.place(piece, mesh),
        programs_lib.denominators(batch, rows),
    )
    parts.append(metrics)
    collate.unpack(distributed.to_host(found.logprobs), places, logprobs)
  # A copy: the next call donates them.
  out = flat(dict(grads=grads, logprobs=logprobs))
  state, metrics = programs.apply(state, grads)
  return out | flat(
      dict(
          state=state,
          metrics=programs_lib.merge(parts) | programs_lib.merge([metrics]),
          shard=np.array(
              state.params['embed'].addressable_shards[0].data.shape
          ),
      )
  )
