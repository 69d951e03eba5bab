"""Tests for agentrl.models.lora: the adapter against merged parameters."""

import dataclasses
import functools

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.models import lora as lora_lib, transformer
from agentrl.models.lora import Base, Lora
from tests import tiny

pytestmark = pytest.mark.usefixtures('quick_compilation')

TOKENS = np.random.default_rng(0).integers(0, 32, (2, 9)).astype(np.int32)
POSITIONS = np.tile(np.arange(9, dtype=np.int32), (2, 1))
BIASED = dataclasses.replace(tiny.CONFIG, qkv_bias=True)
EXPERTS = dataclasses.replace(tiny.CONFIG, **tiny.EXPERTS)


def random_adapter(lora, params, seed=0):
  """One that has been trained: B is not 0."""
  adapter = lora_lib.init(lora, params, jax.random.key(seed))
  rng = np.random.default_rng(seed)
  return jax.tree.map(
      lambda x: rng.normal(0, 0.3, x.shape).astype(np.float32), adapter
  )


@functools.partial(jax.jit, static_argnums=0)
def states(module, params, base=None):
  variables = lora_lib.variables(params, base)
  return module.apply(variables, TOKENS, POSITIONS)[0]


def test_a_new_adapter_changes_nothing():
  params, lora = tiny.init_params(), Lora(rank=2)
  adapter = lora_lib.init(lora, params, jax.random.key(0))
  a, b = (adapter['layers']['mlp']['down'][name] for name in 'ab')
  assert a.shape == (2, 32, 2) and b.shape == (2, 2, 16)
  assert not b.any() and 0.1 < np.abs(a).max() <= 32**-0.5
  base = Base(params, lora.scale)
  plain = states(tiny.MODULE, params)
  np.testing.assert_array_equal(states(tiny.MODULE, adapter, base), plain)
  tiny.assert_trees_equal(lora_lib.merge(adapter, base), params)


@pytest.mark.parametrize(
    'lora, config, remat',
    [
        (Lora(rank=3), tiny.CONFIG, 'full'),
        (Lora(rank=4, alpha=2.0, rslora=True), BIASED, 'none'),
        (Lora(rank=2, targets=('k', 'down')), tiny.CONFIG, 'dots'),
        (Lora(rank=2, targets=('q', 'k', 'v', 'o')), EXPERTS, 'none'),
    ],
)
def test_an_adapter_does_what_merged_parameters_do(lora, config, remat):
  module = transformer.Transformer(config, scan_layers=True, remat=remat)
  params = tiny.random_params(config)
  adapter, base = random_adapter(lora, params), Base(params, lora.scale)
  found = states(module, adapter, base)
  expected = states(module, lora_lib.merge(adapter, base))
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
  assert np.abs(found - states(module, params)).max() > 0.01


def test_the_scale_is_that_of_the_papers():
  assert Lora(rank=8, alpha=16.0).scale == 2.0
  assert Lora(rank=16, alpha=16.0, rslora=True).scale == 4.0
  assert Lora().scale == 1.0


def loss(params, base=None):
  hidden = tiny.MODULE.apply(
      lora_lib.variables(params, base), TOKENS, POSITIONS
  ).hidden
  return jnp.sum(jnp.sin(hidden * 3))


def test_its_gradient_is_the_chain_rule_s():
  params, lora = tiny.init_params(), Lora(rank=3, alpha=12.0)
  adapter, base = random_adapter(lora, params), Base(params, lora.scale)
  found = jax.jit(jax.grad(loss))(adapter, base)['layers']
  whole = jax.jit(jax.grad(loss))(lora_lib.merge(adapter, base))['layers']
  for name in lora.projections:
    block = lora_lib.BLOCKS[name]
    kernel = np.asarray(whole[block][name]['kernel'], np.float64)
    a, b = (np.float64(adapter['layers'][block][name][x]) for x in 'ab')
    expected = dict(
        a=4.0 * kernel @ b.swapaxes(1, 2), b=4.0 * a.swapaxes(1, 2) @ kernel
    )
    for part, value in expected.items():
      np.testing.assert_allclose(
          found[block][name][part],
          value,
          rtol=1e-4,
          atol=1e-5 * np.abs(value).max(),
          err_msg=f'{name}/{part}',
      )


def products(jaxpr):
  """Shapes of all matrix products of a program, inner ones too."""
  for equation in jaxpr.eqns:
    if equation.primitive.name == 'dot_general':
      yield tuple(sorted(equation.outvars[0].aval.shape))
    yield from (
        shape
        for inner in jax.extend.core.jaxprs_in_params(equation.params)
        for shape in products(inner)
    )


def test_no_gradient_of_a_whole_matrix_is_computed():
  params, lora = tiny.init_params(), Lora(rank=3)
  adapter, base = random_adapter(lora, params), Base(params, lora.scale)
  whole = set(products(jax.make_jaxpr(jax.grad(loss))(params).jaxpr))
  found = set(products(jax.make_jaxpr(jax.grad(loss))(adapter, base).jaxpr))
  assert (16, 32) in whole and (3, 32) not in whole
  assert (16, 32) not in found and (3, 32) in found
