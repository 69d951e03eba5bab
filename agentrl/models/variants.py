"""Shapes of known models, by the names that configs use.

Those of published models are those of their config.json. Base and instruct
models of one name have one shape but for Qwen2.5's `max_positions`, which are
those of the base models here. Only the tiny ones start from random weights; the
weights of the others come with their files.
"""

import dataclasses
import functools
from typing import Any

from agentrl.models.config import FULL, SLIDING, TransformerConfig
from agentrl.models.rotary import Scaling


def _smollm2(**sizes: Any) -> TransformerConfig:
  sizes = dict(rope_theta=100000.0) | sizes
  return TransformerConfig(
      vocab_size=49152, head_dim=64, max_positions=8192, **sizes
  )


def _llama3(**sizes: Any) -> TransformerConfig:
  sizes = dict(head_dim=128, tie_embeddings=False, max_positions=8192) | sizes
  return TransformerConfig(
      vocab_size=128256, num_kv_heads=8, rope_theta=500000.0, **sizes
  )


def _llama32(**sizes: Any) -> TransformerConfig:
  scaling = Scaling(
      'llama3',
      factor=32.0,
      original_max_positions=8192,
      low_freq_factor=1.0,
      high_freq_factor=4.0,
  )
  return _llama3(
      tie_embeddings=True, max_positions=131072, rope_scaling=scaling, **sizes
  )


def _qwen25(**sizes: Any) -> TransformerConfig:
  sizes = dict(head_dim=128, rms_norm_eps=1e-6, max_positions=131072) | sizes
  return TransformerConfig(
      family='qwen2', rope_theta=1000000.0, qkv_bias=True, **sizes
  )


_qwen25_small = functools.partial(_qwen25, vocab_size=151936)
_qwen25_large = functools.partial(
    _qwen25, vocab_size=152064, tie_embeddings=False
)


def _qwen3(**sizes: Any) -> TransformerConfig:
  sizes = {'family': 'qwen3', 'num_kv_heads': 8, **sizes}
  return TransformerConfig(
      vocab_size=151936,
      head_dim=128,
      rope_theta=1000000.0,
      rms_norm_eps=1e-6,
      max_positions=40960,
      qk_norm=True,
      **sizes,
  )


def _gemma3(num_layers: int, **sizes: Any) -> TransformerConfig:
  sizes = {
      'vocab_size': 262208,
      'head_dim': 256,
      'max_positions': 131072,
      'sliding_window': 1024,
      'query_pre_attn_scalar': 256,
      'rope_scaling': Scaling('linear', factor=8.0),
      **sizes,
  }
  return TransformerConfig(
      family='gemma3_text',
      num_layers=num_layers,
      layer_types=tuple(
          SLIDING if (i + 1) % 6 else FULL for i in range(num_layers)
      ),
      rope_theta=1000000.0,
      rope_local_theta=10000.0,
      rms_norm_eps=1e-6,
      qk_norm=True,
      post_norms=True,
      norm_offset=1.0,
      scale_embeddings=True,
      hidden_act='gelu_pytorch_tanh',
      **sizes,
  )


VARIANTS = {
    # For laptops and tests: trained from scratch in minutes.
    'tiny-1m': TransformerConfig(
        vocab_size=1024,
        hidden_size=128,
        intermediate_size=384,
        num_layers=4,
        num_heads=4,
        num_kv_heads=4,
        head_dim=32,
        max_positions=4096,
    ),
    # The shape of the benchmarks in experiments/README.md: 3,737,856.
    'tiny-4m': TransformerConfig(
        vocab_size=2048,
        hidden_size=256,
        intermediate_size=704,
        num_layers=4,
        num_heads=4,
        num_kv_heads=4,
        head_dim=64,
        max_positions=4096,
    ),
    'smollm2-135m': _smollm2(
        hidden_size=576,
        intermediate_size=1536,
        num_layers=30,
        num_heads=9,
        num_kv_heads=3,
    ),
    'smollm2-360m': _smollm2(
        hidden_size=960,
        intermediate_size=2560,
        num_layers=32,
        num_heads=15,
        num_kv_heads=5,
    ),
    'smollm2-1.7b': _smollm2(
        hidden_size=2048,
        intermediate_size=8192,
        num_layers=24,
        num_heads=32,
        num_kv_heads=32,
        rope_theta=130000.0,
    ),
    'smollm3-3b': TransformerConfig(
        family='smollm3',
        vocab_size=128256,
        hidden_size=2048,
        intermediate_size=11008,
        num_layers=36,
        num_heads=16,
        num_kv_heads=4,
        head_dim=128,
        rope_theta=5000000.0,
        rope_layers=tuple((i + 1) % 4 != 0 for i in range(36)),
        rms_norm_eps=1e-6,
        max_positions=65536,
    ),
    'llama3.2-1b': _llama32(
        hidden_size=2048,
        intermediate_size=8192,
        num_layers=16,
        num_heads=32,
        head_dim=64,
    ),
    'llama3.2-3b': _llama32(
        hidden_size=3072,
        intermediate_size=8192,
        num_layers=28,
        num_heads=24,
    ),
    'llama3-8b': _llama3(
        hidden_size=4096,
        intermediate_size=14336,
        num_layers=32,
        num_heads=32,
    ),
    'llama3-70b': _llama3(
        hidden_size=8192,
        intermediate_size=28672,
        num_layers=80,
        num_heads=64,
    ),
    'qwen2.5-0.5b': _qwen25_small(
        hidden_size=896,
        intermediate_size=4864,
        num_layers=24,
        num_heads=14,
        num_kv_heads=2,
        head_dim=64,
        max_positions=32768,
    ),
    'qwen2.5-1.5b': _qwen25_small(
        hidden_size=1536,
        intermediate_size=8960,
        num_layers=28,
        num_heads=12,
        num_kv_heads=2,
    ),
    'qwen2.5-3b': _qwen25_small(
        hidden_size=2048,
        intermediate_size=11008,
        num_layers=36,
        num_heads=16,
        num_kv_heads=2,
        max_positions=32768,
    ),
    'qwen2.5-7b': _qwen25_large(
        hidden_size=3584,
        intermediate_size=18944,
        num_layers=28,
        num_heads=28,
        num_kv_heads=4,
    ),
    'qwen2.5-14b': _qwen25_large(
        hidden_size=5120,
        intermediate_size=13824,
        num_layers=48,
        num_heads=40,
        num_kv_heads=8,
        rms_norm_eps=1e-05,
    ),
    'qwen2.5-32b': _qwen25_large(
        hidden_size=5120,
        intermediate_size=27648,
        num_layers=64,
        num_heads=40,
        num_kv_heads=8,
        rms_norm_eps=1e-05,
    ),
    'qwen2.5-72b': _qwen25_large(
        hidden_size=8192,
        intermediate_size=29568,
        num_layers=80,
        num_heads=64,
        num_kv_heads=8,
        rms_norm_eps=1e-05,
    ),
    'qwen3-0.6b': _qwen3(
        hidden_size=1024,
        intermediate_size=3072,
        num_layers=28,
        num_heads=16,
    ),
    'qwen3-1.7b': _qwen3(
        hidden_size=2048,
        intermediate_size=6144,
        num_layers=28,
        num_heads=16,
    ),
    'qwen3-4b': _qwen3(
        hidden_size=2560,
        intermediate_size=9728,
        num_layers=36,
        num_heads=32,
    ),
    'qwen3-8b': _qwen3(
        hidden_size=4096,
        intermediate_size=12288,
        num_layers=36,
        num_heads=32,
        tie_embeddings=False,
    ),
    'qwen3-14b': _qwen3(
        hidden_size=5120,
        intermediate_size=17408,
        num_layers=40,
        num_heads=40,
        tie_embeddings=False,
    ),
    'qwen3-32b': _qwen3(
        hidden_size=5120,
        intermediate_size=25600,
        num_layers=64,
        num_heads=64,
        tie_embeddings=False,
    ),
    'qwen3-30b-a3b': _qwen3(
        hidden_size=2048,
        intermediate_size=6144,
        num_layers=48,
        num_heads=32,
        num_kv_heads=4,
        tie_embeddings=False,
        family='qwen3_moe',
        num_experts=128,
        num_experts_per_token=8,
        moe_intermediate_size=768,
        norm_topk_prob=True,
    ),
    'gemma3-1b': _gemma3(
        vocab_size=262144,
        hidden_size=1152,
        intermediate_size=6912,
        num_layers=26,
        num_heads=4,
        num_kv_heads=1,
        max_positions=32768,
        sliding_window=512,
        rope_scaling=None,
    ),
    'gemma3-4b': _gemma3(
        hidden_size=2560,
        intermediate_size=10240,
        num_layers=34,
        num_heads=8,
        num_kv_heads=4,
    ),
    'gemma3-12b': _gemma3(
        hidden_size=3840,
        intermediate_size=15360,
        num_layers=48,
        num_heads=16,
        num_kv_heads=8,
    ),
    'gemma3-27b': _gemma3(
        hidden_size=5376,
        intermediate_size=21504,
        num_layers=62,
        num_heads=32,
        num_kv_heads=16,
        head_dim=128,
        query_pre_attn_scalar=168,
    ),
}


def get(name: str, vocab_size: int | None = None) -> TransformerConfig:
  """The shape called `name`, with as many rows of the embedding as asked for."""
  if name not in VARIANTS:
    raise ValueError(f'Unknown variant {name!r}; known: {", ".join(VARIANTS)}.')
  shape = VARIANTS[name]
  if vocab_size is None:
    return shape
  return dataclasses.replace(shape, vocab_size=vocab_size)
