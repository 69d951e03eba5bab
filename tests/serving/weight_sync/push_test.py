"""Tests for agentrl.serving.weight_sync."""

import asyncio
import functools

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.models import transformer
from agentrl.serving.weight_sync import push as weight_sync
from agentrl.training import programs as programs_lib
from tests import tiny


def assert_engine_layout_of(copy, params):
  """`params` are host arrays in the trainer's layout."""

  def of_layer(path, stack, i):
    return stack[i].T if path[-1].key == 'kernel' else stack[i]

  for i in range(tiny.CONFIG.num_layers):
    expected = jax.tree_util.tree_map_with_path(
        functools.partial(of_layer, i=i), params['layers']
    )
    tiny.assert_trees_equal(copy[f'layers_{i}'], expected)
  others = params.keys() - {'layers'}
  assert copy.keys() == {'layers_0', 'layers_1', *others}
  for name in others:
    tiny.assert_trees_equal(copy[name], params[name])


def test_the_engines_copy_outlives_the_donated_state():
  state = tiny.new_state()
  before = jax.tree.map(np.array, state.params)
  copy = weight_sync.engine_layout(state.params)
  leaves = jax.tree.leaves(state.params)
  state = programs_lib.update(
      tiny.programs(),
      state,
      tiny.random_batch(0),
      np.arange(8),
      max_tokens=tiny.ROW,
  ).state
  assert all(leaf.is_deleted() for leaf in leaves)
  assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(copy))
  assert_engine_layout_of(copy, before)
  assert (np.asarray(state.params['embed']) != before['embed']).any()


def test_no_buffer_is_shared_with_the_trainer():
  params = jax.tree.map(jnp.copy, tiny.init_params())
  copy = weight_sync.engine_layout(params)
  addresses = lambda tree: {
      leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(tree)
  }
  assert not addresses(params) & addresses(copy)


def test_one_layer_is_copied_too():
  # The only slice of a stack of one could be the stack itself.
  params = jax.tree.map(jnp.copy, tiny.init_params())
  one = params | {'layers': jax.tree.map(lambda x: x[:1], params['layers'])}
  copy = weight_sync.engine_layout(one)
  expected = jax.tree.map(np.array, copy)
  jax.tree.map(lambda leaf: leaf.delete(), one)
  tiny.assert_trees_equal(copy, expected)


def test_both_layouts_compute_the_same():
  module = transformer.Transformer(tiny.CONFIG)
  copy = weight_sync.engine_layout(tiny.init_params())
  tokens, positions = jnp.array([[3, 1, 4, 1, 5]]), jnp.arange(5)[None]
  ours = jax.jit(module.apply)({'params': copy}, tokens, positions)
  theirs = jax.jit(tiny.MODULE.apply)(
      {'params': tiny.init_params()}, tokens, positions
  )
  np.testing.assert_allclose(ours.hidden, theirs.hidden, rtol=1e-5, atol=1e-6)


def test_another_type_for_the_engine():
  copy = weight_sync.engine_layout(tiny.init_params(), dtype=jnp.bfloat16)
  assert {leaf.dtype for leaf in jax.tree.leaves(copy)} == {jnp.bfloat16.dtype}


class Engine:
  """Remembers what was pushed into it."""

  def update_params(self, params, version):
    self.params, self.version = params, version


def test_embedded_push_hands_over_a_copy_and_the_version():
  engine = Engine()
  params = jax.tree.map(jnp.copy, tiny.init_params())
  push = weight_sync.EmbeddedPush(engine)
  asyncio.run(push(params, 7))
  jax.tree.map(lambda leaf: leaf.delete(), params)
  assert engine.version == '7'
  assert_engine_layout_of(engine.params, tiny.init_params())
  mark = push.fingerprint()
  asyncio.run(push(tiny.init_params(), 8))
  assert push.fingerprint() == mark
  asyncio.run(push(tiny.random_params(tiny.CONFIG), 9))
  assert push.fingerprint() != mark
