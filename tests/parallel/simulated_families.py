r"""Gradients of a decoder with every feature on meshes of simulated devices.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 \
        python -m tests.parallel.simulated_families OUT.npz
"""

import dataclasses
import math
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from agentrl.models import mesh_logprob, transformer
from agentrl.models.config import FULL, SLIDING
from agentrl.parallel import sharding
from agentrl.parallel.mesh import AXES, make_mesh
from tests import tiny

# Devices along each axis; the first is what the others must equal.
MESHES = ((1, 1, 1, 1), (2, 2, 2, 1), (1, 2, 2, 2))
CONFIG = dataclasses.replace(
    tiny.CONFIG,
    qkv_bias=True,
    qk_norm=True,
    post_norms=True,
    layer_types=[SLIDING, FULL],
    sliding_window=5,
    rope_local_theta=100.0,
    tie_embeddings=False,
    num_experts=4,
    num_experts_per_token=2,
    moe_intermediate_size=8,
)


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

  mesh = make_mesh(
      dict(zip(AXES, shape, strict=True)), jax.devices()[: math.prod(shape)]
  )
  placed = sharding.infer_shardings(params, mesh, sharding.DECODER_RULES)
  batch = NamedSharding(mesh, sharding.TOKENS)
  gradient = jax.jit(
      sharding.on_mesh(jax.grad(loss), mesh),
      in_shardings=(placed, batch, batch),
      out_shardings=placed,
  )(params, tokens, positions)
  return {
      jax.tree_util.keystr(path): np.asarray(leaf)
      for path, leaf in jax.tree_util.tree_leaves_with_path(gradient)
  }


def main(path):
  jax.config.update('jax_disable_most_optimizations', True)
  assert jax.device_count() == 8
  arrays = {}
  for shape in MESHES:
    for name, value in gradients(shape).items():
      arrays[f'{"x".join(map(str, shape))}/{name}'] = value
  np.savez(path, **arrays)


if __name__ == '__main__':
  main(sys.argv[1])
