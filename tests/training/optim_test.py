"""Tests for agentrl.training.optim."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.training import optim
from agentrl.training.state import Networks
from tests import tiny


def rates(count, **settings):
  schedule = optim.make_schedule(
      1.0, **{'warmup_steps': 0, 'schedule': 'constant', **settings}
  )
  return [float(schedule(i)) for i in range(count)]


def test_warmup_values():
  # Update i of the warm-up uses (i + 1) / warmup_steps of the rate.
  found = rates(6, warmup_steps=4, total_steps=100)
  np.testing.assert_allclose(found, [0.25, 0.5, 0.75, 1, 1, 1], rtol=1e-6)


@pytest.mark.parametrize('warmup_steps', [0, 1])
def test_the_first_update_has_the_full_rate_without_a_longer_warmup(
    warmup_steps,
):
  found = rates(3, warmup_steps=warmup_steps, total_steps=100)
  np.testing.assert_allclose(found, [1, 1, 1])


def test_linear_decay_ends_where_the_run_ends():
  # Peak at update 2, then eighths: the last update, 9, still moves.
  found = rates(12, warmup_steps=2, schedule='linear', total_steps=10)
  expected = [0.5, 1.0, *(1 - k / 8 for k in range(8)), 0, 0]
  np.testing.assert_allclose(found, expected, atol=1e-6)


def test_cosine_decay_halves_in_the_middle():
  found = rates(11, warmup_steps=2, schedule='cosine', total_steps=10)
  expected = 0.5 * (1 + np.cos(np.pi * np.arange(9) / 8))
  np.testing.assert_allclose(found[2:], expected, atol=1e-6)


@pytest.mark.parametrize('schedule', optim.SCHEDULES)
def test_a_policy_stands_still_while_its_critic_warms_up(schedule):
  settings = dict(warmup_steps=2, schedule=schedule)
  found = rates(12, **settings, total_steps=10, frozen_steps=3)
  # Then all is as in a run that is that much shorter.
  assert found[:3] == [0, 0, 0]
  np.testing.assert_allclose(found[3:], rates(9, **settings, total_steps=7))


def one_update(grads, params, **settings):
  tx = optim.make_optimizer(**{'lr': 0.1, **settings})
  return jax.jit(lambda g, p: tx.update(g, tx.init(p), p)[0])(grads, params)


def test_decay_exempts_norm_scales_and_biases_and_nothing_else():
  params = jax.tree.map(np.ones_like, tiny.init_params())
  params['layers']['attention']['q']['bias'] = np.ones((2, 16), np.float32)
  zeros = jax.tree.map(np.zeros_like, params)
  # Without a gradient, the update is the decay: -lr * weight_decay * params.
  updates = one_update(zeros, params, weight_decay=0.5)
  for path, update in jax.tree_util.tree_leaves_with_path(updates):
    name = jax.tree_util.keystr(path)
    expected = 0.0 if 'scale' in name or 'bias' in name else -0.05
    np.testing.assert_allclose(update, expected, rtol=1e-6, err_msg=name)


def test_a_long_gradient_is_scaled_to_the_clip():
  # A large eps makes Adam linear: update = -lr * g / (|g| + eps).
  params = dict(w=jnp.zeros(2))
  long = dict(w=jnp.array([30.0, 40.0]))  # norm 50
  update = one_update(long, params, grad_clip=5.0, eps=1e6)
  np.testing.assert_allclose(update['w'], [-3e-7, -4e-7], rtol=1e-4)


def adamw_oracle(grads, *, lr, b1, b2, eps, weight_decay):
  """Decoupled weight decay (arXiv:1711.05101), one number, in float64."""
  x, m, v = 1.0, 0.0, 0.0
  for i, g in enumerate(grads, start=1):
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g * g
    step = (m / (1 - b1**i)) / (np.sqrt(v / (1 - b2**i)) + eps)
    x -= lr * (step + weight_decay * x)
  return x


def test_updates_match_adamw():
  settings = dict(lr=0.1, b1=0.8, b2=0.9, eps=1e-3, weight_decay=0.2)
  grads = [0.3, -0.7, 0.1, 0.9]
  tx = optim.make_optimizer(grad_clip=10.0, **settings)
  params = dict(w=jnp.ones(()))
  state = tx.init(params)
  for grad in grads:
    updates, state = tx.update(dict(w=jnp.float32(grad)), state, params)
    params = jax.tree.map(jnp.add, params, updates)
  np.testing.assert_allclose(
      params['w'], adamw_oracle(grads, **settings), rtol=1e-5
  )


def test_a_critic_has_a_rate_a_clip_and_moments_of_its_own():
  params = Networks({'w': jnp.ones(3)}, {'w': jnp.ones(3)})
  grads = Networks({'w': jnp.full(3, 1e3)}, {'w': jnp.full(3, 1e-3)})
  # A large eps shows the size of the gradient that is left of the clip.
  both = [
      dict(lr=0.1, grad_clip=2.0, eps=1.0),
      dict(lr=0.01, grad_clip=1e-4, eps=1.0),
  ]
  tx = optim.with_critic(*(optim.make_optimizer(**s) for s in both))
  updates, state = jax.jit(tx.update)(grads, tx.init(params), params)
  assert optim.updates(tx.init(params)) == 0 and optim.updates(state) == 1
  for name, settings in zip(('policy', 'critic'), both, strict=True):
    alone = one_update(getattr(grads, name), getattr(params, name), **settings)
    found = getattr(updates, name)
    tiny.assert_trees_close(found, alone, rtol=1e-6, atol=0)
    assert np.abs(found['w']).max() > 0
