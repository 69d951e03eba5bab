"""Tests for agentrl.training.state."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from agentrl.training import optim, state as state_lib
from tests import tiny


def test_a_new_state_is_at_update_zero_with_the_given_parameters():
  state, _ = tiny.make_learner()
  assert int(state.step) == 0
  tiny.assert_trees_equal(state.params, tiny.init_params())


def test_deleting_the_state_leaves_the_callers_parameters_alone():
  params = jax.tree.map(jnp.copy, tiny.init_params())
  mesh = tiny.one_device()
  state = state_lib.create(params, optim.make_optimizer(1e-3), mesh)
  jax.tree.map(lambda leaf: leaf.delete(), state)
  tiny.assert_trees_equal(params, tiny.init_params())


def test_every_leaf_of_the_state_has_its_sharding():
  mesh = tiny.one_device()
  args = tiny.init_params(), optim.make_optimizer(1e-3), mesh
  state, planned = state_lib.create(*args), state_lib.create_abstract(*args)
  for leaf, expected in zip(
      jax.tree.leaves(state), jax.tree.leaves(planned), strict=True
  ):
    assert leaf.sharding == expected.sharding
  assert state.params['embed'].sharding.spec == P('tensor', 'fsdp')
  assert state.step.sharding.spec == P()


def test_rows_and_tokens_are_split_and_episodes_are_whole():
  batch = tiny.random_batch(0)
  placed = state_lib.place(batch, tiny.one_device())
  assert placed.tokens.sharding.spec == P(('data', 'fsdp'), 'sequence')
  assert placed.valid.sharding.spec == P()
  assert placed.ref_logprobs is None
  np.testing.assert_array_equal(placed.tokens, batch.tokens)


def test_parameters_are_not_called_infinite_for_their_size():
  tree = {'a': jnp.full(4, 3e38), 'b': jnp.zeros((2, 2))}
  assert state_lib.is_finite(tree)
  assert not state_lib.is_finite(tree | {'c': jnp.array([0.0, jnp.nan])})
  assert not state_lib.is_finite(tree | {'c': jnp.array([-jnp.inf])})
