"""Small random models of transformers, the reference networks of the tests."""

import numpy as np
import pytest

SIZES = dict(
    vocab_size=61,
    hidden_size=32,
    intermediate_size=40,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
)
# Name -> class of its config, and what it changes of SIZES. Windows are shorter
# than the rows of the tests, and scalings begin before these end.
MODELS = {
    'llama3': (
        'LlamaConfig',
        dict(
            head_dim=20,
            rope_scaling=dict(
                rope_type='llama3',
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=16,
            ),
        ),
    ),
    'llama, linear': (
        'LlamaConfig',
        dict(rope_scaling=dict(type='linear', factor=2.5), num_hidden_layers=2),
    ),
    'llama, biases': (
        'LlamaConfig',
        dict(attention_bias=True, mlp_bias=True, hidden_act='swish'),
    ),
    'llama, dynamic': (
        'LlamaConfig',
        dict(
            rope_scaling=dict(type='dynamic', factor=2.0), num_hidden_layers=2
        ),
    ),
    'qwen2': ('Qwen2Config', dict(tie_word_embeddings=True)),
    'qwen2, yarn': (
        'Qwen2Config',
        dict(
            rope_scaling=dict(
                type='yarn', factor=4.0, original_max_position_embeddings=16
            ),
        ),
    ),
    'qwen2, windows': (
        'Qwen2Config',
        dict(use_sliding_window=True, sliding_window=5, max_window_layers=1),
    ),
    'qwen3': (
        'Qwen3Config',
        dict(
            head_dim=12,
            num_attention_heads=6,
            num_key_value_heads=3,
            tie_word_embeddings=True,
        ),
    ),
    'qwen3, windows': (
        'Qwen3Config',
        dict(
            head_dim=6,
            use_sliding_window=True,
            sliding_window=7,
            layer_types=[
                'sliding_attention',
                'full_attention',
                'sliding_attention',
            ],
        ),
    ),
    'smollm3': ('SmolLM3Config', dict(no_rope_layer_interval=2)),
    'smollm3, mlp_bias': (
        'SmolLM3Config',
        dict(mlp_bias=True, num_attention_heads=8, num_key_value_heads=None),
    ),
    'smollm3, yarn': (
        'SmolLM3Config',
        dict(
            no_rope_layers=[0, 1, 1],
            tie_word_embeddings=False,
            use_sliding_window=True,
            sliding_window=9,
            rope_parameters=dict(
                rope_type='yarn',
                rope_theta=5e5,
                factor=2.0,
                original_max_position_embeddings=24,
                beta_fast=16.0,
            ),
        ),
    ),
    'gemma3': (
        'Gemma3TextConfig',
        dict(
            head_dim=12,
            num_key_value_heads=1,
            query_pre_attn_scalar=21,
            sliding_window=4,
            sliding_window_pattern=3,
            rope_scaling=dict(rope_type='linear', factor=8.0),
            num_hidden_layers=4,
        ),
    ),
    'gemma3, untied': (
        'Gemma3TextConfig',
        dict(
            head_dim=10,
            sliding_window=6,
            layer_types=['full_attention', 'sliding_attention'],
            num_hidden_layers=2,
            rope_parameters=dict(
                full_attention=dict(rope_type='default', rope_theta=1e5),
                sliding_attention=dict(rope_type='default', rope_theta=300.0),
            ),
            tie_word_embeddings=False,
        ),
    ),
    'qwen3_moe': (
        'Qwen3MoeConfig',
        dict(
            head_dim=10,
            num_experts=5,
            num_experts_per_tok=2,
            moe_intermediate_size=12,  # torch wants a multiple of 4
            norm_topk_prob=True,
        ),
    ),
    'qwen3_moe, biases': (
        'Qwen3MoeConfig',
        dict(
            attention_bias=True,
            num_hidden_layers=2,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=8,
        ),
    ),
    'qwen3_moe, weights as they are': (
        'Qwen3MoeConfig',
        dict(
            head_dim=8,
            num_hidden_layers=2,
            num_experts=4,
            num_experts_per_tok=3,
            moe_intermediate_size=20,
            norm_topk_prob=False,
            tie_word_embeddings=True,
        ),
    ),
}


def make(name):
  """A transformers model whose every tensor is random, norms and biases too.

  Skips the test where torch, the reference, is not installed.
  """
  torch = pytest.importorskip('torch', reason='torch is the reference network')
  torch.set_num_threads(1)  # more of them spin against jax's
  transformers = pytest.importorskip('transformers')
  kind, changes = MODELS[name]
  fields = SIZES | dict(pad_token_id=None) | changes
  torch.manual_seed(0)
  model = transformers.AutoModelForCausalLM.from_config(
      getattr(transformers, kind)(**fields)
  )
  randomise(model)
  return model


def randomise(model):
  import torch

  model.float().eval()
  # Gemma adds 1 to the scales of its norms.
  centre = 0.0 if 'gemma' in model.config.model_type else 1.0
  with torch.no_grad():
    for name, value in model.named_parameters():
      if 'norm' in name:
        value.uniform_(centre - 0.5, centre + 0.5)
      else:
        value.normal_(0, 0.3)


def logits(model, tokens):
  import torch

  with torch.no_grad():
    out = model(torch.tensor(np.asarray(tokens), dtype=torch.long))
  return out.logits.numpy()
