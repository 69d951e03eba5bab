"""The fields of config.json, family by family: names, defaults, fixed values.

`hf_config` reads and writes by this table.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from agentrl.models import rotary
from agentrl.models.config import ALL_HEADS, EACH_HEAD, ROTATED

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
_LINEAR_FIELDS = {
    'linear_conv_kernel_dim': 'linear_kernel',
    'linear_num_key_heads': 'linear_key_heads',
    'linear_num_value_heads': 'linear_value_heads',
    'linear_key_head_dim': 'linear_key_dim',
    'linear_value_head_dim': 'linear_value_dim',
}
_SHARED_EXPERT = {'shared_expert_intermediate_size': 'shared_expert_size'}
# Switch of config.json -> our fields, in most families that read it.
_Switches = dict[str, tuple[str, ...]]
_ATTENTION_BIAS: _Switches = {'attention_bias': ('qkv_bias', 'o_bias')}
_MLP_BIAS: _Switches = {'mlp_bias': ('mlp_bias',)}
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
      default_factory=lambda: _ATTENTION_BIAS
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
_NORMS_BEHIND = {
    'attention_post_norm': 'post_attention_layernorm',
    'mlp_post_norm': 'post_feedforward_layernorm',
}
_ONE_GATE_UP = dict.fromkeys(('gate', 'up'), 'mlp.gate_up_proj')
_PARTIAL = {'partial_rotary_factor': 'partial_rotary_factor'}
_OLMO = dict(qk_norm=ALL_HEADS, pre_norms=False, post_norms=True)
_OLMO_DEFAULTS = _DEFAULTS | dict(
    num_key_value_heads=None, rms_norm_eps=1e-5, max_position_embeddings=2048
)
_ALL_SPARSE = {
    'mlp_only_layers': ([], None),
    'decoder_sparse_step': (1, None),
}
_QWEN3_NEXT = dict(qk_norm=EACH_HEAD, norm_offset=1.0, attention_gate=True)
_LINEAR_DEFAULTS = dict(
    full_attention_interval=4,
    linear_conv_kernel_dim=4,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
    linear_num_key_heads=16,
    linear_num_value_heads=32,
)
_QWEN3_NEXT_DEFAULTS = (
    _DEFAULTS
    | _LINEAR_DEFAULTS
    | dict(
        vocab_size=151936,
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=48,
        num_attention_heads=16,
        num_key_value_heads=2,
        head_dim=256,
        partial_rotary_factor=0.25,
        moe_intermediate_size=512,
        shared_expert_intermediate_size=512,
        num_experts=512,
        num_experts_per_tok=10,
        norm_topk_prob=True,
    )
)
# Positions of images; those of a text are the same in each section.
_SECTIONS = ('mrope_section', 'mrope_interleaved')
_GEMMA4 = Family(
    'Gemma4UnifiedForCausalLM',
    unserved=(
        'it reads the sizes of heads, which differ by layer, only of models'
        ' with an image part'
    ),
    network=dict(
        qk_norm=EACH_HEAD,
        value_norm=True,
        attention_multiplier=1.0,
        post_norms=True,
        scale_embeddings=True,
        layer_scalars=True,
        hidden_act='gelu_pytorch_tanh',
    ),
    defaults=dict(
        vocab_size=262144,
        hidden_size=2304,
        intermediate_size=9216,
        num_hidden_layers=30,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=256,
        global_head_dim=512,
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
        max_position_embeddings=262144,
        rope_theta=1000000.0,
        rope_local_base_freq=10000.0,
        sliding_window=1024,
        sliding_window_pattern=6,
        attention_k_eq_v=False,
        num_kv_shared_layers=0,
        use_double_wide_mlp=False,
        final_logit_softcapping=None,
    ),
    fields={
        'attention_k_eq_v': 'full_tied_values',
        'num_kv_shared_layers': 'kv_shared_layers',
        'use_double_wide_mlp': 'kv_shared_wide_mlp',
        'final_logit_softcapping': 'logits_softcap',
    },
    fixed={
        'hidden_activation': ('gelu_pytorch_tanh', None),
        'enable_moe_block': (False, None),
        # Where it is not among `fields`; transformers ignores it there.
        'hidden_size_per_layer_input': (0, None),
        # Of images alone; a text is read from left to right.
        'use_bidirectional_attention': (None, 'vision'),
        'rope_scaling': (None,),
    },
    windows='pattern',
    local_rope=True,
    rope=dict(
        rope_type='proportional',
        partial_rotary_factor=0.25,
        rope_theta=1000000.0,
    ),
    rope_parameters_only=True,
    scalings=tuple(rotary.KINDS),
    scaling={'partial_rotary_factor': 'rotated_part'},
    kinds_differ=True,
    tensors={**_NORMS_BEHIND, 'mlp_norm': 'pre_feedforward_layernorm'},
)
# By model_type, which TransformerConfig.family holds.
FAMILIES: Mapping[str, Family] = {
    'llama': Family(
        'LlamaForCausalLM',
        defaults=_DEFAULTS
        | dict(num_key_value_heads=None, max_position_embeddings=2048),
        fixed=_SILU,
        biases=_ATTENTION_BIAS | _MLP_BIAS,
    ),
    'mistral': Family(
        'MistralForCausalLM',
        defaults=_DEFAULTS
        | dict(
            num_key_value_heads=8,
            max_position_embeddings=131072,
            sliding_window=4096,
        ),
        fixed=_SILU,
        windows='all',
        biases={},
    ),
    'ministral3': Family(
        'Ministral3ForCausalLM',
        defaults=_DEFAULTS
        | dict(
            num_key_value_heads=8,
            head_dim=128,
            rms_norm_eps=1e-5,
            max_position_embeddings=262144,
            sliding_window=None,
        ),
        fixed=_SILU,
        windows='all',
        biases={},
        rope=dict(
            rope_type='yarn',
            rope_theta=1000000.0,
            factor=16.0,
            original_max_position_embeddings=16384,
            mscale=1.0,
            mscale_all_dim=1.0,
            llama_4_scaling_beta=0.1,
        ),
        scalings=('yarn',),
        scaling={'llama_4_scaling_beta': 'query_beta'},
        needed_scaling=('llama_4_scaling_beta',),
        unread_scaling=('max_position_embeddings',),
    ),
    'seed_oss': Family(
        'SeedOssForCausalLM',
        defaults=_DEFAULTS
        | dict(
            num_key_value_heads=8,
            head_dim=128,
            max_position_embeddings=524288,
            attention_bias=True,
        ),
        fixed=_SILU,
        biases={
            'attention_bias': ('qkv_bias',),
            'attention_out_bias': ('o_bias',),
            **_MLP_BIAS,
        },
    ),
    'granite': Family(
        'GraniteForCausalLM',
        defaults=_DEFAULTS
        | dict(
            num_key_value_heads=None,
            max_position_embeddings=2048,
            embedding_multiplier=1.0,
            residual_multiplier=1.0,
            attention_multiplier=1.0,
            logits_scaling=1.0,
        ),
        fields={
            name: name
            for name in (
                'embedding_multiplier',
                'residual_multiplier',
                'attention_multiplier',
                'logits_scaling',
            )
        },
        fixed=_SILU,
        biases=_ATTENTION_BIAS | _MLP_BIAS,
    ),
    'hunyuan_v1_dense': Family(
        'HunYuanDenseV1ForCausalLM',
        unserved='it cuts the heads of queries as if they were padding',
        network=dict(qk_norm=ROTATED),
        defaults=_DEFAULTS
        | dict(
            num_key_value_heads=None,
            rms_norm_eps=1e-5,
            max_position_embeddings=2048,
        ),
        fixed=_SILU | {'use_qk_norm': (True, None)},
        scaling={'alpha': 'alpha'},
        unread_scaling=('beta_fast', 'beta_slow', 'mscale', 'mscale_all_dim'),
        tensors={
            'q_norm': 'self_attn.query_layernorm',
            'k_norm': 'self_attn.key_layernorm',
        },
        # Without it SGLang has no norms of queries and keys.
        written={'use_qk_norm': True},
    ),
    'olmo2': Family(
        'Olmo2ForCausalLM',
        network=_OLMO,
        defaults=_OLMO_DEFAULTS,
        fixed=_SILU,
        tensors=_NORMS_BEHIND,
    ),
    'olmo3': Family(
        'Olmo3ForCausalLM',
        served_as='Olmo2ForCausalLM',
        network=_OLMO,
        defaults=_OLMO_DEFAULTS
        | dict(
            rope_theta=500000.0, sliding_window=4096, sliding_window_pattern=4
        ),
        fixed=_SILU
        | {
            'sliding_window_pattern': (4, None),
            'rope_local_base_freq': (None,),
        },
        windows='pattern',
        local_rope=True,
        tensors=_NORMS_BEHIND,
    ),
    'glm4': Family(
        'Glm4ForCausalLM',
        network=dict(post_norms=True, rope_interleaved=True),
        defaults=_DEFAULTS
        | dict(
            num_key_value_heads=2,
            head_dim=128,
            rms_norm_eps=1.5625e-7,
            max_position_embeddings=131072,
            attention_bias=True,
            partial_rotary_factor=0.5,
        ),
        fields=_PARTIAL,
        fixed=_SILU,
        biases={'attention_bias': ('qkv_bias',)},
        tensors={
            'attention_post_norm': 'post_self_attn_layernorm',
            'mlp_post_norm': 'post_mlp_layernorm',
            **_ONE_GATE_UP,
        },
    ),
    'phi3': Family(
        'Phi3ForCausalLM',
        defaults=_DEFAULTS
        | dict(
            num_key_value_heads=None,
            rms_norm_eps=1e-5,
            max_position_embeddings=4096,
            original_max_position_embeddings=4096,
            sliding_window=None,
            partial_rotary_factor=1.0,
        ),
        fields=_PARTIAL,
        fixed=_SILU,
        windows='all',
        biases={},
        scalings=('longrope',),
        tensors=dict.fromkeys('qkv', 'self_attn.qkv_proj') | _ONE_GATE_UP,
    ),
    'qwen2': Family(
        'Qwen2ForCausalLM',
        network=dict(qkv_bias=True),
        defaults=_DEFAULTS | _QWEN_WINDOWS,
        fixed=_SILU,
        windows='late',
        biases={},
    ),
    'qwen3': Family(
        'Qwen3ForCausalLM',
        network=dict(qk_norm=EACH_HEAD),
        defaults=_DEFAULTS | _QWEN_WINDOWS | dict(head_dim=128),
        fixed=_SILU,
        windows='late',
    ),
    'qwen3_moe': Family(
        'Qwen3MoeForCausalLM',
        network=dict(qk_norm=EACH_HEAD),
        defaults=_DEFAULTS | dict(num_key_value_heads=4, norm_topk_prob=False),
        fields=_EXPERT_FIELDS,
        fixed=_SILU | _ALL_SPARSE | {'use_sliding_window': (False, None)},
    ),
    'gpt_oss': Family(
        'GptOssForCausalLM',
        network=dict(attention_sinks=True, mlp_bias=True, norm_topk_prob=True),
        defaults=_DEFAULTS
        | dict(
            num_key_value_heads=8,
            head_dim=64,
            rms_norm_eps=1e-5,
            max_position_embeddings=131072,
            rope_theta=150000.0,
            sliding_window=128,
            sliding_window_pattern=2,
            num_experts=128,
            num_experts_per_tok=4,
            swiglu_limit=7.0,
            attention_bias=True,
        ),
        fields={
            'num_experts': 'num_experts',
            'num_experts_per_tok': 'num_experts_per_token',
            'intermediate_size': 'moe_intermediate_size',
            'swiglu_limit': 'glu_limit',
        },
        fixed=_SILU
        | {'swiglu_alpha': (1.702, None), 'sliding_window_pattern': (2, None)},
        windows='pattern',
        rope=dict(
            rope_type='yarn',
            factor=32.0,
            beta_fast=32.0,
            beta_slow=1.0,
            truncate=False,
            original_max_position_embeddings=4096,
        ),
        tensors={'router': 'mlp.router'},
        packed=True,
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
        biases=_ATTENTION_BIAS | _MLP_BIAS,
    ),
    'qwen3_5_text': Family(
        'Qwen3_5ForCausalLM',
        network=_QWEN3_NEXT,
        defaults=_DEFAULTS
        | _LINEAR_DEFAULTS
        | dict(
            vocab_size=248320,
            hidden_size=4096,
            intermediate_size=12288,
            num_hidden_layers=32,
            num_attention_heads=16,
            num_key_value_heads=4,
            head_dim=256,
            partial_rotary_factor=0.25,
        ),
        fields=_PARTIAL | _LINEAR_FIELDS,
        fixed=_SILU | {'attn_output_gate': (True, None)},
        windows='linear',
        unread_rope=_SECTIONS,
    ),
    'qwen3_5_moe_text': Family(
        'Qwen3_5MoeForCausalLM',
        network=_QWEN3_NEXT | dict(norm_topk_prob=True),
        defaults=_QWEN3_NEXT_DEFAULTS
        | dict(
            vocab_size=248320,
            num_hidden_layers=40,
            num_experts=256,
            num_experts_per_tok=8,
            intermediate_size=None,  # of no layer
        ),
        fields=_PARTIAL
        | _LINEAR_FIELDS
        | _SHARED_EXPERT
        | {k: v for k, v in _EXPERT_FIELDS.items() if k != 'norm_topk_prob'},
        fixed=_SILU | {'attn_output_gate': (True, None)},
        windows='linear',
        unread_rope=_SECTIONS,
        stacked=True,
    ),
    'qwen3_next': Family(
        'Qwen3NextForCausalLM',
        network=_QWEN3_NEXT,
        defaults=_QWEN3_NEXT_DEFAULTS,
        fields=_PARTIAL | _LINEAR_FIELDS | _SHARED_EXPERT | _EXPERT_FIELDS,
        fixed=_SILU | _ALL_SPARSE,
        windows='linear',
        tensors=dict.fromkeys(('in_qkv', 'in_z'), 'linear_attn.in_proj_qkvz')
        | dict.fromkeys(('in_b', 'in_a'), 'linear_attn.in_proj_ba'),
    ),
    'lfm2': Family(
        'Lfm2ForCausalLM',
        network=dict(qk_norm=EACH_HEAD),
        defaults=_DEFAULTS
        | dict(
            vocab_size=65536,
            hidden_size=2560,
            intermediate_size=12288,
            num_hidden_layers=32,
            num_attention_heads=32,
            num_key_value_heads=8,
            norm_eps=1e-5,
            tie_word_embeddings=True,
            max_position_embeddings=128000,
            rope_theta=1000000.0,
            conv_L_cache=3,
            block_multiple_of=256,
            block_ffn_dim_multiplier=1.0,
            block_auto_adjust_ff_dim=True,
        ),
        fields={'norm_eps': 'rms_norm_eps', 'conv_L_cache': 'conv_kernel'},
        fixed={'conv_bias': (False, None)},
        biases={},
        windows='conv',
        tensors={
            'attention_norm': 'operator_norm',
            'mlp_norm': 'ffn_norm',
            'final_norm': 'embedding_norm',
            'o': 'self_attn.out_proj',
            'q_norm': 'self_attn.q_layernorm',
            'k_norm': 'self_attn.k_layernorm',
            'gate': 'feed_forward.w1',
            'up': 'feed_forward.w3',
            'down': 'feed_forward.w2',
        },
        written={'block_auto_adjust_ff_dim': False},
    ),
    'gemma3_text': Family(
        'Gemma3ForCausalLM',
        network=dict(
            qk_norm=EACH_HEAD,
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
        local_rope=True,
        tensors={**_NORMS_BEHIND, 'mlp_norm': 'pre_feedforward_layernorm'},
    ),
    'gemma4_text': dataclasses.replace(
        _GEMMA4,
        architecture='Gemma4ForCausalLM',
        defaults=dict(
            _GEMMA4.defaults,
            max_position_embeddings=131072,
            sliding_window=512,
            vocab_size_per_layer_input=262144,
            hidden_size_per_layer_input=256,
        ),
        fields=dict(_GEMMA4.fields, hidden_size_per_layer_input='layer_inputs'),
        written={'enable_moe_block': False},
    ),
    'gemma4_unified_text': _GEMMA4,
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
# Models of text and images -> the families of their text part; the first, where
# it names none.
TEXT_PARTS = {
    'gemma3': ('gemma3_text',),
    'gemma4': ('gemma4_text',),
    'gemma4_unified': ('gemma4_unified_text',),
    'mistral3': ('mistral', 'ministral3'),
    'qwen3_5': ('qwen3_5_text',),
    'qwen3_5_moe': ('qwen3_5_moe_text',),
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
