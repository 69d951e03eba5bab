"""Tests for agentrl.weights.hf_config: the config.json of every family."""

import dataclasses
import json
import re

import pytest

from agentrl.errors import WeightsError
from agentrl.models import rotary, variants
from agentrl.models.config import (
    ATTENTION,
    FULL,
    LINEAR,
    MIXER_SIZES,
    ROTATED,
    SLIDING,
    TransformerConfig,
)
from agentrl.weights import families, hf_config, lacked

_GEMMA4_ROPE = dict(
    full_attention=dict(
        partial_rotary_factor=0.25,
        rope_theta=1000000.0,
        rope_type='proportional',
    ),
    sliding_attention=dict(rope_theta=10000.0, rope_type='default'),
)
# No full layer of those whose keys others read.
_LATE = [SLIDING] * 3 + ([SLIDING] * 7 + [FULL]) * 4
# What the published files say of the network, without what says nothing of it.
PUBLISHED = {
    'llama3.2-3b': dict(
        model_type='llama',
        attention_bias=False,
        head_dim=128,
        hidden_act='silu',
        hidden_size=3072,
        intermediate_size=8192,
        max_position_embeddings=131072,
        mlp_bias=False,
        num_attention_heads=24,
        num_hidden_layers=28,
        num_key_value_heads=8,
        rms_norm_eps=1e-5,
        rope_scaling=dict(
            factor=32.0,
            high_freq_factor=4.0,
            low_freq_factor=1.0,
            original_max_position_embeddings=8192,
            rope_type='llama3',
        ),
        rope_theta=500000.0,
        tie_word_embeddings=True,
        vocab_size=128256,
    ),
    'qwen2.5-14b': dict(
        model_type='qwen2',
        hidden_act='silu',
        hidden_size=5120,
        intermediate_size=13824,
        max_position_embeddings=131072,
        max_window_layers=48,
        num_attention_heads=40,
        num_hidden_layers=48,
        num_key_value_heads=8,
        rms_norm_eps=1e-5,
        rope_theta=1000000.0,
        sliding_window=131072,
        tie_word_embeddings=False,
        use_sliding_window=False,
        vocab_size=152064,
    ),
    'qwen3-4b': dict(
        model_type='qwen3',
        attention_bias=False,
        head_dim=128,
        hidden_act='silu',
        hidden_size=2560,
        intermediate_size=9728,
        max_position_embeddings=40960,
        max_window_layers=36,
        num_attention_heads=32,
        num_hidden_layers=36,
        num_key_value_heads=8,
        rms_norm_eps=1e-6,
        rope_scaling=None,
        rope_theta=1000000,
        sliding_window=None,
        tie_word_embeddings=True,
        use_sliding_window=False,
        vocab_size=151936,
    ),
    'qwen3-30b-a3b': dict(
        model_type='qwen3_moe',
        attention_bias=False,
        decoder_sparse_step=1,
        head_dim=128,
        hidden_act='silu',
        hidden_size=2048,
        intermediate_size=6144,
        max_position_embeddings=40960,
        max_window_layers=48,
        mlp_only_layers=[],
        moe_intermediate_size=768,
        norm_topk_prob=True,
        num_attention_heads=32,
        num_experts=128,
        num_experts_per_tok=8,
        num_hidden_layers=48,
        num_key_value_heads=4,
        rms_norm_eps=1e-6,
        rope_scaling=None,
        rope_theta=1000000.0,
        router_aux_loss_coef=0.001,
        sliding_window=None,
        tie_word_embeddings=False,
        use_sliding_window=False,
        vocab_size=151936,
    ),
    'smollm3-3b': dict(
        model_type='smollm3',
        hidden_act='silu',
        hidden_size=2048,
        intermediate_size=11008,
        max_position_embeddings=65536,
        no_rope_layer_interval=4,
        no_rope_layers=[1, 1, 1, 0] * 9,
        num_attention_heads=16,
        num_hidden_layers=36,
        num_key_value_heads=4,
        rms_norm_eps=1e-6,
        rope_theta=5000000.0,
        vocab_size=128256,
    ),
    'gemma3-1b': dict(
        model_type='gemma3_text',
        attn_logit_softcapping=None,
        final_logit_softcapping=None,
        head_dim=256,
        hidden_activation='gelu_pytorch_tanh',
        hidden_size=1152,
        intermediate_size=6912,
        max_position_embeddings=32768,
        num_attention_heads=4,
        num_hidden_layers=26,
        num_key_value_heads=1,
        query_pre_attn_scalar=256,
        rms_norm_eps=1e-6,
        rope_local_base_freq=10000,
        rope_scaling=None,
        rope_theta=1000000,
        sliding_window=512,
        sliding_window_pattern=6,
        vocab_size=262144,
    ),
    'gemma3-27b': dict(
        model_type='gemma3',
        text_config=dict(
            head_dim=128,
            hidden_size=5376,
            intermediate_size=21504,
            model_type='gemma3_text',
            num_attention_heads=32,
            num_hidden_layers=62,
            num_key_value_heads=16,
            query_pre_attn_scalar=168,
            rope_scaling=dict(factor=8.0, rope_type='linear'),
            sliding_window=1024,
        ),
    ),
    'gemma4-e2b': dict(
        model_type='gemma4',
        tie_word_embeddings=True,
        text_config=dict(
            attention_bias=False,
            attention_k_eq_v=False,
            enable_moe_block=False,
            final_logit_softcapping=30.0,
            global_head_dim=512,
            head_dim=256,
            hidden_activation='gelu_pytorch_tanh',
            hidden_size=1536,
            hidden_size_per_layer_input=256,
            intermediate_size=6144,
            layer_types=([SLIDING] * 4 + [FULL]) * 7,
            max_position_embeddings=131072,
            model_type='gemma4_text',
            num_attention_heads=8,
            num_global_key_value_heads=None,
            num_hidden_layers=35,
            num_key_value_heads=1,
            num_kv_shared_layers=20,
            rms_norm_eps=1e-6,
            rope_parameters=_GEMMA4_ROPE,
            sliding_window=512,
            use_bidirectional_attention=None,
            use_double_wide_mlp=True,
            vocab_size=262144,
            vocab_size_per_layer_input=262144,
        ),
    ),
    'gemma4-e4b': dict(
        model_type='gemma4',
        text_config=dict(
            final_logit_softcapping=30.0,
            hidden_size=2560,
            intermediate_size=10240,
            layer_types=([SLIDING] * 5 + [FULL]) * 7,
            model_type='gemma4_text',
            num_attention_heads=8,
            num_hidden_layers=42,
            num_key_value_heads=2,
            num_kv_shared_layers=18,
            use_double_wide_mlp=False,
        ),
    ),
    'gemma4-12b': dict(
        model_type='gemma4_unified',
        text_config=dict(
            attention_k_eq_v=True,
            final_logit_softcapping=30.0,
            global_head_dim=512,
            head_dim=256,
            hidden_size=3840,
            hidden_size_per_layer_input=0,
            intermediate_size=15360,
            layer_types=([SLIDING] * 5 + [FULL]) * 8,
            max_position_embeddings=262144,
            model_type='gemma4_unified_text',
            num_attention_heads=16,
            num_global_key_value_heads=1,
            num_hidden_layers=48,
            num_key_value_heads=8,
            num_kv_shared_layers=0,
            rms_norm_eps=1e-6,
            rope_parameters=_GEMMA4_ROPE,
            sliding_window=1024,
            tie_word_embeddings=True,
            use_double_wide_mlp=False,
            vocab_size=262144,
            vocab_size_per_layer_input=262144,
        ),
    ),
    'gemma4-31b': dict(
        model_type='gemma4',
        tie_word_embeddings=True,
        text_config=dict(
            attention_bias=False,
            attention_k_eq_v=True,
            enable_moe_block=False,
            final_logit_softcapping=30.0,
            global_head_dim=512,
            head_dim=256,
            hidden_activation='gelu_pytorch_tanh',
            hidden_size=5376,
            hidden_size_per_layer_input=0,
            intermediate_size=21504,
            layer_types=([SLIDING] * 5 + [FULL]) * 10,
            max_position_embeddings=262144,
            model_type='gemma4_text',
            num_attention_heads=32,
            num_experts=None,
            num_global_key_value_heads=4,
            num_hidden_layers=60,
            num_key_value_heads=16,
            num_kv_shared_layers=0,
            rms_norm_eps=1e-6,
            rope_parameters=_GEMMA4_ROPE,
            sliding_window=1024,
            use_bidirectional_attention='vision',
            use_double_wide_mlp=False,
            vocab_size=262144,
            vocab_size_per_layer_input=262144,
        ),
    ),
    'mistral-nemo-12b': dict(
        model_type='mistral',
        head_dim=128,
        hidden_act='silu',
        hidden_size=5120,
        intermediate_size=14336,
        max_position_embeddings=131072,
        num_attention_heads=32,
        num_hidden_layers=40,
        num_key_value_heads=8,
        rms_norm_eps=1e-5,
        rope_theta=1000000.0,
        sliding_window=None,
        tie_word_embeddings=False,
        vocab_size=131072,
    ),
    'ministral3-8b': dict(
        model_type='mistral3',
        text_config=dict(
            model_type='ministral3',
            head_dim=128,
            hidden_act='silu',
            hidden_size=4096,
            intermediate_size=14336,
            max_position_embeddings=262144,
            num_attention_heads=32,
            num_hidden_layers=34,
            num_key_value_heads=8,
            rms_norm_eps=1e-5,
            rope_parameters=dict(
                beta_fast=32.0,
                beta_slow=1.0,
                factor=16.0,
                llama_4_scaling_beta=0.1,
                mscale=1.0,
                mscale_all_dim=1.0,
                original_max_position_embeddings=16384,
                rope_theta=1000000.0,
                rope_type='yarn',
                type='yarn',
            ),
            sliding_window=None,
            tie_word_embeddings=False,
            vocab_size=131072,
        ),
    ),
    'granite3.3-2b': dict(
        model_type='granite',
        attention_bias=False,
        attention_multiplier=0.015625,
        embedding_multiplier=12.0,
        hidden_act='silu',
        hidden_size=2048,
        intermediate_size=8192,
        logits_scaling=8.0,
        max_position_embeddings=131072,
        mlp_bias=False,
        num_attention_heads=32,
        num_hidden_layers=40,
        num_key_value_heads=8,
        residual_multiplier=0.22,
        rms_norm_eps=1e-5,
        rope_scaling=None,
        rope_theta=10000000.0,
        tie_word_embeddings=True,
        vocab_size=49159,
    ),
    'lfm2-350m': dict(
        model_type='lfm2',
        block_auto_adjust_ff_dim=True,
        block_dim=1024,
        block_ff_dim=6656,
        block_ffn_dim_multiplier=1.0,
        block_multiple_of=256,
        block_norm_eps=1e-5,
        conv_L_cache=3,
        conv_bias=False,
        conv_dim=1024,
        full_attn_idxs=[2, 5, 8, 10, 12, 14],
        hidden_size=1024,
        max_position_embeddings=128000,
        norm_eps=1e-5,
        num_attention_heads=16,
        num_heads=16,
        num_hidden_layers=16,
        num_key_value_heads=8,
        rope_theta=1000000.0,
        vocab_size=65536,
    ),
    'qwen3.5-0.8b': dict(
        model_type='qwen3_5',
        tie_word_embeddings=True,
        text_config=dict(
            model_type='qwen3_5_text',
            attention_bias=False,
            attn_output_gate=True,
            full_attention_interval=4,
            head_dim=256,
            hidden_act='silu',
            hidden_size=1024,
            intermediate_size=3584,
            layer_types=(['linear_attention'] * 3 + [FULL]) * 6,
            linear_conv_kernel_dim=4,
            linear_key_head_dim=128,
            linear_num_key_heads=16,
            linear_num_value_heads=16,
            linear_value_head_dim=128,
            mamba_ssm_dtype='float32',
            max_position_embeddings=262144,
            mlp_only_layers=[],
            mtp_num_hidden_layers=1,
            num_attention_heads=8,
            num_hidden_layers=24,
            num_key_value_heads=2,
            partial_rotary_factor=0.25,
            rms_norm_eps=1e-6,
            rope_parameters=dict(
                mrope_interleaved=True,
                mrope_section=[11, 11, 10],
                partial_rotary_factor=0.25,
                rope_theta=10000000,
                rope_type='default',
            ),
            tie_word_embeddings=True,
            vocab_size=248320,
        ),
    ),
    'qwen3.5-35b-a3b': dict(
        model_type='qwen3_5_moe',
        tie_word_embeddings=False,
        text_config=dict(
            model_type='qwen3_5_moe_text',
            attention_bias=False,
            attn_output_gate=True,
            full_attention_interval=4,
            head_dim=256,
            hidden_act='silu',
            hidden_size=2048,
            linear_conv_kernel_dim=4,
            linear_key_head_dim=128,
            linear_num_key_heads=16,
            linear_num_value_heads=32,
            linear_value_head_dim=128,
            mamba_ssm_dtype='float32',
            max_position_embeddings=262144,
            moe_intermediate_size=512,
            mtp_num_hidden_layers=1,
            num_attention_heads=16,
            num_experts=256,
            num_experts_per_tok=8,
            num_hidden_layers=40,
            num_key_value_heads=2,
            rms_norm_eps=1e-6,
            rope_parameters=dict(
                mrope_interleaved=True,
                mrope_section=[11, 11, 10],
                partial_rotary_factor=0.25,
                rope_theta=10000000,
                rope_type='default',
            ),
            shared_expert_intermediate_size=512,
            tie_word_embeddings=False,
            vocab_size=248320,
        ),
    ),
    'qwen3-next-80b-a3b': dict(
        model_type='qwen3_next',
        decoder_sparse_step=1,
        full_attention_interval=4,
        head_dim=256,
        hidden_act='silu',
        hidden_size=2048,
        intermediate_size=5120,
        linear_conv_kernel_dim=4,
        linear_key_head_dim=128,
        linear_num_key_heads=16,
        linear_num_value_heads=32,
        linear_value_head_dim=128,
        max_position_embeddings=262144,
        mlp_only_layers=[],
        moe_intermediate_size=512,
        norm_topk_prob=True,
        num_attention_heads=16,
        num_experts=512,
        num_experts_per_tok=10,
        num_hidden_layers=48,
        num_key_value_heads=2,
        partial_rotary_factor=0.25,
        rms_norm_eps=1e-6,
        rope_scaling=None,
        rope_theta=10000000,
        shared_expert_intermediate_size=512,
        tie_word_embeddings=False,
        vocab_size=151936,
    ),
    'olmo3-7b': dict(
        model_type='olmo3',
        attention_bias=False,
        hidden_act='silu',
        hidden_size=4096,
        intermediate_size=11008,
        layer_types=([SLIDING] * 3 + [FULL]) * 8,
        max_position_embeddings=65536,
        num_attention_heads=32,
        num_hidden_layers=32,
        num_key_value_heads=32,
        rms_norm_eps=1e-6,
        rope_scaling=dict(
            attention_factor=1.2079441541679836,
            beta_fast=32.0,
            beta_slow=1.0,
            factor=8.0,
            original_max_position_embeddings=8192,
            rope_type='yarn',
        ),
        rope_theta=500000,
        sliding_window=4096,
        tie_word_embeddings=False,
        vocab_size=100278,
    ),
    'glm4-9b': dict(
        model_type='glm4',
        attention_bias=True,
        head_dim=128,
        hidden_act='silu',
        hidden_size=4096,
        intermediate_size=13696,
        max_position_embeddings=32768,
        num_attention_heads=32,
        num_hidden_layers=40,
        num_key_value_heads=2,
        partial_rotary_factor=0.5,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        tie_word_embeddings=False,
        vocab_size=151552,
    ),
    'phi4-14b': dict(
        model_type='phi3',
        attention_bias=False,
        hidden_act='silu',
        hidden_size=5120,
        intermediate_size=17920,
        max_position_embeddings=16384,
        num_attention_heads=40,
        num_hidden_layers=40,
        num_key_value_heads=10,
        original_max_position_embeddings=16384,
        rms_norm_eps=1e-5,
        rope_scaling=None,
        rope_theta=250000,
        sliding_window=None,
        tie_word_embeddings=False,
        vocab_size=100352,
    ),
}


def parse(fields):
  return hf_config.parse(fields, 'config.json')


@pytest.mark.parametrize('name', PUBLISHED)
def test_published_files_are_read(name):
  assert parse(PUBLISHED[name]) == variants.get(name)


@pytest.mark.parametrize('name', variants.VARIANTS)
def test_what_is_written_is_read(name):
  config = variants.get(name)
  fields = hf_config.make(config)
  assert parse(fields) == config
  # What transformers 5 reads alone, and what 4 does.
  old = {k: v for k, v in fields.items() if k != 'rope_parameters'}
  assert parse(old) == config
  later = ('rope_scaling', 'rope_theta', 'rope_local_base_freq')
  assert parse({k: v for k, v in fields.items() if k not in later}) == config


QWEN2 = PUBLISHED['qwen2.5-14b'] | dict(num_hidden_layers=4)


@pytest.mark.parametrize(
    'changes, size',
    [
        (dict(block_ff_dim=12288), 8192),
        (dict(block_auto_adjust_ff_dim=False), 6656),
        (dict(block_ffn_dim_multiplier=0.5), 2304),
        (dict(intermediate_size=12288), 4608),  # the older name wins
    ],
)
def test_the_mlp_of_lfm2_is_smaller_than_its_file_says(changes, size):
  found = parse(PUBLISHED['lfm2-350m'] | changes).intermediate_size
  assert found == size
  torch = pytest.importorskip('torch')
  transformers = pytest.importorskip('transformers')
  fields = PUBLISHED['lfm2-350m'] | dict(num_hidden_layers=1) | changes
  with torch.device('meta'):
    theirs = transformers.Lfm2ForCausalLM(transformers.Lfm2Config(**fields))
  mlp = theirs.model.layers[0].feed_forward
  assert mlp.w1.out_features == size


@pytest.mark.parametrize(
    'changes, message',
    [
        (dict(full_attn_idxs='all'), 'full_attn_idxs of config.json is .all'),
        (dict(block_multiple_of=0), 'block_multiple_of of config.json is 0'),
        (dict(block_ffn_dim_multiplier=-1), 'multiplier of config.json is -1'),
        (dict(conv_bias=True), 'conv_bias of config.json is True'),
        (dict(full_attn_idxs=[]), 'All layers are conv; at least one'),
        (dict(conv_L_cache=1), 'conv_L_cache of config.json is 1'),
    ],
)
def test_odd_fields_of_lfm2_are_refused(changes, message):
  with pytest.raises(WeightsError, match=message):
    parse(PUBLISHED['lfm2-350m'] | changes)


@pytest.mark.parametrize(
    'kinds, every',
    [([LINEAR, LINEAR, FULL] * 2, 3), ([FULL] * 4, 1), ([FULL, LINEAR], None)],
)
def test_sglang_is_given_the_interval_of_full_layers(kinds, every):
  """It reads no layer_types of Qwen3.5 and Qwen3-Next."""
  sizes = {} if LINEAR in kinds else dict.fromkeys(MIXER_SIZES[LINEAR], 0)
  config = dataclasses.replace(
      variants.get('qwen3.5-0.8b'),
      num_layers=len(kinds),
      layer_types=kinds,
      **sizes,
  )
  fields = hf_config.make(config)
  assert fields.get('full_attention_interval') == every
  assert parse(fields) == config


def test_norms_of_hunyuan_are_said_to_sglang_and_cannot_be_left_out():
  fields = hf_config.make(
      TransformerConfig(**SMALL, family='hunyuan_v1_dense', qk_norm=ROTATED)
  )
  assert fields['use_qk_norm'] is True
  with pytest.raises(WeightsError, match='use_qk_norm .* is False; only True'):
    parse(fields | dict(use_qk_norm=False))


def test_qwen3_5_without_linear_layers_keeps_no_sizes_of_them():
  fields = hf_config.make(variants.get('qwen3.5-0.8b'))
  config = parse(fields | dict(layer_types=[FULL] * 24))
  assert config.layer_types is None and not config.linear_kernel
  assert parse(hf_config.make(config)) == config
  every = {k: v for k, v in fields.items() if k != 'layer_types'}
  assert parse(every | dict(full_attention_interval=1)) == config
  assert parse(every).mixers == (*[LINEAR] * 3, ATTENTION) * 6


def test_qwens_windows_begin_at_a_layer_or_are_listed():
  slides = QWEN2 | dict(
      use_sliding_window=True, sliding_window=64, max_window_layers=3
  )
  config = parse(slides)
  assert config.layer_types == (FULL, FULL, FULL, SLIDING)
  assert config.sliding_window == 64
  assert hf_config.make(config)['max_window_layers'] == 3
  listed = parse(slides | dict(layer_types=[SLIDING, FULL, FULL, SLIDING]))
  assert listed.layer_types == (SLIDING, FULL, FULL, SLIDING)
  assert parse(slides | dict(max_window_layers=28)).layer_types is None
  assert parse(slides | dict(max_window_layers=28)).sliding_window is None


def test_a_window_of_null_is_no_window():
  # As in transformers: null is not the default of an absent field.
  fields = QWEN2 | dict(
      use_sliding_window=True, sliding_window=None, max_window_layers=1
  )
  assert parse(fields).layer_types is None
  with pytest.raises(WeightsError, match='sliding_window must be at least 1'):
    parse(PUBLISHED['gemma3-1b'] | dict(sliding_window=None))
  transformers = pytest.importorskip('transformers')
  theirs = transformers.AutoConfig.for_model(**fields)
  assert set(theirs.layer_types) == {FULL}


def test_a_scaling_added_to_a_file_of_transformers_5_keeps_its_base():
  # Such files have rope_parameters; Qwen's card says to add a rope_scaling, with
  # which transformers 5.23 takes 10000 for the base.
  fields = hf_config.make(variants.get('qwen3-4b'))
  del fields['rope_theta'], fields['rope_scaling']
  assert parse(fields).rope_scaling is None
  config = parse(fields | dict(rope_scaling=dict(rope_type='yarn', factor=4.0)))
  assert config.rope_theta == 1e6 and config.rope_scaling.factor == 4.0


def test_the_factor_of_yarn_follows_from_the_lengths():
  yarn = dict(type='yarn', original_max_position_embeddings=32768)
  scaling = parse(QWEN2 | dict(rope_scaling=yarn)).rope_scaling
  assert scaling == rotary.Scaling(
      'yarn', factor=4.0, original_max_positions=32768
  )
  del yarn['original_max_position_embeddings']
  scaling = parse(QWEN2 | dict(rope_scaling=yarn | dict(factor=2))).rope_scaling
  assert scaling.original_max_positions == 131072 and scaling.factor == 2


@pytest.mark.parametrize('name', PUBLISHED)
def test_attention_to_what_follows_is_refused(name):
  fields = PUBLISHED[name]
  fields = fields.get('text_config', fields)
  parse(fields | dict(is_causal=True))
  with pytest.raises(WeightsError, match='is_causal of .* is False; only True'):
    parse(fields | dict(is_causal=False))


@pytest.mark.parametrize(
    'name, heads',
    [('qwen2.5-14b', 32), ('smollm3-3b', 4), ('qwen3-30b-a3b', 4)],
)
def test_heads_of_keys_left_out_are_those_of_transformers(name, heads):
  transformers = pytest.importorskip('transformers')
  # 32 of Qwen2 must divide the heads of queries.
  fields = PUBLISHED[name] | dict(num_attention_heads=32)
  del fields['num_key_value_heads']
  theirs = transformers.AutoConfig.for_model(**fields)
  assert parse(fields).num_kv_heads == theirs.num_key_value_heads == heads
  # null is no default: each head of queries has its own.
  if name != 'qwen3-30b-a3b':  # transformers refuses it
    fields['num_key_value_heads'] = None
    theirs = transformers.AutoConfig.for_model(**fields)
    assert parse(fields).num_kv_heads == theirs.num_key_value_heads == 32


# Sizes that no family has as defaults: all that is left out is.
SPARSE = dict(
    vocab_size=61,
    hidden_size=128,
    intermediate_size=48,
    num_hidden_layers=8,
    num_attention_heads=32,
    head_dim=128,
)


@pytest.mark.parametrize('name', families.FAMILIES)
def test_fields_left_out_are_those_of_transformers(name):
  transformers = pytest.importorskip('transformers')
  fields = dict(model_type=name) | SPARSE
  if name == 'qwen3_moe':
    fields |= dict(
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8
    )
  if name == 'gemma4_text':
    fields |= dict(vocab_size_per_layer_input=61)
  for absent in ('rms_norm_eps', 'head_dim'):
    fields.pop(absent, None)
    theirs = transformers.AutoConfig.for_model(**fields).to_dict()
    assert parse(fields) == parse(theirs)


def refused(name, changes, message):
  return pytest.param(name, changes, message, id=f'{name} {message}')


@pytest.mark.parametrize(
    'name, changes, message',
    [
        refused(
            'qwen2.5-14b', dict(attention_bias=True), 'attention_bias of .*Tr'
        ),
        refused('qwen3-4b', dict(mlp_bias=True), 'mlp_bias of .* is True'),
        refused('smollm3-3b', dict(mlp_bias='no'), "mlp_bias of .* is 'no'"),
        refused('qwen2.5-14b', dict(hidden_act='relu'), "hidden_act .*'relu'"),
        refused(
            'qwen2.5-14b',
            dict(quantization_config=dict(bits=4)),
            'quantization_config of .*bits',
        ),
        refused(
            'qwen3-30b-a3b', dict(mlp_only_layers=[0]), r'mlp_only_layers .*\[0'
        ),
        refused(
            'qwen3-30b-a3b', dict(decoder_sparse_step=2), 'decoder_sparse_step'
        ),
        refused(
            'qwen3-next-80b-a3b', dict(mlp_only_layers=[3]), r'\[3\]; only'
        ),
        refused(
            'qwen3-next-80b-a3b',
            dict(shared_expert_intermediate_size=0),
            'shared_expert_intermediate_size of .* is 0; it must',
        ),
        refused(
            'qwen3.5-35b-a3b', dict(attn_output_gate=False), 'is False; only'
        ),
        refused(
            'qwen3-30b-a3b',
            dict(use_sliding_window=True),
            'use_sliding_window of .* is True',
        ),
        refused(
            'qwen3-30b-a3b', dict(num_experts_per_tok=129), '128 experts need 1'
        ),
        refused(
            'gemma3-1b',
            dict(final_logit_softcapping=30.0),
            'final_logit_softcapping of .* is 30.0; only None',
        ),
        refused(
            'gemma3-1b', dict(attn_logit_softcapping=50.0), 'attn_logit_softcap'
        ),
        refused(
            'gemma3-1b',
            dict(use_bidirectional_attention=True),
            'use_bidirectional_attention',
        ),
        refused('gemma3-1b', dict(hidden_activation='gelu'), "'gelu'; only"),
        *(
            refused('gemma4-12b', *case)
            for case in (
                (dict(enable_moe_block=True), 'enable_moe_block .* is True'),
                (
                    dict(hidden_size_per_layer_input=256),
                    'hidden_size_per_layer_input .* is 256; only 0',
                ),
                (
                    dict(use_bidirectional_attention='all'),
                    "use_bidirectional_attention .* is 'all'; only None",
                ),
            )
        ),
        *(
            refused('gemma4', *case)
            for case in (
                (
                    dict(enable_moe_block=True),
                    'enable_moe_block .* is True; only False .*both an MLP and',
                ),
                (
                    dict(use_bidirectional_attention='all'),
                    "use_bidirectional_attention .* is 'all'; only None",
                ),
                (
                    dict(vocab_size_per_layer_input=9),
                    'vocab_size_per_layer_input of .* is 9; only that',
                ),
                (dict(layer_types=[FULL] * 34 + [SLIDING]), "ends in 'sliding"),
                (
                    dict(num_kv_shared_layers=35),
                    'kv_shared_layers=35 must leave one of the 35',
                ),
                (
                    dict(num_kv_shared_layers=32, layer_types=_LATE),
                    'leaves no layer of type full_attention with',
                ),
                (dict(global_head_dim=0), 'head_dim of the full layers of'),
                (dict(per_layer_config=[]), r'per_layer_config .* is \[\]; it'),
                (
                    dict(per_layer_config={'4': dict(head_dim=8)}),
                    'only one shape of all layers that layer_types calls',
                ),
                (
                    dict(per_layer_config={'4': dict(hidden_size=8)}),
                    'of objects with some of head_dim, num_key_value_heads',
                ),
                (
                    dict(final_logit_softcapping=0.0),
                    'final_logit_soft.* is 0.0',
                ),
                (dict(rope_scaling=dict(factor=2)), 'rope_scaling of .*only N'),
                (
                    dict(use_double_wide_mlp=1),
                    'use_double_wide_mlp .* is 1; it',
                ),
            )
        ),
        refused(
            'gemma3-1b',
            dict(sliding_window=0),
            'sliding_window .* is 0; it must be a whole number from 1',
        ),
        refused(
            'gemma3-1b', dict(layer_types=[FULL]), 'layer_types .* has 1 entr'
        ),
        refused(
            'smollm3-3b',
            dict(no_rope_layers=[1, 0]),
            'no_rope_layers .* has 2 ent',
        ),
        refused(
            'llama3.2-3b', dict(partial_rotary_factor=0.5), 'partial_rotary_fac'
        ),
        refused(
            'llama3.2-3b',
            dict(rope_scaling=dict(rope_type='proportional', factor=4.0)),
            "rope_scaling of .*'proportional' is not of this family",
        ),
        refused(
            'gemma3-1b',
            dict(sliding_window_pattern=0),
            'pattern .* is 0; it mus',
        ),
        refused(
            'qwen3-4b', dict(num_hidden_layers='many'), "is 'many'; it must be"
        ),
        refused(
            'qwen3-4b',
            dict(rope_parameters={FULL: dict(rope_theta=1e6)}),
            "'default' has no full_attention",
        ),
        refused(
            'llama3.2-3b',
            dict(rope_scaling=dict(rope_type='linear')),
            "rotary type 'linear' needs a factor",
        ),
        refused(
            'llama3.2-3b',
            dict(
                rope_scaling=dict(rope_type='linear', factor=2.0, beta_fast=9)
            ),
            "'linear' has no beta_fast",
        ),
        refused(
            'ministral3-3b',
            dict(rope_scaling=dict(rope_type='yarn', factor=2.0)),
            "rotary type 'yarn' lacks llama_4_scaling_beta",
        ),
        refused(
            'ministral3-3b',
            dict(layer_types=[SLIDING] * 26),
            'layer_types of .* contradicts sliding_window=None',
        ),
        refused(
            'phi4-14b',
            dict(rope_scaling=dict(rope_type='linear', factor=2.0)),
            "'linear' is not of this family; known: longrope",
        ),
        refused(
            'phi4-14b',
            dict(
                rope_scaling=dict(
                    rope_type='su',
                    short_factor=[1.0] * 63,
                    long_factor=[2.0] * 64,
                )
            ),
            '128 rotated dimensions need 64 entries of short_factor, got 63',
        ),
        refused(
            'phi4-14b',
            dict(rope_scaling=dict(rope_type='su', short_factor=[0.0] * 64)),
            r'short_factor is \[0.0, ',
        ),
        refused(
            'phi4-14b',
            dict(partial_rotary_factor=0.01, rope_parameters=None),
            'rotates 1 of 128 dim',
        ),
        refused(
            'mistral-7b-v0.3', dict(attention_bias=True), 'attention_bias .* Tr'
        ),
        refused(
            'granite3.3-2b',
            dict(logits_scaling=0),
            'logits_scaling .* is 0; it',
        ),
        refused(
            'olmo3-7b',
            dict(sliding_window_pattern=6),
            'sliding_window_pattern of .* is 6; only 4',
        ),
        refused(
            'llama3.2-3b',
            dict(rope_scaling=dict(rope_type='default', mrope_section=[1])),
            "'default' has no mrope_section",
        ),
    ],
)
def test_what_the_decoder_does_not_have_is_refused(name, changes, message):
  if name == 'gemma4':
    fields = PUBLISHED['gemma4-e2b']['text_config']
  else:
    fields = PUBLISHED.get(name) or hf_config.make(variants.get(name))
    fields = fields.get('text_config', fields)
  with pytest.raises(WeightsError, match=message):
    parse(fields | changes)


@pytest.mark.parametrize('length', [0, 2**31, 1e300])
def test_positions_beyond_what_a_program_counts_are_refused(length):
  rope = dict(
      rope_type='yarn',
      rope_theta=1e6,
      factor=16.0,
      original_max_position_embeddings=length,
      mscale=1.0,
      mscale_all_dim=1.0,
      llama_4_scaling_beta=0.1,
  )
  fields = hf_config.make(variants.get('ministral3-3b'))
  fields |= dict(rope_scaling=None, rope_parameters=rope)
  with pytest.raises(WeightsError, match='original_max_position_embeddings is'):
    parse(fields)


def test_every_model_type_of_transformers_is_read_or_refused_by_name():
  auto = pytest.importorskip('transformers.models.auto.modeling_auto')
  listed = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
  assert families.FAMILIES.keys() <= listed.keys()
  for name, architecture in listed.items():
    if name in families.FAMILIES:
      assert families.FAMILIES[name].architecture == architecture
    elif name not in families.TEXT_PARTS:
      reason = re.escape(f'Its network has {lacked.LACKED[name]}. Train a')
      with pytest.raises(WeightsError, match=f'is {name!r}; .*{reason}'):
        parse(dict(model_type=name))
  known = {*families.FAMILIES, *families.TEXT_PARTS}
  assert not known & lacked.LACKED.keys()


def test_only_full_layers_of_gemma_may_be_scaled():
  fields = hf_config.make(variants.get('gemma3-4b'))
  del fields['rope_scaling']
  fields['rope_parameters'][SLIDING]['rope_type'] = 'linear'
  with pytest.raises(WeightsError, match='only full_attention may be scaled'):
    parse(fields)


def test_a_model_of_text_and_images_needs_its_text_part():
  with pytest.raises(WeightsError, match='has no text_config'):
    parse(dict(model_type='gemma3'))
  with pytest.raises(WeightsError, match="'llama'; known in 'mistral3': mist"):
    parse(dict(model_type='mistral3', text_config=dict(model_type='llama')))
  text = {k: v for k, v in PUBLISHED['llama3.2-3b'].items() if k[0] != 'm'}
  config = parse(dict(model_type='mistral3', text_config=text))
  assert config.family == 'mistral' and config.sliding_window == 4096
  quantised = PUBLISHED['gemma3-27b'] | dict(quantization_config=dict(bits=8))
  with pytest.raises(WeightsError, match='quantization_config'):
    parse(quantised)


SMALL = dict(
    vocab_size=61,
    hidden_size=32,
    intermediate_size=48,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
)


@pytest.mark.parametrize(
    'changes, message',
    [
        (dict(qk_norm=True), "family 'llama' cannot say qk_norm=head"),
        (dict(family='qwen2'), 'cannot say qkv_bias=False'),
        (dict(family='gemma3_text'), "hidden_activation of .* is 'silu'; only"),
        (
            dict(layer_types=[SLIDING, FULL], sliding_window=8),
            'cannot say sliding_window=8',
        ),
        (dict(rope_layers=[True, False]), 'cannot say rope_layers='),
        (dict(family='qwen9'), "Unknown family 'qwen9'; known: llama, mistral"),
    ],
)
def test_what_a_family_s_files_cannot_say_is_refused(changes, message):
  with pytest.raises(WeightsError, match=message):
    hf_config.make(TransformerConfig(**SMALL, **changes))


def test_every_scaling_is_written_and_read():
  longrope = rotary.Scaling(
      'longrope',
      2.0,
      original_max_positions=512,
      short_factor=(1.0, 1.5, 2.0, 2.5),
      long_factor=(3.0, 4.0, 5.0, 6.0),
  )
  alpha = rotary.Scaling('dynamic', 1.0, alpha=1000.0)
  beta = rotary.Scaling('yarn', 4.0, original_max_positions=512, query_beta=0.1)
  for scaling, fields in (
      (longrope, dict(family='phi3')),
      (alpha, dict(family='hunyuan_v1_dense', qk_norm=ROTATED)),
      (beta, dict(family='ministral3')),
  ):
    config = TransformerConfig(**SMALL, **fields, rope_scaling=scaling)
    written = json.loads(json.dumps(hf_config.make(config)))
    assert parse(written) == config
    as_json = json.loads(json.dumps(dataclasses.asdict(config)))
    assert TransformerConfig(**as_json) == config
    # Files of other families have no word for it.
    if scaling is not longrope:
      with pytest.raises(WeightsError, match='cannot say rope_scaling='):
        hf_config.make(TransformerConfig(**SMALL, rope_scaling=scaling))
  for scaling in (
      rotary.Scaling('linear', 3.0),
      rotary.Scaling('dynamic', 2.0),
      rotary.Scaling(
          'yarn',
          4.0,
          original_max_positions=512,
          beta_fast=16.0,
          mscale=0.7,
          mscale_all_dim=0.9,
          truncate=False,
      ),
  ):
    config = TransformerConfig(**SMALL, rope_scaling=scaling)
    assert parse(hf_config.make(config)) == config
    as_json = dataclasses.asdict(config)
    assert TransformerConfig(**as_json) == config
