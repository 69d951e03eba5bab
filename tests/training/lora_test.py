"""Training an adapter with the step that trains everything."""

import asyncio
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.algos import ppo
from agentrl.errors import CheckpointError
from agentrl.models import lora as lora_lib, transformer, value_head
from agentrl.models.lora import Base, Lora
from agentrl.serving.weight_sync import push as weight_sync
from agentrl.training import (
    checkpoint,
    optim,
    programs as programs_lib,
    state as state_lib,
)
from agentrl.training.checkpoint import Checkpoints
from agentrl.training.state import Networks, TrainState
from agentrl.weights import names
from tests import tiny

LORA = Lora(rank=2, alpha=6.0)
ROWS = np.arange(8)


@functools.cache
def base_params():
  return jax.tree.map(jnp.asarray, tiny.init_params())


def random_adapter(seed=0):
  rng = np.random.default_rng(seed)
  adapter = lora_lib.init(LORA, base_params(), jax.random.key(0))
  return jax.tree.map(
      lambda x: rng.normal(0, 0.2, x.shape).astype(np.float32), adapter
  )


def make_learner(loss=None, critic=None):
  """A state and steps, of an adapter over `base_params()`."""
  tx = optim.make_optimizer(**tiny.OPTIMIZER)
  adapter = random_adapter()
  if critic is not None:
    tx = optim.with_critic(tx, optim.make_optimizer(**tiny.OPTIMIZER))
    critic = value_head.init(critic, tiny.MODULE, adapter)
    rng = np.random.default_rng(3)
    critic['head'] = jax.tree.map(
        lambda x: rng.normal(size=x.shape).astype(np.float32), critic['head']
    )
  mesh = tiny.one_device()
  state = state_lib.create(adapter, tx, mesh, critic=critic)
  programs = programs_lib.compile_programs(
      tiny.MODULE,
      loss or tiny.bound(),
      tx,
      state,
      base=Base(base_params(), LORA.scale),
  )
  return state, programs


@functools.cache
def steps_of():
  return make_learner()[1]


def new_state():
  return make_learner()[0]


def merged(adapter):
  return lora_lib.merge(adapter, Base(base_params(), LORA.scale))


def bytes_of(tree):
  return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


def accumulate(programs, params, batch):
  batch = jax.tree.map(jnp.asarray, batch)
  return programs.accumulate(
      Networks(params), programs.zeros(), batch, tiny.denominators(batch)
  )


@pytest.mark.slow
def test_the_gradient_is_that_of_the_merged_policy_by_the_chain_rule():
  batch, adapter = tiny.random_batch(0), random_adapter()
  grads, _, found = accumulate(steps_of(), adapter, batch)
  whole, _, expected = accumulate(tiny.programs(), merged(adapter), batch)
  np.testing.assert_allclose(
      found.logprobs, expected.logprobs, rtol=1e-4, atol=1e-5
  )
  for name in Lora().projections:
    block = lora_lib.BLOCKS[name]
    kernel = np.float64(whole.policy['layers'][block][name]['kernel'])
    pair = adapter['layers'][block][name]
    found = grads.policy['layers'][block][name]
    for part, value in dict(
        a=3.0 * kernel @ pair['b'].swapaxes(1, 2),
        b=3.0 * pair['a'].swapaxes(1, 2) @ kernel,
    ).items():
      scale = np.abs(value).max()
      np.testing.assert_allclose(
          found[part], value, rtol=1e-3, atol=1e-4 * scale, err_msg=name
      )


def test_an_update_trains_the_adapter_alone():
  before = jax.tree.map(np.array, base_params())
  state, old = new_state(), random_adapter()
  for seed in range(2):
    state, metrics, *_ = programs_lib.update(
        steps_of(), state, tiny.random_batch(seed), ROWS, max_tokens=tiny.ROW
    )
  assert metrics['train/grad_norm'] > 0
  moved = jax.tree.map(lambda x, y: np.abs(x - y).max(), state.params, old)
  assert all(x > 0 for x in jax.tree.leaves(moved))
  # Neither moved nor donated.
  tiny.assert_trees_equal(base_params(), before)


def test_the_optimizer_knows_of_nothing_but_the_adapter():
  state = new_state()
  adapter = bytes_of(state.params)
  assert adapter < bytes_of(base_params()) / 2
  # Two moments, and counts.
  assert 2 * adapter <= bytes_of(state.opt_state) < 2 * adapter + 64
  assert bytes_of(steps_of().zeros()) == adapter


@pytest.mark.slow
def test_a_critic_has_an_adapter_of_its_own_over_the_same_base():
  state, programs = make_learner(tiny.bound(ppo), 'own')
  assert bytes_of(state.critic) < bytes_of(state.params) + 256
  batch = tiny.random_batch(0)
  scores = programs_lib.score(
      programs, state.networks, batch, max_tokens=tiny.ROW
  )
  # Its trunk starts as a copy of the policy.
  hidden = tiny.MODULE.apply(
      {'params': merged(random_adapter())},
      batch.tokens,
      batch.positions,
      batch.segment_ids,
  ).hidden
  head = state.critic['head']['value']
  expected = np.asarray(hidden @ head['kernel'] + head['bias'])[..., 0]
  mask = batch.segment_ids > 0
  np.testing.assert_allclose(
      scores.next_values[mask], expected[mask], rtol=1e-3, atol=1e-4
  )
  batch = batch.replace(values=scores.values, returns=scores.values + 1)
  before = jax.tree.map(np.array, state.critic)
  state, metrics, *_ = programs_lib.update(
      programs, state, batch, ROWS, max_tokens=tiny.ROW
  )
  assert metrics['critic/grad_norm'] > 0
  for old, new in zip(
      jax.tree.leaves(before), jax.tree.leaves(state.critic), strict=True
  ):
    assert np.abs(new - old).max() > 0


def test_a_push_merges_and_keeps_no_buffer_of_either():
  base = Base(base_params(), LORA.scale)
  adapter = jax.tree.map(jnp.asarray, random_adapter())
  pushed = {}

  class Engine:

    def update_params(self, params, version):
      pushed[version] = params

  push = weight_sync.EmbeddedPush(Engine(), base=base)
  asyncio.run(push(adapter, 7))
  expected = transformer.unstack_layers(merged(adapter))
  tiny.assert_trees_close(pushed['7'], expected, rtol=1e-6, atol=1e-7)
  addresses = lambda tree: {
      leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(tree)
  }
  assert not addresses(pushed['7']) & addresses((adapter, base_params()))


def test_a_base_of_bfloat16_stays_it_and_the_adapter_is_float32():
  half = jax.tree.map(lambda x: x.astype(jnp.bfloat16), base_params())
  copy = weight_sync.engine_layout(
      random_adapter(), base=Base(half, LORA.scale)
  )
  assert {x.dtype for x in jax.tree.leaves(copy)} == {jnp.bfloat16.dtype}
  adapter = lora_lib.init(LORA, half, jax.random.key(0))
  assert {x.dtype for x in jax.tree.leaves(adapter)} == {jnp.float32.dtype}


def random_state(params):
  """As after many updates: no number is like another."""
  rng = np.random.default_rng(0)
  params = jax.tree.map(
      lambda x: jnp.asarray(rng.random(x.shape, np.float32)), params
  )
  opt_state = optim.make_optimizer(1e-3).init(Networks(params))
  opt_state = jax.tree.map(
      lambda x: x + rng.random(x.shape, np.float32) if x.ndim else x, opt_state
  )
  return TrainState(jnp.int32(1), params, opt_state)


def test_a_checkpoint_is_of_the_adapter_s_size(tmp_path):
  config = dataclasses.replace(tiny.CONFIG, vocab_size=4096, hidden_size=128)
  params = names.shapes(config, np.float32)
  lora = Lora(rank=8)
  init = functools.partial(lora_lib.init, lora, params)
  adapter = jax.eval_shape(init, jax.random.key(0))
  written = {}
  for name, tree in dict(whole=params, adapter=adapter).items():
    state, directory = random_state(tree), tmp_path / name
    checkpoints = Checkpoints(directory)
    checkpoint.save(checkpoints, state, None, {'books': {'step': 1}})
    checkpoints.close()
    written[name] = sum(
        path.stat().st_size
        for path in (directory / '1').rglob('*')
        if path.is_file()
    )
    size = bytes_of(state.params) * 3  # and two moments of it
    # What Orbax says of the arrays takes some 60 kB whatever they are.
    assert 0.8 * size < written[name] < size + 100_000, name
  assert written['adapter'] < written['whole'] / 10

  # Neither is taken for the other.
  checkpoints = Checkpoints(tmp_path / 'adapter')
  like = state_lib.abstract(state)
  found, _ = checkpoint.restore(checkpoints, like, reference=False)
  tiny.assert_trees_equal(found, state)
  with pytest.raises(CheckpointError, match='not of this model'):
    like = state_lib.abstract(random_state(params))
    checkpoint.restore(checkpoints, like, reference=False)
  checkpoints.close()
