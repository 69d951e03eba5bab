"""What a layer keeps for the backward pass changes memory and nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.models import transformer
from agentrl.models.config import TransformerConfig

CONFIG = TransformerConfig(
    vocab_size=16,
    hidden_size=32,
    intermediate_size=96,
    num_layers=6,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
)
TOKENS = np.random.default_rng(0).integers(16, size=(4, 96))
POSITIONS = np.broadcast_to(np.arange(96), TOKENS.shape)


def gradient_of(remat):
  """The compiled gradient of a function of the states, in the parameters."""
  module = transformer.Transformer(CONFIG, scan_layers=True, remat=remat)

  def loss(params):
    hidden = module.apply({'params': params}, TOKENS, POSITIONS).hidden
    return jnp.sum(jnp.sin(hidden))

  return jax.jit(jax.grad(loss)).lower(params_of(module)).compile()


def params_of(module):
  return jax.jit(lambda: transformer.init_params(module, jax.random.key(0)))()


@pytest.fixture(scope='module', name='gradients')
def _gradients():
  return {remat: gradient_of(remat) for remat in transformer.REMAT}


def test_what_is_computed_again_takes_no_memory(gradients):
  size = {
      name: compiled.memory_analysis().temp_size_in_bytes
      for name, compiled in gradients.items()
  }
  assert 1.2 * size['full'] < size['dots'] and 1.2 * size['dots'] < size['none']


def test_gradients_do_not_depend_on_it(gradients):
  params = params_of(transformer.Transformer(CONFIG, scan_layers=True))
  expected = gradients['none'](params)
  for remat in ('dots', 'full'):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        gradients[remat](params),
        expected,
    )


def test_dots_run_fewer_products_again_than_full(gradients):
  flops = {k: v.cost_analysis()['flops'] for k, v in gradients.items()}
  assert flops['none'] <= flops['dots'] < flops['full']
