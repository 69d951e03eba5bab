"""Tests for the optimizers beside AdamW, and for Adam in 8 bits."""

import functools

import jax
import numpy as np
import optax
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.algos import sft
from agentrl.data import collate
from agentrl.models import variants
from agentrl.training import (
    adam8bit,
    optim,
    programs as programs_lib,
    state as state_lib,
)
from agentrl.training.checkpoint import Checkpoints
from agentrl.training.state import Networks
from agentrl.weights import names
from tests import tiny

quantise_moments = jax.jit(adam8bit.quantise)
quantise_squares = jax.jit(adam8bit.quantise_squares)
dequantise = jax.jit(adam8bit.dequantise)
OTHERS = ('adamw8bit', 'adafactor', 'muon')


def one_step(name, grads, params, **settings):
  tx = optim.make_optimizer(1.0, name=name, grad_clip=1e9, **settings)
  return jax.jit(lambda g, p: tx.update(g, tx.init(p), p)[0])(grads, params)


def random_tree(seed):
  rng = np.random.default_rng(seed)
  return {
      'embed': rng.normal(size=(40, 12)),
      'layers': {
          'q': {
              'kernel': rng.normal(size=(3, 12, 20)),
              'bias': rng.normal(size=(3, 20)),
          },
          # [L, E, in, out]
          'experts_up': rng.normal(size=(3, 2, 20, 12)),
          'norm': {'scale': rng.normal(size=(3, 12))},
      },
  }


def as_float32(tree):
  return jax.tree.map(np.float32, tree)


def newton_schulz(x):
  """Muon's orthogonalisation of one matrix (K. Jordan, 2024), in float64."""
  a, b, c = 3.4445, -4.7750, 2.0315
  turned = x.shape[0] > x.shape[1]
  x = x.T if turned else x
  x = x / np.linalg.norm(x)
  for _ in range(5):
    square = x @ x.T
    x = a * x + (b * square + c * square @ square) @ x
  return x.T if turned else x


def test_muon_orthogonalises_each_matrix_of_a_stack():
  grads, params = random_tree(0), as_float32(random_tree(1))
  found = one_step('muon', as_float32(grads), params)['layers']
  for path in (('q', 'kernel'), ('experts_up',)):
    grad, update = grads['layers'], found
    for key in path:
      grad, update = grad[key], update[key]
    for index in np.ndindex(grad.shape[:-2]):
      # Of a first step, Nesterov's momentum is a multiple of the gradient.
      expected = -0.2 * np.sqrt(20) * newton_schulz(grad[index])
      np.testing.assert_allclose(update[index], expected, rtol=1e-4, atol=1e-5)
      singular = np.linalg.svd(update[index], compute_uv=False)
      assert (singular / (0.2 * np.sqrt(20)) > 0.5).all()


@pytest.mark.parametrize('name', ['muon', 'adamw8bit'])
def test_what_is_no_matrix_of_a_layer_gets_adams_step(name):
  grads, params = (as_float32(random_tree(seed)) for seed in (0, 1))
  found, adam = (one_step(n, grads, params) for n in (name, 'adamw'))
  adams = ['embed', 'bias', 'scale'] if name == 'muon' else ['bias', 'scale']
  compared = 0
  for (path, update), expected in zip(
      jax.tree_util.tree_leaves_with_path(found),
      jax.tree.leaves(adam),
      strict=True,
  ):
    if path[-1].key in adams:
      np.testing.assert_allclose(update, expected, rtol=1e-5)
      compared += 1
  assert compared == len(adams)


def test_adafactors_first_step_is_that_of_its_factors():
  rng = np.random.default_rng(0)
  grad = rng.normal(size=(2, 130, 140))  # factored from 128 on
  # A first step has decay 1 - 1^-0.8 = 0: the moments are the squares' means.
  expected = np.zeros_like(grad)
  for i, g in enumerate(grad):
    row, column = (g * g).mean(axis=1), (g * g).mean(axis=0)
    u = g / np.sqrt(np.outer(row, column) / row.mean())
    expected[i] = -u / max(1, np.sqrt((u * u).mean()))
  grads = {'q': {'kernel': np.float32(grad)}}
  found = one_step('adafactor', grads, grads)['q']['kernel']
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('name', OTHERS)
def test_decay_and_rate_are_applied_as_in_adamw(name):
  params = as_float32(random_tree(0))
  zeros = jax.tree.map(np.zeros_like, params)
  found = one_step(name, zeros, params, weight_decay=0.5)
  for path, update in jax.tree_util.tree_leaves_with_path(found):
    x = functools.reduce(lambda tree, key: tree[key.key], path, params)
    exempt = path[-1].key in ('scale', 'bias')
    np.testing.assert_allclose(update, 0 * x if exempt else -0.5 * x, rtol=1e-6)


@pytest.mark.parametrize('bits', [6, 7])
def test_each_decade_has_half_the_values_of_the_one_above(bits):
  found = adam8bit.values(bits)
  assert (np.diff(found) > 0).all() and found[-1] == 1
  assert len(found) <= 256 >> (bits == 6)  # a sign takes a bit
  counts = [
      ((found > 10.0**-e * 0.1) & (found <= 10.0**-e)).sum() for e in range(7)
  ]
  assert counts == [2 ** (bits - e) for e in range(7)]


@pytest.mark.parametrize('signed', [True, False])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_a_number_stays_in_its_cell(seed, signed):
  rng = np.random.default_rng(seed)
  x = rng.normal(size=(2, 3, 300)) * 10.0 ** rng.uniform(-6, 0, (2, 3, 300))
  x = np.float32(x if signed else x * x)
  quantise = quantise_moments if signed else quantise_squares
  codes, scales = quantise(x)
  assert codes.shape == x.shape and codes.dtype.itemsize == 1
  assert scales.shape == (2, 3, 2)  # blocks of 256 and 44
  found = np.asarray(dequantise(codes, scales), np.float64)
  for part in (slice(0, 256), slice(256, None)):
    block = x[..., part].astype(np.float64)
    top = np.abs(block).max(axis=-1, keepdims=True)
    decade = np.clip(np.floor(-np.log10(np.abs(block) / top + 1e-300)), 0, 6)
    # Half a cell of its decade; of the uppermost cell, a whole one.
    cell = 0.9 * 10.0**-decade / 2 ** ((6 if signed else 7) - decade)
    half = np.where(np.abs(block) > (1 - cell) * top, cell, cell / 2)
    error = np.abs(found[..., part] - block) / top
    assert (error <= 1.001 * half + 1e-7).all()
  # What was rounded is not rounded again.
  np.testing.assert_array_equal(quantise(np.float32(found))[0], codes)


def test_zeros_stay_zeros_and_a_second_moment_never_becomes_one():
  x = np.float32([[0, 0, 0], [1, 1e-20, 0.5]])
  np.testing.assert_array_equal(dequantise(*quantise_moments(x))[0], 0)
  found = np.asarray(dequantise(*quantise_squares(x)))
  np.testing.assert_array_equal(found[0], 0)
  assert (found[1] > 0).all()


def test_the_8_bit_state_takes_a_quarter_of_the_bytes():
  params = names.shapes(variants.get('smollm2-135m'), np.float32)

  def state_bytes(name):
    tx = optim.make_optimizer(1e-3, name=name)
    shapes = jax.tree.leaves(jax.eval_shape(tx.init, params))
    return sum(x.size * x.dtype.itemsize for x in shapes)

  adam = state_bytes('adamw')
  assert 0.25 < state_bytes('adamw8bit') / adam < 0.27
  assert state_bytes('adafactor') / adam < 0.01
  assert 0.5 < state_bytes('muon') / adam < 0.65  # embeddings have two


@pytest.mark.parametrize('name', OTHERS)
def test_a_checkpoint_brings_the_state_back(name, tmp_path):
  params = as_float32(random_tree(0))
  tx = optim.make_optimizer(1.0, name=name)
  update = jax.jit(lambda g, p: tx.update(g, tx.init(p), p)[1])
  items = {'optimizer': {'opt_state': update(params, params)}}
  checkpoints = Checkpoints(tmp_path)
  checkpoints.save(1, items, {})
  checkpoints.wait()
  found = checkpoints.restore(state_lib.abstract(items))
  checkpoints.close()
  tiny.assert_trees_equal(found, items)
  assert jax.tree.structure(found) == jax.tree.structure(items)


@functools.cache
def learn(name, updates=40):
  """Losses of SFT on a few random episodes."""
  tx = optim.make_optimizer(3e-3, name=name)
  programs, batch = tiny.programs(sft.loss), tiny.random_batch(0)
  rows = np.arange(len(batch.tokens))
  [(piece, _)] = collate.microbatches(batch, rows, max_tokens=8 * tiny.ROW)
  denominators = programs_lib.denominators(batch, rows)

  @jax.jit
  def apply(networks, opt_state, grads):
    updates, opt_state = tx.update(grads, opt_state, networks)
    return optax.apply_updates(networks, updates), opt_state

  networks, losses = Networks(tiny.init_params()), []
  opt_state = jax.jit(tx.init)(networks)
  for _ in range(updates):
    grads, metrics, _ = programs.accumulate(
        networks, programs.zeros(), piece, denominators
    )
    networks, opt_state = apply(networks, opt_state, grads)
    losses.append(float(metrics['policy/loss']))
  return np.array(losses)


@pytest.mark.slow
def test_8_bits_learn_as_32_do():
  found, expected = learn('adamw8bit'), learn('adamw')
  assert expected[-1] < 0.8 * expected[0]
  # Two parts in a hundred of the way that was gone.
  np.testing.assert_allclose(
      found, expected, atol=0.02 * (expected[0] - expected[-1])
  )
  assert np.abs(found - expected).max() > 0


@pytest.mark.slow
@pytest.mark.parametrize('name', ['adafactor', 'muon'])
def test_every_optimizer_learns(name):
  losses, adams = learn(name), learn('adamw')
  assert losses[0] - losses[-1] > 0.5 * (adams[0] - adams[-1])
