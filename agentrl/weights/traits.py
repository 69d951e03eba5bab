"""The traits in which the files of model families differ, and what they share.

`families` has a row of them for each `model_type`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from agentrl.models import rotary

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
# Switch of config.json -> our fields, in most families that read it.
Switches = dict[str, tuple[str, ...]]
ATTENTION_BIAS: Switches = {'attention_bias': ('qkv_bias', 'o_bias')}
# Fields that would change the network, and the values that do not; a family
# reads some of them.
FIXED = {
    'is_causal': (True, None),
    'quantization_config': (None,),
    'partial_rotary_factor': (1.0, None),
    'attention_bias': (False, None),
    'attention_out_bias': (False, None),
    'mlp_bias': (False, None),
}
# Our module -> its name in a layer of the files; families change some. A matrix
# that several modules share has theirs in this order, one below the other.
TENSORS = {
    'attention_norm': 'input_layernorm',
    'mlp_norm': 'post_attention_layernorm',
    **{name: f'self_attn.{name}_proj' for name in 'qkvo'},
    **{name: f'self_attn.{name}' for name in ('q_norm', 'k_norm')},
    **{name: f'mlp.{name}_proj' for name in ('gate', 'up', 'down')},
    'router': 'mlp.gate',
    **{f'in_{x}': f'linear_attn.in_proj_{x}' for x in ('qkv', 'z', 'b', 'a')},
    'final_norm': 'norm',  # of the model
}
# Field that has but one value -> what other values ask for, for messages.
REASONS = {
    'enable_moe_block': (
        ': the network has no layers with both an MLP and experts whose router'
        ' has a norm and scales'
    ),
}
# Field's name in transformers 5 -> that in 4 and in the published files.
RENAMED = {
    'num_local_experts': 'num_experts',
    'block_ff_dim': 'intermediate_size',
    'tie_embedding': 'tie_word_embeddings',
}
# Older names of rotary types.
ROTARY_TYPES = {'su': 'longrope'}
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
    'short_factor': 'short_factor',
    'long_factor': 'long_factor',
}


@dataclasses.dataclass(frozen=True)
class Family:
  """The traits of the files of one `model_type`.

  Attributes:
    architecture: the class that transformers and SGLang load it with.
    served_as: the class that SGLang loads it with, if another.
    unserved: the reason why SGLang 0.5.23 serves it on no device; None: it does.
    network: fields of TransformerConfig that all its models share.
    defaults: values of absent fields, as transformers has them. A head_dim of
      None is hidden_size / num_attention_heads, and num_key_value_heads of None
      is num_attention_heads.
    fields: further fields of config.json -> our field.
    fixed: further entries of FIXED.
    biases: switches of config.json -> our fields.
    windows: the sliding layers where `layer_types` is absent: None for no
      layer, 'late' (Qwen: from max_window_layers on), 'unrotated' (SmolLM3),
      'pattern' (Gemma: all but every n-th), 'all' (Mistral: all of them, if
      sliding_window is a number), 'linear' (Qwen3.5: none, and all but every
      n-th are of linear attention) or 'conv' (LFM2: none, and all but those of
      `full_attn_idxs` are convolutions).
    local_rope: whether sliding layers have a rotary base of their own and are
      not scaled; rope_parameters then has an object for each kind of layer.
    rope: rope_parameters where the file has neither these nor rope_scaling.
    rope_parameters_only: whether transformers reads them alone, and not the
      older fields.
    scalings: kinds of rotary scaling that transformers runs it with.
    scaling: further entries of SCALING.
    needed_scaling: entries of SCALING without which transformers does not run.
    unread_scaling: fields of a rotary scaling that its network does not read.
    unread_rope: fields of rope_parameters that do nothing to a text.
    kinds_differ: whether full layers may have other shapes than sliding ones,
      see `hf_kinds`.
    tensors: its own entries of TENSORS.
    written: fields of config.json that do not depend on the model.
    packed: whether experts may be stored as mxfp4, see `mxfp4`.
    stacked: whether all experts of a layer may be in one tensor, see
      `stacked_experts`.
  """

  architecture: str
  served_as: str | None = None
  unserved: str | None = None
  network: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
  fixed: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
  biases: Mapping[str, tuple[str, ...]] = dataclasses.field(
      default_factory=lambda: ATTENTION_BIAS
  )
  windows: str | None = None
  local_rope: bool = False
  rope: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  rope_parameters_only: bool = False
  scalings: tuple[str, ...] = tuple(
      kind for kind in rotary.KINDS if kind != 'proportional'
  )
  scaling: Mapping[str, str] = dataclasses.field(default_factory=dict)
  needed_scaling: tuple[str, ...] = ()
  unread_scaling: tuple[str, ...] = ()
  unread_rope: tuple[str, ...] = ()
  kinds_differ: bool = False
  tensors: Mapping[str, str] = dataclasses.field(default_factory=dict)
  written: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  packed: bool = False
  stacked: bool = False
