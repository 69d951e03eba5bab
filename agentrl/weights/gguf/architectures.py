"""Tables of GGUF files, architecture by architecture: fields, names, layouts.

`config` and `tensors` read by them, `names` takes the tensors' names.
The facts are those of llama.cpp's converters from Hugging Face's files
(https://github.com/ggml-org/llama.cpp, conversion/) and of the networks that it
builds (src/models/). What the files leave out, llama.cpp has in code; so have the
tables here.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

_INNER_SIZE = 'feed_forward_length'
# Field of the metadata, behind the architecture's name -> our field, of all.
REQUIRED = {
    'block_count': 'num_layers',
    'embedding_length': 'hidden_size',
    _INNER_SIZE: 'intermediate_size',
    'attention.head_count': 'num_heads',
    'context_length': 'max_positions',
    'attention.layer_norm_rms_epsilon': 'rms_norm_eps',
}
_EXPERTS = {
    'expert_count': 'num_experts',
    'expert_used_count': 'num_experts_per_token',
    'expert_feed_forward_length': 'moe_intermediate_size',
}
_SHARED_EXPERT = {'expert_shared_feed_forward_length': 'shared_expert_size'}
_LINEAR = {
    'ssm.conv_kernel': 'linear_kernel',
    'ssm.group_count': 'linear_key_heads',
    'ssm.state_size': 'linear_key_dim',
    'ssm.time_step_rank': 'linear_value_heads',
}
WINDOW = 'attention.sliding_window'
TEMPERATURE = 'attention.temperature_scale'
# Whether the weights of a token's experts sum to 1.
_NORMED = 'expert_weights_norm'
# Positions of images; those of a text are the same in each section.
_SECTIONS = 'rope.dimension_sections'
# Layers behind those of the model, which guess further tokens.
EXTRA_LAYERS = 'nextn_predict_layers'
# Fields that change a network, and the values that change nothing: those of an
# architecture that does not read them.
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    'attention.causal': (True,),
    'attention.clamp_kqv': (0.0,),
    'attention.max_alibi_bias': (0.0,),
    # Kinds of layers one by one, beside the period.
    'attention.recurrent_layers': (),
    'attention.scale': (0.0,),
    'attention.shared_kv_layers': (0,),
    'attn_logit_softcapping': (0.0,),
    'deepstack_mapping': (),
    'embedding_scale': (0.0, 1.0),
    'expert_count': (0,),
    'expert_gating_func': (0, 1),  # softmax
    'expert_shared_count': (0,),
    'expert_weights_scale': (0.0, 1.0),
    'final_logit_softcapping': (0.0,),
    'leading_dense_block_count': (0,),
    'logit_scale': (0.0, 1.0),
    EXTRA_LAYERS: (0,),
    'residual_scale': (0.0, 1.0),
    _SECTIONS: (),
    'rope.scale_linear': (1.0,),
    'rope.scaling.yarn_ext_factor': (1.0,),
    'use_parallel_residual': (False,),
    TEMPERATURE: (0.0,),
    WINDOW: (0,),
}
# The divisors of rotary frequencies, tensors beside those of the network: of all
# rows (Llama 3), and of short and of long ones.
ROPE_FREQS = 'rope_freqs.weight'
ROPE_SHORT = 'rope_factors_short.weight'
ROPE_LONG = 'rope_factors_long.weight'


@dataclasses.dataclass(frozen=True)
class Architecture:
  """The traits of the files of one `general.architecture`.

  Attributes:
    family: the key of `families.FAMILIES` that they are read as.
    others: field of the metadata -> the family of files in which it is not 0.
    fields: further fields that must be there -> ours.
    optional: further fields that need not be there -> ours.
    absent: entries of REQUIRED that need not be there, or are read otherwise.
    network: fields of TransformerConfig that the files do not record.
    fixed: entries of NEUTRAL of its own.
    paired: whether rows of queries and keys are stored with those of a rotated
      pair side by side, see `tensors`.
    full_every: of the layers of a file with a window, every n-th has none; 0:
      all have it; None: no window is read.
    unrotated_every: every n-th layer is not rotated; 0: all are.
    attends_every: all layers but every n-th are of linear attention, unless the
      file has another n; 0: none is.
    tiled: whether heads of values that share one of keys lie apart, see `tensors`.
    kinds_differ: whether full layers may have other shapes than sliding ones, see
      `kinds`.
    convolutions: whether layers without heads of keys are convolutions; the file
      then has their number layer by layer.
    unread: fields that do nothing to a text, though other architectures have them
      for something.
    yarn: fields of the yarn scaling that the files do not record.
    scaled_by_width: models of so many layers divide attention scores by the root
      of hidden_size / num_heads, others of the family by that of head_dim; None:
      all do so without its being written in their config.
  """

  family: str
  others: Mapping[str, str] = dataclasses.field(default_factory=dict)
  fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
  optional: Mapping[str, str] = dataclasses.field(default_factory=dict)
  absent: tuple[str, ...] = ()
  network: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  fixed: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
  paired: bool = False
  full_every: int | None = None
  unrotated_every: int = 0
  attends_every: int = 0
  tiled: bool = False
  kinds_differ: bool = False
  convolutions: bool = False
  unread: tuple[str, ...] = ()
  yarn: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  scaled_by_width: int | None = None


ARCHITECTURES: Mapping[str, Architecture] = {
    # Mistral's too, whose network is Llama's where no window is recorded.
    'llama': Architecture('llama', paired=True),
    'mistral3': Architecture(
        'mistral', others={TEMPERATURE: 'ministral3'}, paired=True
    ),
    'qwen2': Architecture('qwen2'),
    'qwen3': Architecture('qwen3'),
    'qwen3moe': Architecture(
        'qwen3_moe',
        fields=_EXPERTS,
        optional={_NORMED: 'norm_topk_prob'},
        network=dict(norm_topk_prob=True),
    ),
    'qwen35': Architecture(
        'qwen3_5_text',
        fields=_LINEAR,
        attends_every=4,
        tiled=True,
        unread=(_SECTIONS, EXTRA_LAYERS),
    ),
    'qwen35moe': Architecture(
        'qwen3_5_moe_text',
        fields=_LINEAR | _EXPERTS | _SHARED_EXPERT,
        optional={_INNER_SIZE: 'intermediate_size'},  # of no layer
        absent=(_INNER_SIZE,),
        fixed={_NORMED: (True,)},
        attends_every=4,
        tiled=True,
        unread=(_SECTIONS, EXTRA_LAYERS),
    ),
    'qwen3next': Architecture(
        'qwen3_next',
        fields=_LINEAR | _EXPERTS | _SHARED_EXPERT,
        optional={_NORMED: 'norm_topk_prob'},
        network=dict(norm_topk_prob=True),
        attends_every=4,
        unread=(EXTRA_LAYERS,),
    ),
    'lfm2': Architecture(
        'lfm2', fields={'shortconv.l_cache': 'conv_kernel'}, convolutions=True
    ),
    'smollm3': Architecture('smollm3', paired=True, unrotated_every=4),
    'granite': Architecture(
        'granite',
        fields={'logit_scale': 'logits_scaling'},
        optional={
            'attention.scale': 'attention_multiplier',
            'embedding_scale': 'embedding_multiplier',
            'residual_scale': 'residual_multiplier',
        },
        # False switches the rotation off, in models without a position.
        fixed={'rope.scaling.finetuned': (True,)},
        paired=True,
    ),
    'gemma3': Architecture('gemma3_text', full_every=6, scaled_by_width=62),
    'gemma4': Architecture(
        'gemma4_text',
        optional={
            'attention.shared_kv_layers': 'kv_shared_layers',
            'embedding_length_per_layer_input': 'layer_inputs',
            'final_logit_softcapping': 'logits_softcap',
        },
        absent=(_INNER_SIZE,),
        full_every=0,
        kinds_differ=True,
    ),
    'olmo2': Architecture('olmo2', others={WINDOW: 'olmo3'}, full_every=4),
    'glm4': Architecture('glm4'),
    'phi3': Architecture('phi3', full_every=0),
    'seed_oss': Architecture('seed_oss'),
    'hunyuan-dense': Architecture('hunyuan_v1_dense'),
    'gpt-oss': Architecture(
        'gpt_oss',
        fields=_EXPERTS,
        network=dict(glu_limit=7.0),
        full_every=2,
        yarn=dict(truncate=False),
    ),
}

# Our module -> its name in a layer of the files, as `traits.TENSORS`.
_TENSORS = {
    'attention_norm': 'attn_norm',
    'attention_post_norm': 'post_attention_norm',
    'mlp_norm': 'ffn_norm',
    'mlp_post_norm': 'post_ffw_norm',
    **{name: f'attn_{name}' for name in ('q', 'k', 'v', 'q_norm', 'k_norm')},
    'o': 'attn_output',
    'sinks': 'attn_sinks',
    **{name: f'ffn_{name}' for name in ('gate', 'up', 'down')},
    'router': 'ffn_gate_inp',
    'shared_gate': 'ffn_gate_inp_shexp',
    **{f'shared_{x}_proj': f'ffn_{x}_shexp' for x in ('gate', 'up', 'down')},
    **{
        f'experts_{name}': f'ffn_{name}_exps' for name in ('gate', 'up', 'down')
    },
    # No tensor of a file: `tensors` makes it of two.
    'experts_gate_up': 'ffn_gate_up_exps',
    'in_qkv': 'attn_qkv',
    'in_z': 'attn_gate',
    'in_b': 'ssm_beta',
    'in_a': 'ssm_alpha',
    'out': 'ssm_out',
    'conv': 'ssm_conv1d',
    'a_log': 'ssm_a',
    'dt_bias': 'ssm_dt',
    'norm': 'ssm_norm',
    'in_bcx': 'shortconv.in_proj',
    'final_norm': 'output_norm',  # of the model
}
_ONE_GATE_UP = dict.fromkeys(('gate', 'up'), 'ffn_up')
_NORM_BEHIND = {'mlp_norm': 'post_attention_norm'}
# By family: its own entries of _TENSORS.
_OWN: Mapping[str, Mapping[str, str]] = {
    'seed_oss': _NORM_BEHIND,
    'gpt_oss': _NORM_BEHIND,
    'qwen3_5_text': _NORM_BEHIND,
    'qwen3_5_moe_text': _NORM_BEHIND,
    # Newer files have the first as two; `tensors` makes it of them.
    'qwen3_next': (
        _NORM_BEHIND
        | dict.fromkeys(('in_qkv', 'in_z'), 'ssm_in')
        | dict.fromkeys(('in_b', 'in_a'), 'ssm_ba')
    ),
    'lfm2': {
        'conv': 'shortconv.conv',
        'out': 'shortconv.out_proj',
        'final_norm': 'token_embd_norm',
    },
    'glm4': _ONE_GATE_UP,
    'phi3': dict.fromkeys('qkv', 'attn_qkv') | _ONE_GATE_UP,
}


def tensors(family: str) -> dict[str, str]:
  """Names of our modules in a layer of a family's GGUF files."""
  return _TENSORS | dict(_OWN.get(family, {}))
