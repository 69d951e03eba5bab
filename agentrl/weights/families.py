"""The fields of config.json, family by family: names, defaults, fixed values.

`hf_config` reads and writes by this table.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

# Field of config.json -> our field, in all families.
FIELDS = {
    'vocab_size': 'vocab_size',
    'hidden_size': 'hidden_size',
    'intermediate_size': 'intermediate_size',
    'num_hidden_layers': 'num_layers',
    'num_attention_heads': 'num_heads',
    'num_key_value_heads': 'num_kv_heads',
    'head_dim': 'head_dim',
    'rms_norm_eps': 'rms_norm_eps',
    'tie_word_embeddings': 'tie_embeddings',
    'max_position_embeddings': 'max_positions',
}
_EXPERT_FIELDS = {
    'num_experts': 'num_experts',
    'num_experts_per_tok': 'num_experts_per_token',
    'moe_intermediate_size': 'moe_intermediate_size',
    'norm_topk_prob': 'norm_topk_prob',
}
# Switch of config.json -> our fields, in the families that read it.
BIASES = {
    'attention_bias': ('qkv_bias', 'o_bias'),
    'mlp_bias': ('mlp_bias',),
}
# Fields that would change the network, and the values that do not.
FIXED = {
    'is_causal': (True, None),
    'quantization_config': (None,),
    'partial_rotary_factor': (1.0, None),
}


@dataclasses.dataclass(frozen=True)
class Family:
  """The traits of the files of one `model_type`.

  Attributes:
    architecture: the class that transformers and SGLang load it with.
    network: fields of TransformerConfig that all its models share.
    defaults: values of absent fields, as transformers has them. A head_dim of
      None is hidden_size / num_attention_heads, and num_key_value_heads of None
      is num_attention_heads.
    fields: further fields of config.json -> our field.
    fixed: further entries of FIXED.
    biases: the entries of BIASES that it reads.
    windows: the sliding layers where `layer_types` is absent: None for no
      layer, 'late' (Qwen: from max_window_layers on), 'unrotated' (SmolLM3) or
      'pattern' (Gemma: all but every n-th).
  """

  architecture: str
  network: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
  fixed: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
  windows: str | None = None
  biases: tuple[str, ...] = ('attention_bias',)


_DEFAULTS = dict(
    head_dim=None,
    rms_norm_eps=1e-6,
    tie_word_embeddings=False,
    max_position_embeddings=32768,
    rope_theta=10000.0,
)
_SILU = {'hidden_act': ('silu', 'swish', None)}
_QWEN_WINDOWS = dict(
    num_key_value_heads=32, sliding_window=4096, max_window_layers=28
)
# By model_type, which TransformerConfig.family holds.
FAMILIES: Mapping[str, Family] = {
    'llama': Family(
        'LlamaForCausalLM',
        defaults=_DEFAULTS
        | dict(num_key_value_heads=None, max_position_embeddings=2048),
        fixed=_SILU,
        biases=tuple(BIASES),
    ),
    'qwen2': Family(
        'Qwen2ForCausalLM',
        network=dict(qkv_bias=True),
        defaults=_DEFAULTS | _QWEN_WINDOWS,
        fixed=_SILU,
        windows='late',
        biases=(),
    ),
    'qwen3': Family(
        'Qwen3ForCausalLM',
        network=dict(qk_norm=True),
        defaults=_DEFAULTS | _QWEN_WINDOWS | dict(head_dim=128),
        fixed=_SILU,
        windows='late',
    ),
    'qwen3_moe': Family(
        'Qwen3MoeForCausalLM',
        network=dict(qk_norm=True),
        defaults=_DEFAULTS | dict(num_key_value_heads=4, norm_topk_prob=False),
        fields=_EXPERT_FIELDS,
        fixed=_SILU
        | {
            'mlp_only_layers': ([], None),
            'decoder_sparse_step': (1, None),
            'use_sliding_window': (False, None),
        },
    ),
    'smollm3': Family(
        'SmolLM3ForCausalLM',
        defaults=_DEFAULTS
        | dict(
            num_key_value_heads=4,
            tie_word_embeddings=True,
            rope_theta=2000000.0,
            no_rope_layer_interval=4,
        ),
        fixed=_SILU,
        windows='unrotated',
        biases=tuple(BIASES),
    ),
    'gemma3_text': Family(
        'Gemma3ForCausalLM',
        network=dict(
            qk_norm=True,
            post_norms=True,
            norm_offset=1.0,
            scale_embeddings=True,
            hidden_act='gelu_pytorch_tanh',
        ),
        # Published files of the larger ones leave most of these out.
        defaults=dict(
            vocab_size=262208,
            hidden_size=2304,
            intermediate_size=9216,
            num_hidden_layers=26,
            num_attention_heads=8,
            num_key_value_heads=4,
            head_dim=256,
            rms_norm_eps=1e-6,
            tie_word_embeddings=True,
            max_position_embeddings=131072,
            rope_theta=1000000.0,
            rope_local_base_freq=10000.0,
            query_pre_attn_scalar=256,
            sliding_window=4096,
            sliding_window_pattern=6,
        ),
        fields={'query_pre_attn_scalar': 'query_pre_attn_scalar'},
        fixed={
            'hidden_activation': ('gelu_pytorch_tanh', None),
            'attn_logit_softcapping': (None,),
            'final_logit_softcapping': (None,),
            'use_bidirectional_attention': (False, None),
        },
        windows='pattern',
    ),
}
# Field's name in transformers 5 -> that in 4 and in the published files.
RENAMED = {'num_local_experts': 'num_experts'}
# Models of text and images -> the family of their text part.
TEXT_PARTS = {'gemma3': 'gemma3_text'}

_BIASED_NORMS = 'layer norms with a mean and a bias'
_IMAGES = (
    'images; where it stands on a family that is known, give its text part'
)
# model_type -> what its network has and `agentrl.models` lacks, for messages.
LACKED: Mapping[str, str] = {
    'mistral': (
        'windows in all layers; one whose sliding_window is null is a "llama",'
        ' and can be called so'
    ),
    'mixtral': 'experts in tensors of other names',
    'gemma': 'norms with an offset, without a norm of queries and keys',
    'gemma2': 'soft-capped logits',
    'qwen2_moe': 'experts that all tokens share',
    'qwen3_next': 'layers of linear attention',
    'deepseek_v2': 'latent attention and shared experts',
    'deepseek_v3': 'latent attention and shared experts',
    'gpt_oss': 'attention sinks and biases of experts',
    'gpt2': f'learned positions, {_BIASED_NORMS}',
    'opt': f'learned positions, {_BIASED_NORMS}',
    'gpt_neox': f'parallel blocks, {_BIASED_NORMS}',
    'bloom': f'ALiBi positions, {_BIASED_NORMS}',
    'falcon': f'parallel blocks, {_BIASED_NORMS}',
    'starcoder2': _BIASED_NORMS,
    'stablelm': f'partial rotation, {_BIASED_NORMS}',
    'phi': f'partial rotation, parallel blocks, {_BIASED_NORMS}',
    'phi3': 'queries, keys and values in one matrix',
    'cohere': 'parallel blocks, norms with a mean',
    'olmo2': 'norms behind attention and MLP alone',
    'glm4': 'partial rotation of neighbouring pairs',
    'granite': 'factors of embeddings, residuals and logits',
    'mamba': 'state-space layers',
    'mamba2': 'state-space layers',
    't5': 'an encoder and a decoder',
    'bert': 'attention in both directions, which writes no text',
    'llava': _IMAGES,
    'qwen2_vl': _IMAGES,
    'qwen2_5_vl': _IMAGES,
    'qwen3_vl': _IMAGES,
}

# Field of a rotary scaling in config.json -> ours.
SCALING = {
    'factor': 'factor',
    'original_max_position_embeddings': 'original_max_positions',
    'low_freq_factor': 'low_freq_factor',
    'high_freq_factor': 'high_freq_factor',
    'beta_fast': 'beta_fast',
    'beta_slow': 'beta_slow',
    'attention_factor': 'attention_factor',
    'mscale': 'mscale',
    'mscale_all_dim': 'mscale_all_dim',
    'truncate': 'truncate',
}
