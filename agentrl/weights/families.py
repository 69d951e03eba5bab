"""The fields of config.json, family by family: names, defaults, fixed values.

`hf_config` reads and writes by this table.
"""

import dataclasses
from collections.abc import Mapping

from agentrl.models import rotary
from agentrl.models.config import ALL_HEADS, EACH_HEAD, ROTATED
from agentrl.weights.traits import ATTENTION_BIAS, Family, Switches

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
_MLP_BIAS: Switches = {'mlp_bias': ('mlp_bias',)}
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
        biases=ATTENTION_BIAS | _MLP_BIAS,
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
        biases=ATTENTION_BIAS | _MLP_BIAS,
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
        biases=ATTENTION_BIAS | _MLP_BIAS,
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
