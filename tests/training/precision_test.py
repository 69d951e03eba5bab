"""bfloat16 is for activations: weights, moments and sums are float32."""

import collections
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core

from agentrl.algos import grpo
from agentrl.models import transformer
from agentrl.training import optim, programs as programs_lib, state as state_lib
from tests import tiny

CONFIG = dataclasses.replace(
    tiny.CONFIG, qkv_bias=True, qk_norm=True, tie_embeddings=False
)
EXPERTS = dataclasses.replace(
    CONFIG, num_experts=4, num_experts_per_token=2, moe_intermediate_size=12
)
# Sums and functions whose error in bfloat16 would be the network's.
EXACT = {'reduce_sum', 'exp', 'log', 'rsqrt', 'cumsum', 'scatter-add', 'div'}


def make_learner(name, config=CONFIG):
  module = transformer.Transformer(
      config, scan_layers=True, remat='dots', dtype=jnp.bfloat16
  )
  params = jax.jit(lambda: transformer.init_params(module, jax.random.key(0)))()
  tx = optim.make_optimizer(1e-3, name=name)
  state = state_lib.create(params, tx, tiny.one_device())
  programs = programs_lib.compile_programs(module, tiny.bound(grpo), tx, state)
  return state, programs


def not_float32(tree):
  return [
      x.dtype
      for x in jax.tree.leaves(tree)
      if jnp.issubdtype(x.dtype, jnp.floating) and x.dtype != jnp.float32
  ]


def equations(jaxpr):
  """All of them, those of inner functions included."""
  for equation in jaxpr.eqns:
    yield equation
    for value in equation.params.values():
      for inner in value if isinstance(value, tuple | list) else (value,):
        if isinstance(inner, core.ClosedJaxpr):
          yield from equations(inner.jaxpr)
        elif isinstance(inner, core.Jaxpr):
          yield from equations(inner)


def half(variable):
  return getattr(variable.aval, 'dtype', None) == jnp.bfloat16


@pytest.mark.parametrize('name', optim.OPTIMIZERS)
def test_weights_and_moments_stay_float32(name):
  state, programs = make_learner(name)
  grads = jax.eval_shape(programs.zeros)
  new, metrics = jax.eval_shape(programs.apply, state, grads)
  assert not not_float32((state, grads, new, metrics))


@pytest.mark.parametrize('config', [CONFIG, EXPERTS], ids=['dense', 'experts'])
def test_gradients_sums_and_logprobs_are_float32(config):
  state, programs = make_learner('adamw', config)
  batch = tiny.random_batch(0)
  args = (
      state.networks,
      jax.eval_shape(programs.zeros),
      batch,
      tiny.denominators(batch),
  )
  assert not not_float32(programs.accumulate.trace(*args).out_info)
  found = collections.Counter()
  leaves = jax.tree.leaves(state.params['layers'])
  # Experts' are [L, E, in, out], and one expert's gradient comes at a time.
  kernels = {x.shape[-2:] for x in leaves if x.ndim > 2}
  kernels |= {(CONFIG.vocab_size, CONFIG.hidden_size)}
  for equation in equations(programs.accumulate.trace(*args).jaxpr.jaxpr):
    name = equation.primitive.name
    variables = [*equation.invars, *equation.outvars]
    if name in EXACT:
      assert not any(map(half, variables)), equation
      found[name] += 1
    if name == 'dot_general':
      [out] = equation.outvars
      found['product', out.aval.dtype.name] += 1
      # A weight's gradient is summed over tokens and, on a mesh, over devices.
      assert not (half(out) and out.aval.shape in kernels), equation
  assert found['rsqrt'] and found['exp'] and found['reduce_sum']
  assert found['product', 'bfloat16'] > 10  # it does compute in bfloat16
  assert not any(np.isnan(x).any() for x in jax.tree.leaves(state.params))
