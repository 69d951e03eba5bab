"""What decoders of other families add computes the same on any mesh."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding

from agentrl.models import mesh_logprob, transformer
from agentrl.models.config import (
    ALL_HEADS,
    EACH_HEAD,
    FULL,
    LINEAR,
    ROTATED,
    SLIDING,
)
from agentrl.parallel import sharding
from tests import tiny
from tests.parallel.eight_devices import ALONE, flat, make_mesh

pytestmark = pytest.mark.usefixtures('quick_compilation')

CONFIGS = {
    'Gemma, Qwen': dataclasses.replace(
        tiny.CONFIG,
        qkv_bias=True,
        qk_norm=EACH_HEAD,
        post_norms=True,
        layer_types=[SLIDING, FULL],
        sliding_window=5,
        rope_local_theta=100.0,
        tie_embeddings=False,
        shared_expert_size=12,
        **tiny.EXPERTS,
    ),
    'OLMo, GLM, Granite, Ministral': dataclasses.replace(
        tiny.CONFIG,
        qk_norm=ALL_HEADS,
        pre_norms=False,
        post_norms=True,
        partial_rotary_factor=0.5,
        rope_interleaved=True,
        rope_scaling=dict(
            kind='yarn', factor=2.0, original_max_positions=4, query_beta=0.5
        ),
        embedding_multiplier=3.0,
        residual_multiplier=0.5,
        attention_multiplier=0.4,
        logits_scaling=0.5,
    ),
    'HunYuan': dataclasses.replace(tiny.CONFIG, qk_norm=ROTATED),
    'Gemma 4': dataclasses.replace(tiny.CONFIG, **tiny.GEMMA4),
    'Qwen3.5': dataclasses.replace(
        tiny.CONFIG,
        layer_types=[LINEAR, FULL],
        attention_gate=True,
        norm_offset=1.0,
        **tiny.LINEAR,
    ),
}


@functools.cache
def gradients(name, shape):
  """Flat arrays: of a loss that every parameter acts on."""
  config = CONFIGS[name]
  module = transformer.Transformer(config, scan_layers=True, remat='full')
  shapes = jax.eval_shape(
      lambda: transformer.init_params(module, jax.random.key(0))
  )
  rng = np.random.default_rng(0)
  params = jax.tree.map(
      lambda x: rng.normal(0, 0.3, x.shape).astype(np.float32), shapes
  )
  tokens = rng.integers(0, config.vocab_size, (4, 16)).astype(np.int32)
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
@pytest.mark.parametrize(
    'name, mesh',
    [
        (name, mesh)
        for name in CONFIGS
        for mesh in ('2x2x2x1', '1x2x2x2')
        # Linear attention goes through the tokens of a row in their order.
        if mesh.endswith('1') or name != 'Qwen3.5'
    ],
)
def test_any_mesh_gives_the_same_gradients(name, mesh):
  alone, actual = gradients(name, ALONE), gradients(name, mesh)
  assert len(alone) > 10
  for path, expected in alone.items():
    trained = not path.endswith('/scalar')
    assert (
        np.abs(expected).max() > 1e-6
    ) == trained, path  # it acts on the loss
    np.testing.assert_allclose(
        actual[path], expected, rtol=1e-4, atol=1e-6, err_msg=path
    )
