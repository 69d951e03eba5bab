"""Tests for agentrl.models.value_head."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.models import value_head
from agentrl.models.transformer import States
from tests import tiny

LAYOUT = (
    np.arange(24, dtype=np.int32).reshape(2, 12) % 7,
    np.tile(np.arange(12, dtype=np.int32), (2, 1)),
    np.ones((2, 12), np.int32),
)


@functools.cache
def critic(kind):
  """Parameters with a head that is not all 0."""
  params = value_head.init(kind, tiny.MODULE, tiny.init_params())
  rng = np.random.default_rng(0)
  head = jax.tree.map(lambda x: rng.normal(size=x.shape), params['head'])
  return params | {'head': jax.tree.map(jnp.float32, head)}


@jax.jit
def hidden_of(params, layout):
  return tiny.MODULE.apply({'params': params}, *layout)[0]


@jax.jit
def values_of(critic, hidden, layout):
  raw, _ = value_head.apply(critic, tiny.MODULE, States(hidden), *layout)
  return raw


@pytest.mark.parametrize('kind', value_head.TRUNKS)
def test_a_new_critic_says_zero(kind):
  params = tiny.init_params()
  new = value_head.init(kind, tiny.MODULE, params)
  values = values_of(new, hidden_of(params, LAYOUT), LAYOUT)
  assert values.shape == (2, 12) and values.dtype == jnp.float32
  np.testing.assert_array_equal(values, 0)


@pytest.mark.parametrize('kind', value_head.TRUNKS)
def test_values_are_a_linear_map_of_the_states(kind):
  hidden = hidden_of(tiny.init_params(), LAYOUT)
  head = critic(kind)['head']['value']
  expected = (
      np.asarray(hidden, np.float64) @ np.asarray(head['kernel'])[:, 0]
      + np.asarray(head['bias'])[0]
  )
  values = values_of(critic(kind), hidden, LAYOUT)
  np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)
  assert np.std(expected) > 0.1


def test_an_own_critic_starts_from_a_copy_of_the_policy():
  params = jax.tree.map(jnp.asarray, tiny.init_params())
  new = value_head.init('own', tiny.MODULE, params)
  tiny.assert_trees_equal(new['trunk'], params)
  for old in jax.tree.leaves(params):
    old.delete()  # as a train step does that donates it
  assert not any(copy.is_deleted() for copy in jax.tree.leaves(new))
  assert 'trunk' not in value_head.init('shared', tiny.MODULE, new['trunk'])


@jax.jit
def gradients(policy, critic):
  """Of a sum of squared values, in the policy's and the critic's parameters."""

  def loss(policy, critic):
    hidden = hidden_of(policy, LAYOUT)
    return jnp.sum((values_of(critic, hidden, LAYOUT) - 1.0) ** 2)

  return jax.grad(loss, argnums=(0, 1))(policy, critic)


@pytest.mark.parametrize('kind', value_head.TRUNKS)
def test_only_a_shared_critic_shapes_the_policy_s_trunk(kind):
  of_policy, of_critic = gradients(tiny.init_params(), critic(kind))
  largest = lambda tree: max(float(jnp.abs(x).max()) for x in tree)
  assert largest(jax.tree.leaves(of_critic['head'])) > 0
  of_policy = largest(jax.tree.leaves(of_policy))
  if kind == 'shared':
    assert of_policy > 0
  else:
    assert of_policy == 0
    assert largest(jax.tree.leaves(of_critic['trunk'])) > 0


def test_an_own_critic_does_not_read_the_policy_s_states():
  nothing = np.full((2, 12, tiny.CONFIG.hidden_size), np.nan, np.float32)
  assert np.isfinite(values_of(critic('own'), nothing, LAYOUT)).all()


@pytest.mark.parametrize('kind', value_head.TRUNKS)
def test_what_shares_a_row_does_not_change_a_value(kind):
  tokens = np.concatenate(LAYOUT[0])[None]  # both rows, end to end
  packed = (
      tokens,
      np.concatenate(LAYOUT[1])[None],
      np.repeat(np.int32([1, 2]), 12)[None],
  )
  found = [
      values_of(critic(kind), hidden_of(tiny.init_params(), layout), layout)
      for layout in (LAYOUT, packed)
  ]
  np.testing.assert_allclose(
      found[1].reshape(2, 12), found[0], rtol=1e-4, atol=1e-5
  )
