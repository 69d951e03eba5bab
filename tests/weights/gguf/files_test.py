"""Tests for agentrl.weights.gguf.files."""

import dataclasses

import gguf as writer_lib
import jax
import numpy as np
import pytest

from agentrl.errors import WeightsError
from agentrl.models import rotary
from agentrl.models.config import TransformerConfig
from agentrl.weights import names, pretrained
from agentrl.weights.gguf import files
from tests.weights.conftest import random_params

Q8_0 = writer_lib.GGMLQuantizationType.Q8_0


def permute(weight, heads):
  """llama.cpp's order of query and key rows, one row at a time.

  Row i of a head goes to place 2i, row i + D/2 to place 2i + 1.
  """
  size = len(weight) // heads
  out = np.empty_like(weight)
  for head in range(heads):
    for i in range(size // 2):
      out[head * size + 2 * i] = weight[head * size + i]
      out[head * size + 2 * i + 1] = weight[head * size + size // 2 + i]
  return out


def write(
    path,
    model,
    architecture='llama',
    drop=(),
    quantised=(),
    extra=None,
    packed=None,
    parts=None,
    **metadata,
):
  """Writes `model` as llama.cpp's converter lays it out."""
  config, params = model
  writer = writer_lib.GGUFWriter(path, architecture)
  if parts is not None:
    writer.add_uint16('split.count', parts)
  values = {
      'block_count': config.num_layers,
      'context_length': config.max_positions,
      'embedding_length': config.hidden_size,
      'feed_forward_length': config.intermediate_size,
      'attention.head_count': config.num_heads,
      'attention.head_count_kv': config.num_kv_heads,
      'attention.key_length': config.head_dim,
      'attention.layer_norm_rms_epsilon': config.rms_norm_eps,
      'rope.freq_base': config.rope_theta,
  } | metadata
  for name, value in values.items():
    add = {
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
    }.get(type(value))
    if add is not None:
      add(f'{architecture}.{name}', value)
  heads = {'attn_q': config.num_heads, 'attn_k': config.num_kv_heads}
  heads = heads if architecture == 'llama' else {}
  for tensor, index, name in names.file_names(config, lambda t: t.gguf):
    value = params
    for key in tensor.path:
      value = value[key]
    value = value[index]
    value = value.T if tensor.transposed else value
    part = name.split('.')[-2]
    value = permute(value, heads[part]) if part in heads else value
    value = np.ascontiguousarray(value)
    if name in quantised:
      blocks = writer_lib.quants.quantize(value, Q8_0)
      writer.add_tensor(name, blocks, raw_dtype=Q8_0)
    elif name not in drop:
      writer.add_tensor(name, value)
  for name, value in (extra or {}).items():
    writer.add_tensor(name, value)
  for name, (value, kind) in (packed or {}).items():
    writer.add_tensor(name, value, raw_dtype=kind)
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()
  return path


def test_a_written_model_comes_back(model, tmp_path):
  config, params = files.load(write(tmp_path / 'a.gguf', model))
  assert config == model[0]
  jax.tree.map(np.testing.assert_array_equal, params, model[1])


@pytest.mark.parametrize(
    'family, changes',
    [('qwen2', dict(qkv_bias=True)), ('qwen3', dict(qk_norm=True))],
)
def test_qwens_come_back(model, tmp_path, family, changes):
  config = dataclasses.replace(model[0], family=family, **changes)
  params = random_params(config)
  path = write(tmp_path / 'a.gguf', (config, params), architecture=family)
  read, loaded = files.load(path)
  assert read == config
  jax.tree.map(np.testing.assert_array_equal, loaded, params)


def llama3_divisors(theta, dim, factor):
  """What llama.cpp's converter stores, one frequency at a time."""
  divisors = []
  for i in range(dim // 2):
    wavelength = 2 * np.pi * theta ** (2 * i / dim)
    if wavelength < 8192 / 4:
      divisors.append(1.0)
    elif wavelength > 8192 / 1:
      divisors.append(factor)
    else:
      smooth = (8192 / wavelength - 1) / (4 - 1)
      divisors.append(1 / ((1 - smooth) / factor + smooth))
  return np.array(divisors, np.float32)


def test_the_scaling_of_llama_3_is_recognised(model, tmp_path):
  # A base with which some of 8 frequencies are kept, blended and divided.
  config = dataclasses.replace(model[0], rope_theta=500000.0)
  divisors = llama3_divisors(500000.0, 16, 32.0)
  assert divisors[0] == 1 < divisors[4] < divisors[-1]
  path = write(
      tmp_path / 'a.gguf',
      (config, model[1]),
      extra={'rope_freqs.weight': divisors},
  )
  read, params = files.load(path)
  assert read.rope_scaling == rotary.Scaling(
      'llama3',
      factor=32.0,
      original_max_positions=8192,
      low_freq_factor=1.0,
      high_freq_factor=4.0,
  )
  assert dataclasses.replace(read, rope_scaling=None) == config
  jax.tree.map(np.testing.assert_array_equal, params, model[1])


def test_divisors_of_one_scale_nothing(model, tmp_path):
  ones = {'rope_freqs.weight': np.ones(8, np.float32)}
  path = write(tmp_path / 'a.gguf', model, extra=ones)
  assert files.load(path)[0] == model[0]


def test_the_path_decides_who_reads(model, tmp_path):
  path = write(tmp_path / 'a.gguf', model)
  assert pretrained.load_config(path) == pretrained.load(path)[0] == model[0]


def test_quantised_tensors_are_dequantised(model, tmp_path):
  name = 'blk.1.attn_output.weight'
  path = write(tmp_path / 'a.gguf', model, quantised=[name])
  _, params = files.load(path)
  kernel = lambda tree: np.asarray(tree['layers']['attention']['o']['kernel'])
  error = np.abs(kernel(params) - kernel(model[1]))
  # 8 bits for blocks of 32: half a step is at most 1/254 of the largest.
  assert 0 < error[1].max() < np.abs(kernel(model[1])).max() / 250
  assert not error[0].any() and not error[2].any()


def test_tensors_of_an_unknown_type_are_refused(model, tmp_path):
  name = 'output_norm.weight'
  double = {name: np.ones(48, np.float64)}
  path = write(tmp_path / 'a.gguf', model, drop=[name], extra=double)
  with pytest.raises(WeightsError, match=f"'{name}' of .* is of type F64, whi"):
    files.load(path)


def test_an_unknown_architecture_is_refused(model, tmp_path):
  path = write(tmp_path / 'a.gguf', model, architecture='mamba')
  with pytest.raises(
      WeightsError,
      match="'mamba'; known: 'llama', 'mistral3', .*'gpt-oss'. .*safetensors",
  ):
    files.load(path)


@pytest.mark.parametrize(
    'changes, message',
    [
        ({'block_count': None}, 'no field llama.block_count'),
        ({'rope.scaling.type': 'su'}, "rope.scaling.type of .* is 'su'"),
        ({'rope.scaling.type': 'yarn'}, 'no field llama.rope.scaling.factor'),
        ({'rope.dimension_count': 8}, 'rotates 8 of 16 dimensions'),
        ({'attention.head_count_kv': 4}, '6 attention heads do not divide'),
        ({'block_count': 2}, 'has unknown 9 tensors'),
        (
            {'feed_forward_length': 81},
            r'ffn_gate.weight.*\[80, 48\].*\[81, 48\]',
        ),
        ({'drop': ['blk.1.attn_k.weight']}, 'lacks 1 tensors .*blk.1.attn_k'),
        ({'drop': ['token_embd.weight']}, "no tensor 'token_embd.weight'"),
        (
            {'extra': {'rope_freqs.weight': np.full(8, 2, np.float32)}},
            "'rope_freqs.weight' of .* is not the scaling of Llama 3",
        ),
    ],
)
def test_another_network_is_refused(model, tmp_path, changes, message):
  path = write(tmp_path / 'a.gguf', model, **changes)
  with pytest.raises(WeightsError, match=message):
    files.load(path)


def test_a_part_of_a_model_is_refused(model, tmp_path):
  path = write(tmp_path / 'a.gguf', model, parts=3)
  with pytest.raises(
      WeightsError, match='one of 3 parts of a model; join them'
  ):
    files.load(path)


@pytest.mark.parametrize('share', [0, 0.001, 0.1, 0.9])
def test_a_truncated_file_is_refused(model, tmp_path, share):
  path = write(tmp_path / 'a.gguf', model)
  data = path.read_bytes()
  path.write_bytes(data[: int(share * len(data))])
  with pytest.raises(WeightsError, match=r'a\.gguf is not a whole GGUF file'):
    files.load(path)


def test_a_missing_file_is_named(tmp_path):
  with pytest.raises(WeightsError, match=r'no file .*none\.gguf'):
    files.load(tmp_path / 'none.gguf')


# Those that converters and quantisers write: Q4_K_M and its like mix some.
KINDS = [
    kind.name
    for kind in writer_lib.GGMLQuantizationType
    if kind in writer_lib.quants._type_traits
]


@pytest.fixture(scope='module', name='wide')
def _wide():
  """A model with rows of whole blocks of 256, the largest."""
  config = TransformerConfig(
      vocab_size=32,
      hidden_size=256,
      intermediate_size=512,
      num_layers=2,
      num_heads=4,
      num_kv_heads=2,
      head_dim=64,
  )
  return config, random_params(config)


@pytest.mark.parametrize('kind', KINDS)
def test_every_quantisation_is_that_of_the_gguf_package(kind, wide, tmp_path):
  kind = writer_lib.GGMLQuantizationType[kind]
  rows, columns = 256, 512
  block, size = writer_lib.GGML_QUANT_SIZES[kind]
  rng = np.random.default_rng(0)
  # Any bytes are a row; scales may be anything but finite.
  data = rng.integers(0, 256, (rows, columns // block * size), np.uint8)
  name = 'blk.1.ffn_down.weight'
  path = write(
      tmp_path / 'a.gguf', wide, drop=[name], packed={name: (data, kind)}
  )
  with np.errstate(all='ignore'):
    expected = writer_lib.quants.dequantize(data, kind)
    _, params = files.load(path)
  assert np.isfinite(expected).mean() > 0.5
  kernel = params['layers']['mlp']['down']['kernel'][1]
  np.testing.assert_array_equal(kernel, expected.T)


def test_a_file_may_mix_quantisations_as_q4_k_m_does(wide, tmp_path):
  """Rows of queries change places whatever they are packed as."""
  rng = np.random.default_rng(0)
  packed, expected = {}, {}
  for name, kind, shape in (
      ('blk.0.attn_q.weight', 'Q4_K', (256, 256)),
      ('blk.0.attn_v.weight', 'Q6_K', (128, 256)),
      ('blk.0.ffn_up.weight', 'Q5_K', (512, 256)),
      ('output.weight', 'Q6_K', (32, 256)),
      ('token_embd.weight', 'Q8_0', (32, 256)),
  ):
    kind = writer_lib.GGMLQuantizationType[kind]
    block, size = writer_lib.GGML_QUANT_SIZES[kind]
    # Small bytes, small scales.
    data = rng.integers(0, 60, (shape[0], shape[1] // block * size), np.uint8)
    packed[name] = data, kind
    expected[name] = writer_lib.quants.dequantize(data, kind)
  config = dataclasses.replace(wide[0], tie_embeddings=False)
  model = config, random_params(config)
  path = write(tmp_path / 'a.gguf', model, drop=packed, packed=packed)
  read, params = files.load(path)
  assert read == config
  attention = params['layers']['attention']
  actual = {
      'blk.0.attn_q.weight': permute(attention['q']['kernel'][0].T, 4),
      'blk.0.attn_v.weight': attention['v']['kernel'][0].T,
      'blk.0.ffn_up.weight': params['layers']['mlp']['up']['kernel'][0].T,
      'output.weight': params['lm_head'].T,
      'token_embd.weight': params['embed'],
  }
  for name, value in expected.items():
    assert np.abs(value).max() > 0
    np.testing.assert_array_equal(actual[name], value, err_msg=name)
