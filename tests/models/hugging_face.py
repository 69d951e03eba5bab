"""Small random models of transformers, the reference networks of the tests."""

import copy
import itertools
import random

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

# Shapes of which random models are made: width, heads of queries, of keys.
_HEADS = [
    (24, 4, 2),
    (32, 4, 4),
    (40, 4, 1),
    (24, 2, 2),
    (48, 6, 3),
    (32, 8, 2),
]
_SCALINGS = [
    dict(rope_type='default'),
    dict(rope_type='linear', factor=2.5),
    dict(rope_type='dynamic', factor=2.0),
    dict(
        rope_type='yarn',
        factor=4.0,
        original_max_position_embeddings=16,
        beta_fast=4.0,
    ),
    dict(
        rope_type='llama3',
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=16,
    ),
]
_FLAG = [False, True]


def _scaled(*scalings, **others):
  """All rope_parameters with one of these scalings and an odd base."""
  return [
      scaling | dict(rope_theta=theta) | others
      for scaling in scalings or _SCALINGS
      for theta in (700.0, 1e4, 5e5)
  ]


def _by_kind():
  return [
      dict(full_attention=full, sliding_attention=sliding)
      for full in _scaled()
      for sliding in _scaled(_SCALINGS[0])
  ]


def _ministral3():
  keys = ('factor', 'original_max_position_embeddings', 'llama_4_scaling_beta')
  values = itertools.product((2.0, 16.0), (4, 16), (0.1, 0.7))
  return [
      scaled
      for some in values
      for scaled in _scaled(
          dict(rope_type='yarn', mscale=1.0, mscale_all_dim=1.0)
          | dict(zip(keys, some, strict=True))
      )
  ]


def _qwen3_5(fields, rng):
  """Layers of both kinds; sizes of heads that have nothing to do with others."""
  del fields
  count = rng.choice((2, 3, 4))
  kinds = {
      2: ('LF', 'FL'),
      3: ('LLF', 'LFF', 'FLL'),
      4: ('LFLF', 'LLLF', 'LLFF', 'FFFF'),
  }
  names = dict(L='linear_attention', F='full_attention')
  heads = rng.choice(((1, 1), (1, 2), (2, 4), (2, 2), (3, 3)))
  return dict(
      num_hidden_layers=count,
      layer_types=[names[x] for x in rng.choice(kinds[count])],
      linear_num_key_heads=heads[0],
      linear_num_value_heads=heads[1],
      head_dim=rng.choice((8, 16)),
      rope_parameters=dict(
          rope_type='default',
          rope_theta=rng.choice((700.0, 1e4, 5e5)),
          partial_rotary_factor=rng.choice((0.25, 0.5, 1.0)),
          mrope_section=rng.choice(([1, 1, 0], [2, 1, 1])),
          mrope_interleaved=True,
      ),
  )


def _qwen3_next(fields, rng):
  added = _qwen3_5(fields, rng)
  for name in ('mrope_section', 'mrope_interleaved'):
    del added['rope_parameters'][name]
  return added


def _lfm2(fields, rng):
  del fields['head_dim']
  fields['norm_eps'] = fields.pop('rms_norm_eps')
  count = rng.choice((2, 3, 4))
  return dict(
      num_hidden_layers=count,
      full_attn_idxs=rng.sample(range(count), rng.choice((1, 2))),
      rope_parameters=rng.choice(_scaled()),
  )


def _phi3(fields, rng):
  """Divisors as many as half of the rotated dimensions."""
  del fields['head_dim']  # transformers counts those of this size alone
  size = fields['hidden_size'] // fields['num_attention_heads']
  part = rng.choice((0.5, 1.0)) if size % 4 == 0 else 1.0
  rope = dict(rope_type='default', rope_theta=1e4)
  if rng.random() < 0.7:
    draw = lambda: [1 + 3 * rng.random() for _ in range(int(size * part) // 2)]
    rope |= dict(rope_type='longrope', short_factor=draw(), long_factor=draw())
  return dict(
      partial_rotary_factor=part,
      original_max_position_embeddings=64,
      max_position_embeddings=rng.choice((64, 256)),
      rope_parameters=rope,
  )


def _gemma4(fields, rng):
  """Layers of two shapes, of which the last may read the keys of others."""
  count, shared = rng.choice(((1, 0), (2, 0), (4, 0), (4, 1), (5, 2), (6, 2)))
  kinds = {1: 'F', 2: 'SF', 4: 'SFSF', 5: 'SSFSF', 6: 'SFSFSF'}
  if count == 4 and rng.random() < 0.3:
    kinds[4] = 'FFFF'
  names = dict(S='sliding_attention', F='full_attention')
  heads = fields['num_attention_heads']
  # Transformers runs such models of this family with inputs to their layers alone.
  if shared and 'hidden_size_per_layer_input' in fields:
    fields['hidden_size_per_layer_input'] = rng.choice((4, 6))
  part = rng.choice((0.3, 0.5, 0.7))
  return dict(
      num_hidden_layers=count,
      num_kv_shared_layers=shared,
      layer_types=[names[x] for x in kinds[count]],
      num_global_key_value_heads=rng.choice((None, 1, heads)),
      rope_parameters=dict(
          full_attention=rng.choice(
              _scaled(
                  *(_SCALINGS[1], _SCALINGS[3]),
                  dict(rope_type='proportional', factor=2.0),
                  dict(rope_type='proportional', partial_rotary_factor=part),
                  dict(rope_type='proportional', partial_rotary_factor=0.25),
              )
          ),
          sliding_attention=rng.choice(_scaled(_SCALINGS[0])),
      ),
  )


_LINEAR = dict(
    linear_conv_kernel_dim=[2, 3, 4],
    linear_key_head_dim=[4, 6],
    linear_value_head_dim=[4, 8],
)
_SHARED_EXPERT = dict(
    num_experts=[2, 5],
    num_experts_per_tok=[1, 2],
    moe_intermediate_size=[8, 12],  # torch wants a multiple of 4
    shared_expert_intermediate_size=[8, 20],
)
# Family -> class of its config, and choices of its fields; a function adds those
# that hang together.
FAMILIES = {
    'mistral': (
        'MistralConfig',
        dict(sliding_window=[None, 3, 7, 100], rope_parameters=_scaled()),
    ),
    'ministral3': (
        'Ministral3Config',
        dict(sliding_window=[None, 5], rope_parameters=_ministral3()),
    ),
    'seed_oss': (
        'SeedOssConfig',
        dict(
            attention_bias=_FLAG,
            attention_out_bias=_FLAG,
            mlp_bias=_FLAG,
            rope_parameters=_scaled(),
        ),
    ),
    'granite': (
        'GraniteConfig',
        dict(
            attention_bias=_FLAG,
            mlp_bias=_FLAG,
            embedding_multiplier=[12, 0.7],
            residual_multiplier=[0.22, 1.0, 1.5],
            attention_multiplier=[0.015625, 0.3],
            logits_scaling=[2.0, 0.3],
            rope_parameters=_scaled(),
        ),
    ),
    'hunyuan_v1_dense': (
        'HunYuanDenseV1Config',
        dict(
            attention_bias=_FLAG,
            rope_parameters=_scaled(
                dict(rope_type='dynamic', factor=1.0, alpha=1000.0),
                dict(rope_type='dynamic', factor=1.0, alpha=3.0),
                *_SCALINGS,
            ),
        ),
    ),
    'olmo2': (
        'Olmo2Config',
        dict(attention_bias=_FLAG, rope_parameters=_scaled()),
    ),
    'olmo3': (
        'Olmo3Config',
        dict(
            attention_bias=_FLAG,
            sliding_window=[4, 9],
            num_hidden_layers=[2, 4],
            rope_parameters=_by_kind(),
        ),
    ),
    'glm4': (
        'Glm4Config',
        dict(
            attention_bias=_FLAG,
            head_dim=[8, 16],
            partial_rotary_factor=[0.25, 0.5, 0.75, 1.0],
            rope_parameters=_scaled(),
        ),
    ),
    'phi3': ('Phi3Config', dict(sliding_window=[None, 6]), _phi3),
    'qwen3_5_text': (
        'Qwen3_5TextConfig',
        dict(attention_bias=_FLAG, **_LINEAR),
        _qwen3_5,
    ),
    'qwen3_5_moe_text': (
        'Qwen3_5MoeTextConfig',
        dict(attention_bias=_FLAG, **_LINEAR, **_SHARED_EXPERT),
        _qwen3_5,
    ),
    'qwen3_next': (
        'Qwen3NextConfig',
        dict(
            attention_bias=_FLAG,
            norm_topk_prob=_FLAG,
            **_LINEAR,
            **_SHARED_EXPERT,
        ),
        _qwen3_next,
    ),
    'lfm2': (
        'Lfm2Config',
        dict(
            conv_L_cache=[2, 3, 4],
            block_auto_adjust_ff_dim=_FLAG,
            block_multiple_of=[4, 16],
            block_ffn_dim_multiplier=[0.7, 1.0],
        ),
        _lfm2,
    ),
    'gemma4_text': (
        'Gemma4TextConfig',
        dict(
            attention_bias=_FLAG,
            attention_k_eq_v=_FLAG,
            global_head_dim=[8, 12],
            sliding_window=[4, 9],
            use_double_wide_mlp=_FLAG,
            hidden_size_per_layer_input=[0, 4, 6],
            final_logit_softcapping=[None, 3.0, 30.0],
        ),
        _gemma4,
    ),
    'gemma4_unified_text': (
        'Gemma4UnifiedTextConfig',
        dict(
            attention_bias=_FLAG,
            attention_k_eq_v=_FLAG,
            global_head_dim=[8, 12],
            sliding_window=[4, 9],
            use_double_wide_mlp=_FLAG,
            final_logit_softcapping=[None, 3.0, 30.0],
        ),
        _gemma4,
    ),
    'gpt_oss': (
        'GptOssConfig',
        dict(
            attention_bias=_FLAG,
            sliding_window=[4, 9],
            num_local_experts=[2, 5],
            num_experts_per_tok=[1, 2],
            swiglu_limit=[7.0, 0.5],
            rope_parameters=_scaled(),
        ),
    ),
}
# The one of each that is in the default run: few layers, many of its features.
DEFAULT = {
    'mistral': 'mistral 2',
    'ministral3': 'ministral3 6',
    'seed_oss': 'seed_oss 9',
    'granite': 'granite 6',
    'hunyuan_v1_dense': 'hunyuan_v1_dense 4',
    'olmo2': 'olmo2 4',
    'olmo3': 'olmo3 7',
    'glm4': 'glm4 1',
    'phi3': 'phi3 1',
    'gpt_oss': 'gpt_oss 1',
    'qwen3_5_text': 'qwen3_5_text 1',
    'qwen3_5_moe_text': 'qwen3_5_moe_text 1',
    'qwen3_next': 'qwen3_next 1',
    'lfm2': 'lfm2 1',
    'gemma4_text': 'gemma4_text 1',
    'gemma4_unified_text': 'gemma4_unified_text 1',
}
RANDOM = [f'{family} {seed}' for family in FAMILIES for seed in range(10)]


def _draw(name):
  """Class of the config and changes of SIZES of a random model."""
  rng = random.Random(name)
  kind, choices, *more = FAMILIES[name.rsplit(' ')[0]]
  width, heads, kv_heads = rng.choice(_HEADS)
  fields = dict(
      hidden_size=width,
      num_attention_heads=heads,
      num_key_value_heads=kv_heads,
      head_dim=rng.choice((6, 8, 10)),
      intermediate_size=rng.choice((36, 52)),
      num_hidden_layers=rng.choice((1, 2, 3)),
      rms_norm_eps=rng.choice((1e-6, 1e-5, 1e-2)),
      tie_word_embeddings=rng.choice(_FLAG),
  )
  fields |= {field: rng.choice(some) for field, some in choices.items()}
  for add in more:
    fields |= add(fields, rng)
  return kind, fields


def make(name, **others):
  """A transformers model whose every tensor is random, norms and biases too.

  Skips the test where torch, the reference, is not installed.

  Args:
    name: of MODELS or RANDOM.
    **others: fields of its config.
  """
  torch = pytest.importorskip('torch', reason='torch is the reference network')
  torch.set_num_threads(1)  # more of them spin against jax's
  transformers = pytest.importorskip('transformers')
  kind, changes = MODELS[name] if name in MODELS else _draw(name)
  # transformers fills rope_parameters in.
  fields = copy.deepcopy(SIZES | dict(pad_token_id=None) | changes | others)
  if kind == 'Gemma4TextConfig':
    fields['vocab_size_per_layer_input'] = fields['vocab_size']
  torch.manual_seed(0)
  model = transformers.AutoModelForCausalLM.from_config(
      getattr(transformers, kind)(**fields)
  )
  # Sharper attention amplifies the rounding of transformers itself beyond the
  # tolerance of the families' tests: in one of the ninety, and in the other by
  # 7e-5 from its own float64.
  mild = name in RANDOM or name == 'llama, biases'
  spread = 0.2 if mild else 0.3
  if name in ('qwen3_5_moe_text 0', 'qwen3_5_moe_text 8'):
    spread = 0.15  # in the first by 4.6e-5, and we by 9e-5
  randomise(model, spread=spread)
  return model


def randomise(model, spread=0.3):
  import torch

  model.float().eval()
  # Gemma 3 adds 1 to the scales of its norms, and Qwen3-Next to those of most.
  family = model.config.model_type
  with torch.no_grad():
    for name, value in model.named_parameters():
      if 'norm' in name:
        added = 'gemma3' in family or (
            family.startswith(('qwen3_5', 'qwen3_next'))
            and 'linear_attn' not in name
        )
        centre = 0.0 if added else 1.0
        value.uniform_(centre - 0.5, centre + 0.5)
      else:
        value.normal_(0, spread)
    for name, value in model.named_buffers():
      if name.endswith('layer_scalar'):
        value.uniform_(0.5, 1.5)


def logits(model, tokens):
  import torch

  with torch.no_grad():
    out = model(torch.tensor(np.asarray(tokens), dtype=torch.long))
  return out.logits.numpy()
