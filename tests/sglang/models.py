"""Small random models of each family, as the files that servers load."""

import functools
import pathlib

import jax
import numpy as np

from agentrl.models.config import (
    ALL_HEADS,
    CONV,
    EACH_HEAD,
    FULL,
    SLIDING,
    TransformerConfig,
)
from agentrl.models.rotary import Scaling
from agentrl.text import template, tokenizer as tokenizer_lib
from agentrl.weights import hf, names
from tests import tiny

_SHAPE = dict(
    vocab_size=512,
    hidden_size=128,
    intermediate_size=256,
    num_layers=3,
    num_heads=4,
    num_kv_heads=2,
    head_dim=32,
    max_positions=1024,
)
# What sets a family apart, beside the shape that all share.
FAMILIES = {
    'llama': {},
    'qwen2': dict(qkv_bias=True),
    'qwen3': dict(qk_norm=True),
    'qwen3_moe': dict(
        qk_norm=True,
        tie_embeddings=False,  # SGLang has an output of its own, whatever is said
        num_experts=4,
        num_experts_per_token=2,
        moe_intermediate_size=64,
        norm_topk_prob=True,
    ),
    'smollm3': dict(rope_layers=(True, True, False)),
    'gemma3_text': dict(
        **tiny.GEMMA,
        sliding_window=64,
        layer_types=(SLIDING, SLIDING, FULL),
        rope_theta=1e6,
        rope_local_theta=1e4,
        query_pre_attn_scalar=32,
    ),
    'mistral': {},
    'granite': dict(
        embedding_multiplier=3.0,
        residual_multiplier=0.5,
        attention_multiplier=0.2,
        logits_scaling=0.5,
    ),
    'olmo2': dict(
        qk_norm=ALL_HEADS,
        pre_norms=False,
        post_norms=True,
        tie_embeddings=False,
    ),
    'phi3': dict(tie_embeddings=False),
    'glm4': dict(
        qkv_bias=True,
        partial_rotary_factor=0.5,
        rope_interleaved=True,
        post_norms=True,
        tie_embeddings=False,
    ),
    'olmo3': dict(
        qk_norm=ALL_HEADS,
        pre_norms=False,
        post_norms=True,
        tie_embeddings=False,
        layer_types=(SLIDING, SLIDING, FULL),
        sliding_window=64,
        rope_theta=500000.0,
        rope_local_theta=500000.0,
        rope_scaling=Scaling(
            'yarn',
            factor=8.0,
            original_max_positions=32,
            attention_factor=1.2079441541679836,
        ),
    ),
    'ministral3': dict(
        max_positions=262144,
        rope_scaling=Scaling(
            'yarn',
            factor=16.0,
            original_max_positions=16384,
            mscale=1.0,
            mscale_all_dim=1.0,
            query_beta=0.1,
        ),
    ),
    'seed_oss': dict(qkv_bias=True, tie_embeddings=False),
}
# Those whose layers are Triton's kernels for GPUs.
TRITON = {
    'lfm2': dict(
        qk_norm=EACH_HEAD,
        layer_types=(CONV, FULL, CONV),
        conv_kernel=3,
    ),
}


def config_of(family: str) -> TransformerConfig:
  own = (FAMILIES | TRITON)[family]
  return TransformerConfig(family=family, **_SHAPE | own)


def params_of(config: TransformerConfig, seed: int = 0):
  """Host arrays whose distributions are far from flat and from certain."""
  rng = np.random.default_rng(seed)

  def draw(path, leaf):
    centre = 0.0
    if path[-1].key == 'scale':
      centre, width = 1.0 - config.norm_offset, 0.1
    elif path[-1].key == 'embed':  # it is the output as well
      width = 0.15
    else:  # so that sizes stay
      width = leaf.shape[-2] ** -0.5
    return rng.normal(centre, width, leaf.shape).astype(np.float32)

  return jax.tree_util.tree_map_with_path(
      draw, names.shapes(config, np.float32)
  )


@functools.cache
def tokenizer() -> tokenizer_lib.Tokenizer:
  words = [
      'the agent goes to the red ball',
      'turn left, then right; 0123456789',
  ]
  plain = tokenizer_lib.train_bpe(words, vocab_size=_SHAPE['vocab_size'])
  return plain.talking(template.CHATML, plain.eos_ids)


def export(directory: pathlib.Path, family: str, *, seed: int = 0):
  """Writes a model with its tokenizer; gives config and parameters."""
  config = config_of(family)
  params = params_of(config, seed)
  hf.save(
      directory,
      config,
      params,
      eos_ids=tokenizer().eos_ids,
      companions=[tokenizer().save],
  )
  return config, params
