"""Tests of GGUF files of every architecture: networks against transformers.

A small random model of transformers is written as llama.cpp's converter would, and
read back.
"""

import dataclasses

import gguf as gguf_lib
import jax
import numpy as np
import pytest

from agentrl.errors import WeightsError
from agentrl.models import transformer
from agentrl.weights import hf, hf_config
from agentrl.weights.gguf import architectures, files
from tests import tiny
from tests.models import hugging_face
from tests.weights.gguf import converter

# Float32 sums in another order; the largest logits are about 20.
CLOSE = dict(rtol=5e-5, atol=5e-5)
ROWS, LENGTH = 2, 40
_LINEAR = dict(rope_type='linear', factor=2.5, rope_theta=700.0)
_YARN = dict(
    rope_type='yarn',
    factor=4.0,
    original_max_position_embeddings=16,
    beta_fast=4.0,
    rope_theta=1e4,
)
_PLAIN = dict(rope_type='default', rope_theta=5e5)
# The size of its heads is always the width over their number.
_GRANITE = dict(hidden_size=32, num_attention_heads=4, head_dim=8)


_HYBRID = dict(
    num_hidden_layers=4,
    layer_types=['linear_attention'] * 3 + ['full_attention'],
    attention_bias=False,
)


def _by_kind(full, theta):
  sliding = dict(rope_type='default', rope_theta=theta)
  return dict(full_attention=full, sliding_attention=sliding)


def _gemma4(kinds, *, part=0.5, inputs=0, **others):
  names = dict(S='sliding_attention', F='full_attention')
  full = dict(
      rope_type='proportional', partial_rotary_factor=part, rope_theta=1e4
  )
  own = {} if inputs is None else dict(hidden_size_per_layer_input=inputs)
  return dict(
      num_hidden_layers=len(kinds),
      layer_types=[names[x] for x in kinds],
      rope_parameters=_by_kind(full, 300.0),
      attention_bias=False,
      **own,
      **dict(
          num_kv_shared_layers=0,
          num_global_key_value_heads=None,
          attention_k_eq_v=False,
          use_double_wide_mlp=False,
          final_logit_softcapping=None,
      )
      | others,
  )


# A model of `hugging_face`, what is changed of it (to what a GGUF file can say),
# and what of the config the file does not say, as it is read.
CASES = {
    'llama': ('llama, linear', {}, {}),
    'llama, biases': ('llama, biases', {}, {}),
    'mistral': (
        'mistral 2',
        dict(sliding_window=None, rope_parameters=_YARN),
        dict(family='llama'),
    ),
    'ministral3': ('ministral3 6', dict(sliding_window=None), {}),
    'ministral3, long': ('ministral3 3', dict(sliding_window=None), {}),
    'qwen2': ('qwen2, yarn', {}, {}),
    'qwen3': ('qwen3', {}, {}),
    'qwen3_moe': ('qwen3_moe', {}, {}),
    'qwen3_moe, biases': (
        'qwen3_moe, biases',
        dict(norm_topk_prob=True),
        {},
    ),
    'qwen3_5_text': (
        'qwen3_5_text 1',
        dict(
            num_hidden_layers=4,
            layer_types=['linear_attention'] * 3 + ['full_attention'],
            linear_num_key_heads=2,
            linear_num_value_heads=6,
            attention_bias=False,
        ),
        {},
    ),
    'qwen3_5_text, biases': (
        'qwen3_5_text 4',
        dict(
            num_hidden_layers=2,
            layer_types=['linear_attention', 'full_attention'],
            linear_num_key_heads=2,
            linear_num_value_heads=2,
            attention_bias=True,
        ),
        {},
    ),
    'qwen3_5_moe_text': (
        'qwen3_5_moe_text 3',
        dict(**_HYBRID, linear_num_key_heads=2, linear_num_value_heads=6),
        {},
    ),
    'qwen3_5_moe_text, as many heads': (
        'qwen3_5_moe_text 2',
        dict(**_HYBRID, linear_num_key_heads=3, linear_num_value_heads=3),
        {},
    ),
    'qwen3_next': (
        'qwen3_next 1',
        dict(
            **_HYBRID,
            linear_num_key_heads=2,
            linear_num_value_heads=6,
            norm_topk_prob=True,
        ),
        {},
    ),
    'qwen3_next, as many heads': (
        'qwen3_next 2',
        dict(
            **_HYBRID,
            linear_num_key_heads=3,
            linear_num_value_heads=3,
            norm_topk_prob=True,
        ),
        {},
    ),
    'lfm2': ('lfm2 1', dict(rope_parameters=_PLAIN), {}),
    'lfm2, another inner size': (
        'lfm2 2',
        dict(rope_parameters=_PLAIN, block_auto_adjust_ff_dim=True),
        {},
    ),
    'smollm3': (
        'smollm3',
        dict(no_rope_layer_interval=4, num_hidden_layers=5),
        {},
    ),
    'granite': (
        'granite 6',
        dict(**_GRANITE, rope_parameters=_LINEAR),
        {},
    ),
    'granite, biases': (
        'granite 1',
        dict(
            **_GRANITE,
            rope_parameters=_YARN,
            attention_bias=True,
            mlp_bias=True,
        ),
        {},
    ),
    'gemma3': (
        'gemma3',
        dict(
            num_hidden_layers=7,
            sliding_window_pattern=6,
            query_pre_attn_scalar=12,
        ),
        {},
    ),
    'gemma3, bases': (
        'gemma3',
        dict(
            num_hidden_layers=6,
            sliding_window_pattern=6,
            query_pre_attn_scalar=12,
            rope_scaling=None,
            rope_parameters=_by_kind(_PLAIN, 300.0),
        ),
        {},
    ),
    'gemma4_text': (
        'gemma4_text 1',
        _gemma4('SSFSSF', part=0.25, num_kv_shared_layers=2, inputs=6),
        {},
    ),
    'gemma4_text, wide': (
        'gemma4_text 3',
        _gemma4(
            'SFSFSF',
            num_kv_shared_layers=3,
            inputs=4,
            use_double_wide_mlp=True,
            final_logit_softcapping=3.0,
        ),
        {},
    ),
    'gemma4_text, tied values': (
        'gemma4_text 3',
        _gemma4('SSF', attention_k_eq_v=True, num_global_key_value_heads=1),
        {},
    ),
    'gemma4_text, no windows': (
        'gemma4_text 4',
        _gemma4('FF', attention_k_eq_v=True),
        {},
    ),
    'gemma4_unified_text': (
        'gemma4_unified_text 1',
        _gemma4('SF', attention_k_eq_v=True, inputs=None),
        dict(family='gemma4_text'),
    ),
    'olmo2': ('olmo2 4', dict(rope_parameters=_LINEAR), {}),
    'olmo2, biases': (
        'olmo2 1',
        dict(rope_parameters=_PLAIN, attention_bias=True),
        {},
    ),
    'olmo3': (
        'olmo3 7',
        dict(
            num_hidden_layers=5,
            rope_parameters=_by_kind(_YARN | dict(attention_factor=1.25), 1e4),
        ),
        {},
    ),
    'olmo3, other windows': (
        'olmo3 2',
        dict(
            num_hidden_layers=2,
            rope_parameters=_by_kind(_PLAIN, 700.0),
            layer_types=['full_attention', 'sliding_attention'],
        ),
        {},
    ),
    'glm4': ('glm4 1', {}, {}),
    'glm4, biases': (
        'glm4 2',
        dict(
            attention_bias=True,
            rope_parameters=_PLAIN | dict(partial_rotary_factor=0.5),
        ),
        {},
    ),
    'phi3': ('phi3 1', {}, {}),
    'phi3, windows': ('phi3 4', dict(sliding_window=6), {}),
    'seed_oss': ('seed_oss 9', dict(rope_parameters=_PLAIN), {}),
    'seed_oss, biases': (
        'seed_oss 2',
        dict(
            rope_parameters=_LINEAR,
            attention_bias=True,
            attention_out_bias=False,
            mlp_bias=True,
        ),
        {},
    ),
    'hunyuan_v1_dense': (
        'hunyuan_v1_dense 4',
        dict(
            rope_parameters=dict(
                rope_type='dynamic', factor=1.0, alpha=3.0, rope_theta=1e4
            )
        ),
        dict(rope_theta=None, rope_scaling=None, max_positions=256 * 1024),
    ),
    'hunyuan_v1_dense, plain': (
        'hunyuan_v1_dense 2',
        dict(rope_parameters=_PLAIN),
        {},
    ),
    'gpt_oss': (
        'gpt_oss 1',
        dict(
            swiglu_limit=7.0,
            attention_bias=True,
            rope_parameters=_YARN | dict(truncate=False),
        ),
        {},
    ),
    'gpt_oss, plain': (
        'gpt_oss 2',
        dict(swiglu_limit=7.0, attention_bias=False, rope_parameters=_PLAIN),
        {},
    ),
}


def _in_float32(config):
  """A config whose divisors of frequencies are those of a float32 tensor."""
  scaling = config.rope_scaling
  if scaling is None or scaling.kind != 'longrope':
    return config
  short = lambda values: tuple(float(str(np.float32(x))) for x in values)
  scaling = dataclasses.replace(
      scaling,
      short_factor=short(scaling.short_factor),
      long_factor=short(scaling.long_factor),
  )
  return dataclasses.replace(config, rope_scaling=scaling)


# Those that test a combination of what others test.
_SLOW = [name for name in CASES if ',' in name]


@pytest.mark.parametrize(
    'name',
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in _SLOW))
        for name in CASES
    ],
)
def test_a_file_gives_the_logits_of_its_model(name, tmp_path):
  source, changes, unsaid = CASES[name]
  theirs = hugging_face.make(source, **changes)
  path = converter.write(tmp_path / 'a.gguf', theirs)
  config, params = files.load(path)
  rng = np.random.default_rng(0)
  tokens = rng.integers(0, 61, (ROWS, LENGTH)).astype(np.int32)
  expected = hugging_face.logits(theirs, tokens)
  assert np.abs(expected).max() > 1  # the comparison is about something
  positions = np.tile(np.arange(LENGTH, dtype=np.int32), (ROWS, 1))
  actual, _ = tiny.run_decoder(
      transformer.Transformer(config, scan_layers=True),
      params,
      tokens,
      positions,
      np.ones((ROWS, LENGTH), np.int32),
  )
  np.testing.assert_allclose(actual, expected, **CLOSE)
  theirs.save_pretrained(tmp_path / 'folder')
  saved = _in_float32(hf.load_config(tmp_path / 'folder'))
  unsaid = {
      field: getattr(config, field) if value is None else value
      for field, value in unsaid.items()
  }
  assert config == dataclasses.replace(saved, **unsaid)
  hf_config.make(config)  # raises if it could not be exported


# transformers reads neither scalings nor the size of a head or of an expert, but
# for its defaults, and not the other architectures.
READ_BY_TRANSFORMERS = {
    'llama': ('llama, linear', dict(rope_scaling=None, rope_parameters=_PLAIN)),
    'qwen2': ('qwen2', {}),
    'qwen3': ('qwen3', dict(head_dim=128)),
    'qwen3moe': ('qwen3_moe', dict(moe_intermediate_size=768)),
    'qwen35': CASES['qwen3_5_text'][:2],
    'lfm2': CASES['lfm2'][:2],
    'gemma3': (
        'gemma3',
        dict(
            head_dim=256,
            num_hidden_layers=7,
            sliding_window_pattern=6,
            query_pre_attn_scalar=256,
            rope_scaling=None,
        ),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize('name', READ_BY_TRANSFORMERS)
def test_transformers_reads_the_same_network(name, tmp_path):
  """The judge of the files that the tests write, where there is one."""
  transformers = pytest.importorskip('transformers')
  source, changes = READ_BY_TRANSFORMERS[name]
  theirs = hugging_face.make(source, **changes)
  converter.write(tmp_path / 'a.gguf', theirs)
  read = transformers.AutoModelForCausalLM.from_pretrained(
      tmp_path, gguf_file='a.gguf', dtype='float32'
  ).eval()
  tokens = np.random.default_rng(0).integers(0, 61, (ROWS, LENGTH))
  expected = hugging_face.logits(theirs, tokens)
  np.testing.assert_allclose(
      hugging_face.logits(read, tokens), expected, **CLOSE
  )


def test_every_architecture_has_a_case():
  written = {
      converter.ARCHITECTURES.get(family, family)
      for family in (name.split(',')[0] for name in CASES)
  }
  assert written == set(architectures.ARCHITECTURES)


# Model, changes of its metadata (None leaves a field out), message.
REFUSED = {
    'experts of Mixtral': (
        'llama',
        {'expert_count': 8},
        'expert_count .* 8, wh',
    ),
    'windows of a Llama': (
        'llama',
        {'attention.sliding_window': 4096},
        'llama.attention.sliding_window .* is 4096, which the network does not',
    ),
    'soft caps': (
        'gemma3',
        {'final_logit_softcapping': 30.0},
        'gemma3.final_logit_softcapping .* is 30',
    ),
    'no positions': (
        'granite',
        {'rope.scaling.finetuned': False},
        'granite.rope.scaling.finetuned .* is False, which the network',
    ),
    'no scale of logits': ('granite', {'logit_scale': None}, 'logit_scale'),
    'sections': (
        'glm4',
        {'rope.dimension_sections': [1, 1, 0, 0]},
        'glm4.rope.dimension_sections .*, which the network does not have',
    ),
    'values of another size': (
        'qwen3',
        {'attention.value_length': 8},
        (
            'attention.value_length of .* is 8; only values of the size of'
            ' keys, 12'
        ),
    ),
    'layers of another number': (
        'olmo3',
        {'attention.sliding_window_pattern': [True, False]},
        'sliding_window_pattern of .* one true or false for each of 5 layers',
    ),
    'no experts': (
        'qwen3_moe',
        {'expert_used_count': None},
        'expert_used_count',
    ),
    'experts of another number': (
        'qwen3_moe',
        {'expert_count': 4},
        'has shape .*; its configuration asks for',
    ),
    'units of another width': (
        'gpt_oss',
        {'expert_feed_forward_length': 20},
        r'gate_up_exps.* has shape \[2, .*\]; its configuration asks for',
    ),
    'another scaling': (
        'ministral3',
        {'rope.scaling.type': 'linear'},
        "rotary scaling 'linear', which is not of this family; known: yarn",
    ),
    'growing queries without a scaling': (
        'ministral3',
        {'rope.scaling.type': None},
        'temperature_scale .*, which the network does not have',
    ),
    'a scaling without a factor': (
        'qwen2',
        {'rope.scaling.factor': None},
        'has no field qwen2.rope.scaling.factor',
    ),
    'another amplitude': (
        'phi3, windows',
        {'rope.scaling.attn_factor': 1.9},
        'rope.scaling.attn_factor of .* is 1.89.*; its lengths make it',
    ),
    'another base in windows': (
        'gpt_oss',
        {'rope.freq_base_swa': 9.0},
        'gpt-oss.rope.freq_base_swa of .* is 9.0; only layers that are rotated',
    ),
    'endless rows': (
        'ministral3',
        {'rope.scaling.original_context_length': 2**31},
        'original_context_length .* is 2147483648; it must be a whole number',
    ),
    'heads of keys of another number': (
        'lfm2',
        {'attention.head_count_kv': [2, 1, 0, 0]},
        'head_count_kv of .*; only one number of all layers of attention',
    ),
    'heads of keys of too few layers': (
        'lfm2',
        {'attention.head_count_kv': [2, 0]},
        'head_count_kv of .*; it must be one number for each of . layers',
    ),
    'heads of no size': (
        'qwen3_5_text',
        {'ssm.inner_size': 7},
        (
            'qwen35.ssm.inner_size of .* is 7; it must be a multiple of its 6'
            ' heads'
        ),
    ),
    'only layers that guess': (
        'qwen3_5_text',
        {'nextn_predict_layers': 4},
        'nextn_predict_layers of .* is 4; it must be less than its 4 layers',
    ),
    'experts of Gemma 4': (
        'gemma4_text',
        {'expert_count': 8},
        'gemma4.expert_count of .* is 8, which the network does not have',
    ),
    'a window in the last layer of Gemma 4': (
        'gemma4_text, tied values',
        {'attention.sliding_window_pattern': [True, False, True]},
        'pattern of .*; the last layer of this family has no window',
    ),
    'values of another size in the windows of Gemma 4': (
        'gemma4_text',
        {'attention.value_length_swa': 8},
        'value_length_swa of .* is 8; only the size of keys, 6,',
    ),
    'a part of the heads of Gemma 4': (
        'gemma4_text',
        {'rope.dimension_count': 2},
        'rope.dimension_count of .* is 2; only the size of keys, 8,',
    ),
    'heads of keys that differ within a kind': (
        'gemma4_text, tied values',
        {'attention.head_count_kv': [1, 2, 1]},
        'head_count_kv of .*; only one number of all layers of a kind',
    ),
    'wider MLPs elsewhere': (
        'gemma4_text, wide',
        {'feed_forward_length': [36, 72, 36, 36, 72, 72]},
        (
            'feed_forward_length of .*; only one number, and twice that in the'
            ' last 3'
        ),
    ),
    'inner sizes of too few layers': (
        'gemma4_text, wide',
        {'feed_forward_length': [36, 72]},
        (
            'feed_forward_length of .*; it must be one number, or one for each'
            ' of 6'
        ),
    ),
    'no kinds': (
        'gemma4_text',
        {'attention.sliding_window_pattern': None},
        'has no field gemma4.attention.sliding_window_pattern',
    ),
    'no base of windows': (
        'gemma4_text',
        {'rope.freq_base_swa': None},
        'has no field gemma4.rope.freq_base_swa',
    ),
    'no size of the MLP beside the experts': (
        'qwen3_next',
        {'expert_shared_feed_forward_length': None},
        'has no field qwen3next.expert_shared_feed_forward_length',
    ),
    'experts whose weights do not sum to 1': (
        'qwen3_5_moe_text',
        {'expert_weights_norm': False},
        'expert_weights_norm of .* is False, which the network does not have',
    ),
    'kinds of layers one by one': (
        'qwen3_next',
        {'attention.recurrent_layers': [True, False, True, False]},
        'attention.recurrent_layers of .*, which the network does not have',
    ),
    'other heads of keys': (
        'qwen3_next',
        {'ssm.group_count': 3},
        'attn_qkv.weight and .*attn_gate.weight of .* asks for .* rows',
    ),
    'heads that do not divide': (
        'qwen3_5_text',
        {'ssm.group_count': 4},
        '6 heads of values do not divide over 4 of keys',
    ),
    'an endless factor': (
        'qwen2',
        {'rope.scaling.factor': 0.0},
        'The factor of a rotary scaling must be at least 1',
    ),
}


@pytest.mark.parametrize('name', REFUSED)
def test_another_network_is_refused_by_name(name, tmp_path):
  case, changes, message = REFUSED[name]
  source, others, _ = CASES[case]
  theirs = hugging_face.make(source, **others)
  path = converter.write(tmp_path / 'a.gguf', theirs, **changes)
  with pytest.raises(WeightsError, match=message):
    files.load(path)


def test_gemma_4_and_qwen_3_next_are_read_as_other_converters_write_them(
    tmp_path,
):
  """Older files of Qwen3-Next, published ones of Gemma 4, and their variants."""

  def read(case, **how):
    source, changes, _ = CASES[case]
    theirs = hugging_face.make(source, **changes)
    plain = files.load(converter.write(tmp_path / 'a.gguf', theirs))
    how = {k: v(theirs) if callable(v) else v for k, v in how.items()}
    other = files.load(converter.write(tmp_path / 'b.gguf', theirs, **how))
    assert other[0] == plain[0]
    jax.tree.map(np.testing.assert_array_equal, other[1], plain[1])

  state = lambda theirs: {
      name: value.detach().numpy()
      for name, value in theirs.state_dict().items()
  }
  ours = [f'blk.{i}.attn_{x}.weight' for i in range(3) for x in ('qkv', 'gate')]
  whole = 'model.layers.{}.linear_attn.in_proj_qkvz.weight'
  read(
      'qwen3_next',
      drop=ours,
      add=lambda theirs: {
          f'blk.{i}.ssm_in.weight': state(theirs)[whole.format(i)]
          for i in range(3)
      },
  )
  gate = 'mlp.shared_expert_gate.weight'
  vectors = [f'blk.{i}.ffn_gate_inp_shexp.weight' for i in range(4)]
  read(
      'qwen3_5_moe_text',
      drop=vectors,
      add=lambda theirs: {
          name: state(theirs)[f'model.layers.{i}.{gate}'][0]
          for i, name in enumerate(vectors)
      },
  )
  # Keys and values of layers that read those of others.
  more = ('attn_k.weight', 'attn_v.weight', 'attn_k_norm.weight')
  read(
      'gemma4_text',
      add={f'blk.4.{name}': np.ones((8, 8), np.float32) for name in more},
  )


@pytest.mark.parametrize('name', ['short', 'long'])
def test_half_of_the_divisors_is_refused(name, tmp_path):
  theirs = hugging_face.make('phi3 1')
  drop = [f'rope_factors_{name}.weight']
  path = converter.write(tmp_path / 'a.gguf', theirs, drop=drop)
  with pytest.raises(WeightsError, match='it must be the first two'):
    files.load(path)


@pytest.mark.parametrize(
    'divisors, said',
    [
        (None, "has no tensor 'rope_freqs.weight'"),
        ([1, 1, 1, 2], 'must be 4 divisors, 1 of the first pairs and 1e\\+30'),
        ([1, 1e30, 1, 1e30], 'must be 4 divisors'),
        ([1, 1e30], 'must be 4 divisors'),
    ],
)
def test_frequencies_of_gemma_4_are_turned_or_not(divisors, said, tmp_path):
  source, changes, _ = CASES['gemma4_text']
  path = converter.write(
      tmp_path / 'a.gguf',
      hugging_face.make(source, **changes),
      drop=['rope_freqs.weight'],
      add=divisors and {'rope_freqs.weight': np.array(divisors, np.float32)},
  )
  with pytest.raises(WeightsError, match=said):
    files.load(path)


def test_experts_need_no_size_of_another_mlp(tmp_path):
  source, changes, _ = CASES['qwen3_5_moe_text']
  theirs = hugging_face.make(source, **changes)
  path = converter.write(tmp_path / 'a.gguf', theirs, feed_forward_length=None)
  config = files.load_config(path)
  assert config.intermediate_size == config.moe_intermediate_size


def test_layers_that_guess_further_tokens_are_left_out(tmp_path):
  source, changes, _ = CASES['qwen3_5_text']
  theirs = hugging_face.make(source, **changes)
  plain = files.load(converter.write(tmp_path / 'a.gguf', theirs))
  behind = {
      'blk.4.attn_q.weight': np.ones((4, 4), np.float32),
      'blk.4.nextn.eh_proj.weight': np.ones((4, 8), np.float32),
  }
  path = converter.write(
      tmp_path / 'b.gguf',
      theirs,
      add=behind,
      block_count=5,
      nextn_predict_layers=1,
  )
  config, params = files.load(path)
  assert config == plain[0]
  jax.tree.map(np.testing.assert_array_equal, params, plain[1])
  path = converter.write(tmp_path / 'c.gguf', theirs, add=behind)
  with pytest.raises(WeightsError, match='has unknown 2 tensors.*blk.4.attn_q'):
    files.load(path)


def test_a_decay_that_is_none_is_refused(tmp_path):
  source, changes, _ = CASES['qwen3_5_text']
  theirs = hugging_face.make(source, **changes)
  path = converter.write(
      tmp_path / 'a.gguf',
      theirs,
      drop=['blk.1.ssm_a'],
      add={'blk.1.ssm_a': np.array([-1, -1, 0, -1, -1, -1], np.float32)},
  )
  with pytest.raises(
      WeightsError, match="'blk.1.ssm_a' of .* must be negative"
  ):
    files.load(path)


def test_gate_without_up_is_refused(tmp_path):
  source, changes, _ = CASES['gpt_oss']
  path = converter.write(
      tmp_path / 'a.gguf',
      hugging_face.make(source, **changes),
      drop=['blk.0.ffn_up_exps.weight'],
  )
  with pytest.raises(
      WeightsError, match='lacks 1 tensors.*gate_up_exps.weight'
  ):
    files.load(path)


def test_gemma_27b_divides_scores_by_the_width_of_a_head(tmp_path):
  theirs = hugging_face.make('gemma3', num_hidden_layers=62)
  path = converter.write(tmp_path / 'a.gguf', theirs)
  # hidden_size / num_attention_heads, though a head has 12 dimensions.
  assert files.load_config(path).query_pre_attn_scalar == 32 / 4


@pytest.mark.parametrize('rotated, size', [(30, 44), (26, 46), (12, 16)])
def test_the_rotated_part_of_a_head_is_exact(rotated, size, tmp_path):
  rope = _PLAIN | dict(partial_rotary_factor=0.5)
  theirs = hugging_face.make('glm4 1', head_dim=size, rope_parameters=rope)
  changes = {'rope.dimension_count': rotated}
  path = converter.write(tmp_path / 'a.gguf', theirs, **changes)
  assert files.load_config(path).rotary_dim == rotated


def test_experts_of_four_bits_are_those_of_the_gguf_package(tmp_path):
  """gpt-oss as it is downloaded: experts in MXFP4, the rest in floats."""
  source, changes, _ = CASES['gpt_oss']
  theirs = hugging_face.make(
      source, **changes, hidden_size=32, intermediate_size=64
  )
  kind = gguf_lib.GGMLQuantizationType.MXFP4
  is_expert = lambda name, shape: kind if '_exps.weight' in name else None
  path = converter.write(tmp_path / 'a.gguf', theirs, kinds=is_expert)
  config, params = files.load(path)
  rounded = lambda rows: gguf_lib.quants.dequantize(
      gguf_lib.quants.quantize(np.ascontiguousarray(rows), kind), kind
  )
  for i, layer in enumerate(theirs.model.layers):
    both = layer.mlp.experts.gate_up_proj.detach().numpy()  # [E, in, 2 out]
    experts = params['layers']['mlp']['experts_gate_up'][i]
    for start in (0, 1):  # gate, up
      rows = both[:, :, start::2].swapaxes(1, 2)
      actual = experts[:, :, start::2].swapaxes(1, 2)
      np.testing.assert_array_equal(actual, rounded(rows))
    rows = layer.mlp.experts.down_proj.detach().numpy().swapaxes(1, 2)
    actual = params['layers']['mlp']['experts_down'][i].swapaxes(1, 2)
    np.testing.assert_array_equal(actual, rounded(rows))
    assert np.any(rows != rounded(rows))
  assert config.num_experts == 2
