"""What decoders of other families add computes the same on any mesh."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding

from agentrl.models import mesh_logprob, transformer
from agentrl.models.config import FULL, SLIDING
from agentrl.parallel import sharding
from tests import tiny
from tests.parallel.eight_devices import ALONE, flat, make_mesh

pytestmark = pytest.mark.usefixtures('quick_compilation')

CONFIG = dataclasses.replace(
    tiny.CONFIG,
    qkv_bias=True,
    qk_norm=True,
    post_norms=True,
    layer_types=[SLIDING, FULL],
    sliding_window=5,
    rope_local_theta=100.0,
    tie_embeddings=False,
    **tiny.EXPERTS,
)


@functools.cache
def gradients(shape):
  """Flat arrays: of a loss that every parameter acts on."""
  module = transformer.Transformer(CONFIG, scan_layers=True, remat='full')
  shapes = jax.eval_shape(
      lambda: transformer.init_params(module, jax.random.key(0))
  )
  rng = np.random.default_rng(0)
  params = jax.tree.map(
      lambda x: rng.normal(0, 0.3, x.shape).astype(np.float32), shapes
  )
  tokens = rng.integers(0, CONFIG.vocab_size, (4, 16)).astype(np.int32)
  positions = np.tile(np.arange(16, dtype=np.int32), (4, 1))

  def loss(params, tokens, positions):
    variables = {'params': params}
    hidden = module.apply(variables, tokens, positions).hidden
    logprobs, entropy = mesh_logprob.from_hidden(
        hidden, module, params, tokens, positions
    )
    return jnp.mean(logprobs + jnp.sin(entropy))

  mesh = make_mesh(shape)
  placed = sharding.infer_shardings(params, mesh, sharding.DECODER_RULES)
  batch = NamedSharding(mesh, sharding.TOKENS)
  gradient = jax.jit(
      sharding.on_mesh(jax.grad(loss), mesh),
      in_shardings=(placed, batch, batch),
      out_shardings=placed,
  )(params, tokens, positions)
  return flat(gradient)


@pytest.mark.slow
@pytest.mark.parametrize('mesh', ['2x2x2x1', '1x2x2x2'])
def test_any_mesh_gives_the_same_gradients(mesh):
  alone, actual = gradients(ALONE), gradients(mesh)
  assert len(alone) > 15
  for name, expected in alone.items():
    assert np.abs(expected).max() > 1e-6, name  # it acts on the loss
    np.testing.assert_allclose(
        actual[name], expected, rtol=1e-4, atol=1e-6, err_msg=name
    )
