"""Shapes of known models, by the names that configs use.

Those of published models are those of their config.json. Base and instruct
models of one name have one shape but for Qwen2.5's `max_positions`, which are
those of the base models here. Only the tiny ones start from random weights; the
weights of the others come with their files.
"""

import dataclasses
import functools
from typing import Any

from agentrl.models.config import (
    ALL_HEADS,
    CONV,
    EACH_HEAD,
    FULL,
    LINEAR,
    SLIDING,
    TransformerConfig,
)
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
      qk_norm=EACH_HEAD,
      **sizes,
  )


def _qwen3_5(num_layers: int, **sizes: Any) -> TransformerConfig:
  sizes = {'family': 'qwen3_5_text', 'vocab_size': 248320, **sizes}
  return TransformerConfig(
      num_layers=num_layers,
      layer_types=tuple(
          LINEAR if (i + 1) % 4 else FULL for i in range(num_layers)
      ),
      head_dim=256,
      rope_theta=10000000.0,
      partial_rotary_factor=0.25,
      rms_norm_eps=1e-6,
      max_positions=262144,
      qk_norm=EACH_HEAD,
      norm_offset=1.0,
      attention_gate=True,
      linear_kernel=4,
      linear_key_heads=16,
      linear_key_dim=128,
      linear_value_dim=128,
      **sizes,
  )


def _lfm2(**sizes: Any) -> TransformerConfig:
  return TransformerConfig(
      family='lfm2',
      vocab_size=65536,
      num_layers=16,
      layer_types=tuple(
          FULL if i in (2, 5, 8, 10, 12, 14) else CONV for i in range(16)
      ),
      num_kv_heads=8,
      head_dim=64,
      rope_theta=1000000.0,
      max_positions=128000,
      qk_norm=EACH_HEAD,
      conv_kernel=3,
      **sizes,
  )


def _gpt_oss(**changes):
  layers = changes['num_layers']
  return TransformerConfig(
      family='gpt_oss',
      vocab_size=201088,
      hidden_size=2880,
      intermediate_size=2880,
      num_heads=64,
      num_kv_heads=8,
      head_dim=64,
      rope_theta=150000.0,
      tie_embeddings=False,
      max_positions=131072,
      rope_scaling=Scaling(
          'yarn',
          factor=32.0,
          original_max_positions=4096,
          truncate=False,
      ),
      sliding_window=128,
      layer_types=[(SLIDING, FULL)[i % 2] for i in range(layers)],
      qkv_bias=True,
      o_bias=True,
      mlp_bias=True,
      attention_sinks=True,
      num_experts_per_token=4,
      moe_intermediate_size=2880,
      norm_topk_prob=True,
      glu_limit=7.0,
      **changes,
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
      qk_norm=EACH_HEAD,
      post_norms=True,
      norm_offset=1.0,
      scale_embeddings=True,
      hidden_act='gelu_pytorch_tanh',
      **sizes,
  )


def _gemma4(
    num_layers: int, full_every: int, **sizes: Any
) -> TransformerConfig:
  sizes = {'family': 'gemma4_text', **sizes}
  return TransformerConfig(
      vocab_size=262144,
      num_layers=num_layers,
      layer_types=tuple(
          SLIDING if (i + 1) % full_every else FULL for i in range(num_layers)
      ),
      head_dim=256,
      full_head_dim=512,
      rope_theta=1000000.0,
      rope_local_theta=10000.0,
      rope_scaling=Scaling('proportional', factor=1.0, rotated_part=0.25),
      rms_norm_eps=1e-6,
      qk_norm=EACH_HEAD,
      value_norm=True,
      attention_multiplier=1.0,
      post_norms=True,
      scale_embeddings=True,
      layer_scalars=True,
      logits_softcap=30.0,
      hidden_act='gelu_pytorch_tanh',
      **sizes,
  )


def _mistral(**sizes: Any) -> TransformerConfig:
  sizes = {'family': 'mistral', 'rope_theta': 1000000.0, **sizes}
  return TransformerConfig(num_heads=32, num_kv_heads=8, head_dim=128, **sizes)


def _ministral3(**sizes: Any) -> TransformerConfig:
  scaling = Scaling(
      'yarn',
      factor=16.0,
      original_max_positions=16384,
      mscale=1.0,
      mscale_all_dim=1.0,
      query_beta=0.1,
  )
  return _mistral(
      family='ministral3',
      vocab_size=131072,
      max_positions=262144,
      rope_scaling=scaling,
      **sizes,
  )


def _granite3(**sizes: Any) -> TransformerConfig:
  return TransformerConfig(
      family='granite',
      vocab_size=49159,
      num_layers=40,
      num_heads=32,
      num_kv_heads=8,
      rope_theta=10000000.0,
      max_positions=131072,
      embedding_multiplier=12.0,
      residual_multiplier=0.22,
      **sizes,
  )


def _olmo(**sizes: Any) -> TransformerConfig:
  sizes = {
      'family': 'olmo2',
      'vocab_size': 100352,
      'max_positions': 4096,
      'num_kv_heads': sizes['num_heads'],
      **sizes,
  }
  return TransformerConfig(
      head_dim=128,
      rope_theta=500000.0,
      rms_norm_eps=1e-6,
      tie_embeddings=False,
      qk_norm=ALL_HEADS,
      pre_norms=False,
      post_norms=True,
      **sizes,
  )


def _olmo3(num_layers: int, **sizes: Any) -> TransformerConfig:
  scaling = Scaling(
      'yarn',
      factor=8.0,
      original_max_positions=8192,
      attention_factor=1.2079441541679836,
  )
  return _olmo(
      family='olmo3',
      vocab_size=100278,
      num_layers=num_layers,
      max_positions=65536,
      sliding_window=4096,
      layer_types=tuple(
          SLIDING if (i + 1) % 4 else FULL for i in range(num_layers)
      ),
      rope_scaling=scaling,
      rope_local_theta=500000.0,
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
    'qwen3.5-0.8b': _qwen3_5(
        hidden_size=1024,
        intermediate_size=3584,
        num_layers=24,
        num_heads=8,
        num_kv_heads=2,
        linear_value_heads=16,
    ),
    'qwen3.5-2b': _qwen3_5(
        hidden_size=2048,
        intermediate_size=6144,
        num_layers=24,
        num_heads=8,
        num_kv_heads=2,
        linear_value_heads=16,
    ),
    'qwen3.5-9b': _qwen3_5(
        hidden_size=4096,
        intermediate_size=12288,
        num_layers=32,
        num_heads=16,
        num_kv_heads=4,
        linear_value_heads=32,
        tie_embeddings=False,
    ),
    'qwen3.5-35b-a3b': _qwen3_5(
        family='qwen3_5_moe_text',
        hidden_size=2048,
        intermediate_size=512,  # of no layer
        num_layers=40,
        num_heads=16,
        num_kv_heads=2,
        linear_value_heads=32,
        num_experts=256,
        num_experts_per_token=8,
        moe_intermediate_size=512,
        shared_expert_size=512,
        norm_topk_prob=True,
        tie_embeddings=False,
    ),
    'qwen3-next-80b-a3b': _qwen3_5(
        family='qwen3_next',
        vocab_size=151936,
        hidden_size=2048,
        intermediate_size=5120,  # of no layer
        num_layers=48,
        num_heads=16,
        num_kv_heads=2,
        linear_value_heads=32,
        num_experts=512,
        num_experts_per_token=10,
        moe_intermediate_size=512,
        shared_expert_size=512,
        norm_topk_prob=True,
        tie_embeddings=False,
    ),
    'lfm2-350m': _lfm2(hidden_size=1024, intermediate_size=4608, num_heads=16),
    'lfm2-1.2b': _lfm2(hidden_size=2048, intermediate_size=8192, num_heads=32),
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
    'gemma4-e2b': _gemma4(
        num_layers=35,
        full_every=5,
        hidden_size=1536,
        intermediate_size=6144,
        num_heads=8,
        num_kv_heads=1,
        kv_shared_layers=20,
        kv_shared_wide_mlp=True,
        layer_inputs=256,
        sliding_window=512,
        max_positions=131072,
    ),
    'gemma4-e4b': _gemma4(
        num_layers=42,
        full_every=6,
        hidden_size=2560,
        intermediate_size=10240,
        num_heads=8,
        num_kv_heads=2,
        kv_shared_layers=18,
        layer_inputs=256,
        sliding_window=512,
        max_positions=131072,
    ),
    'gemma4-12b': _gemma4(
        family='gemma4_unified_text',
        num_layers=48,
        full_every=6,
        hidden_size=3840,
        intermediate_size=15360,
        num_heads=16,
        num_kv_heads=8,
        full_kv_heads=1,
        full_tied_values=True,
        sliding_window=1024,
        max_positions=262144,
    ),
    'gemma4-31b': _gemma4(
        num_layers=60,
        full_every=6,
        hidden_size=5376,
        intermediate_size=21504,
        num_heads=32,
        num_kv_heads=16,
        full_kv_heads=4,
        full_tied_values=True,
        sliding_window=1024,
        max_positions=262144,
    ),
    'gpt-oss-20b': _gpt_oss(num_layers=24, num_experts=32),
    'gpt-oss-120b': _gpt_oss(num_layers=36, num_experts=128),
    'mistral-7b-v0.3': _mistral(
        vocab_size=32768,
        hidden_size=4096,
        intermediate_size=14336,
        num_layers=32,
        tie_embeddings=False,
        max_positions=32768,
    ),
    'mistral-nemo-12b': _mistral(
        vocab_size=131072,
        hidden_size=5120,
        intermediate_size=14336,
        num_layers=40,
        tie_embeddings=False,
        max_positions=131072,
    ),
    'ministral3-3b': _ministral3(
        hidden_size=3072,
        intermediate_size=9216,
        num_layers=26,
    ),
    'ministral3-8b': _ministral3(
        hidden_size=4096,
        intermediate_size=14336,
        num_layers=34,
        tie_embeddings=False,
    ),
    'seed-oss-36b': TransformerConfig(
        family='seed_oss',
        vocab_size=155136,
        hidden_size=5120,
        intermediate_size=27648,
        num_layers=64,
        num_heads=80,
        num_kv_heads=8,
        head_dim=128,
        rope_theta=10000000.0,
        rms_norm_eps=1e-6,
        tie_embeddings=False,
        max_positions=524288,
        qkv_bias=True,
    ),
    'granite3.3-2b': _granite3(
        hidden_size=2048,
        intermediate_size=8192,
        head_dim=64,
        attention_multiplier=0.015625,
        logits_scaling=8.0,
    ),
    'granite3.3-8b': _granite3(
        hidden_size=4096,
        intermediate_size=12800,
        head_dim=128,
        attention_multiplier=0.0078125,
        logits_scaling=16.0,
    ),
    'olmo2-1b': _olmo(
        hidden_size=2048,
        intermediate_size=8192,
        num_layers=16,
        num_heads=16,
    ),
    'olmo2-7b': _olmo(
        hidden_size=4096,
        intermediate_size=11008,
        num_layers=32,
        num_heads=32,
    ),
    'olmo3-7b': _olmo3(
        hidden_size=4096,
        intermediate_size=11008,
        num_layers=32,
        num_heads=32,
    ),
    'olmo3-32b': _olmo3(
        hidden_size=5120,
        intermediate_size=27648,
        num_layers=64,
        num_heads=40,
        num_kv_heads=8,
    ),
    'glm4-9b': TransformerConfig(
        family='glm4',
        vocab_size=151552,
        hidden_size=4096,
        intermediate_size=13696,
        num_layers=40,
        num_heads=32,
        num_kv_heads=2,
        head_dim=128,
        partial_rotary_factor=0.5,
        rope_interleaved=True,
        tie_embeddings=False,
        max_positions=32768,
        qkv_bias=True,
        post_norms=True,
    ),
    'phi4-14b': TransformerConfig(
        family='phi3',
        vocab_size=100352,
        hidden_size=5120,
        intermediate_size=17920,
        num_layers=40,
        num_heads=40,
        num_kv_heads=10,
        head_dim=128,
        rope_theta=250000.0,
        tie_embeddings=False,
        max_positions=16384,
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
