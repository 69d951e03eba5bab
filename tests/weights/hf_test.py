"""Tests for agentrl.weights.hf and the table of names."""

import json
import stat

import jax
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from agentrl.errors import WeightsError
from agentrl.weights import hf, names
from tests import tiny
from tests.weights.safetensors_file import WEIGHTS, change_tensors

INDEX = 'model.safetensors.index.json'


@pytest.fixture
def saved(model, tmp_path):
  """A directory with `model`."""
  directory = tmp_path / 'model'
  hf.save(directory, *model)
  return directory


def change_config(directory, **fields):
  path = directory / 'config.json'
  values = json.loads(path.read_text()) | fields
  path.write_text(json.dumps({k: v for k, v in values.items() if v is not ...}))


def shard(directory):
  """Cuts the weights into two files with an index."""
  tensors = safetensors.numpy.load_file(directory / WEIGHTS)
  (directory / WEIGHTS).unlink()
  weight_map = {}
  for i in range(2):
    part = dict(sorted(tensors.items())[i::2])
    name = f'model-0000{i + 1}-of-00002.safetensors'
    safetensors.numpy.save_file(part, directory / name)
    weight_map |= dict.fromkeys(part, name)
  index = {'metadata': {}, 'weight_map': weight_map}
  (directory / INDEX).write_text(json.dumps(index))


def test_what_is_saved_comes_back(model, saved):
  config, params = model
  loaded_config, loaded = hf.load(saved)
  assert loaded_config == config
  tiny.assert_trees_equal(loaded, params)
  assert all(x.dtype == np.float32 for x in jax.tree.leaves(loaded))


def test_files_have_the_orientation_and_names_of_torch(model, saved):
  config, params = model
  tensors = safetensors.numpy.load_file(saved / WEIGHTS)
  layers = params['layers']
  np.testing.assert_array_equal(
      tensors['model.layers.2.self_attn.k_proj.weight'],
      layers['attention']['k']['kernel'][2].T,
  )
  assert tensors['model.layers.0.self_attn.q_proj.weight'].shape == (96, 48)
  np.testing.assert_array_equal(
      tensors['model.layers.1.post_attention_layernorm.weight'],
      layers['mlp_norm']['scale'][1],
  )
  assert ('lm_head.weight' in tensors) == (not config.tie_embeddings)


def test_shards_are_read(model, saved):
  shard(saved)
  tiny.assert_trees_equal(hf.load(saved)[1], model[1])


def test_types_are_kept_in_the_file_and_chosen_on_loading(model, tmp_path):
  config, params = model
  rounded = jax.tree.map(lambda x: x.astype(ml_dtypes.bfloat16), params)
  hf.save(tmp_path / 'a', config, rounded)
  assert (
      json.loads((tmp_path / 'a/config.json').read_text())['torch_dtype']
      == 'bfloat16'
  )
  _, as_float = hf.load(tmp_path / 'a')
  tiny.assert_trees_equal(
      as_float, jax.tree.map(lambda x: x.astype(np.float32), rounded)
  )
  _, as_saved = hf.load(tmp_path / 'a', dtype=ml_dtypes.bfloat16)
  tiny.assert_trees_equal(as_saved, rounded)


def test_device_arrays_can_be_saved(model, tmp_path):
  config, params = model
  hf.save(tmp_path / 'a', config, jax.device_put(params))
  tiny.assert_trees_equal(hf.load(tmp_path / 'a')[1], params)


def test_companions_and_end_tokens_are_written_too(model, tmp_path):
  write = lambda directory: (directory / 'more.txt').write_text('more')
  hf.save(tmp_path / 'a', *model, eos_ids=(3, 4), companions=[write])
  assert (tmp_path / 'a/more.txt').read_text() == 'more'
  fields = json.loads((tmp_path / 'a/config.json').read_text())
  assert fields['eos_token_id'] == [3, 4]


def test_weights_may_be_read_by_whoever_may_read_the_config(saved):
  mode = lambda name: stat.S_IMODE((saved / name).stat().st_mode)
  assert mode(WEIGHTS) == mode('config.json')


def test_a_failed_save_leaves_nothing_behind(model, tmp_path):
  def fail(directory):
    raise OSError(28, 'No space left on device')

  with pytest.raises(WeightsError, match='Cannot write .*a: .*No space left'):
    hf.save(tmp_path / 'a', *model, companions=[fail])
  assert not list(tmp_path.iterdir())


def test_existing_models_are_never_overwritten(model, saved):
  with pytest.raises(WeightsError, match='is not empty; remove it'):
    hf.save(saved, *model)
  (saved.parent / 'file').write_text('x')
  with pytest.raises(WeightsError, match='Cannot write .*file'):
    hf.save(saved.parent / 'file', *model)
  empty = saved.parent / 'empty'
  empty.mkdir()
  hf.save(empty, *model)
  assert hf.load_config(empty) == model[0]


def test_older_and_newer_configs_say_the_same(model, saved):
  config, _ = model
  change_config(saved, rope_parameters=..., rope_scaling=None)
  assert hf.load_config(saved) == config
  change_config(
      saved,
      rope_theta=...,
      rope_parameters={'rope_theta': 5000.0, 'rope_type': 'default'},
  )
  assert hf.load_config(saved) == config


def test_absent_fields_have_the_defaults_of_llama(saved):
  change_config(
      saved,
      head_dim=...,
      num_key_value_heads=...,
      rope_theta=...,
      rope_parameters=...,
      rms_norm_eps=...,
      tie_word_embeddings=...,
      attention_bias=...,
  )
  config = hf.load_config(saved)
  assert config.head_dim == 48 // 6
  assert config.num_kv_heads == 6
  assert config.rope_theta == 10000.0
  assert config.rms_norm_eps == 1e-6
  assert not config.tie_embeddings


@pytest.mark.parametrize(
    'field, value, message',
    [
        ('model_type', 'gpt2', "model_type of .* is 'gpt2'; known: 'llama'"),
        (
            'model_type',
            ...,
            'model_type of .* is None; .*Give the folder of a m',
        ),
        ('model_type', 'gpt2', 'Its network has learned positions.*evaluate'),
        ('model_type', 'deepseek_v3', 'has latent attention.*Train a model of'),
        (
            'model_type',
            'martian',
            "'qwen3_5', .*. Train a model of these.*model=URL",
        ),
        ('model_type', ['llama'], 'known: .*Train a model of these families'),
        ('attention_bias', True, r'lacks 12 tensors .*self_attn.k_proj.bias'),
        ('mlp_bias', True, r'lacks \d+ tensors .*mlp.down_proj.bias'),
        ('hidden_act', 'gelu', "hidden_act of .* is 'gelu'; only 'silu'"),
        ('quantization_config', {'bits': 4}, 'quantization_config of .*bits'),
        ('rope_scaling', {'factor': 8.0}, 'rope_scaling of .*factor'),
        (
            'rope_parameters',
            {'rope_type': 'llama3'},
            'rope_parameters of .*lla',
        ),
        (
            'rope_parameters',
            {'rope_theta': 1.0, 'partial_rotary_factor': 0.5},
            'rope_parameters of .*partial',
        ),
        ('num_hidden_layers', ..., 'has no num_hidden_layers'),
        ('num_key_value_heads', 4, '6 attention heads do not divide over 4'),
        ('head_dim', 15, 'even head_dim, got 15'),
    ],
)
def test_a_config_of_another_network_is_refused(saved, field, value, message):
  change_config(saved, **{field: value})
  with pytest.raises(WeightsError, match=message):
    hf.load(saved)


def test_missing_files_are_named(saved):
  (saved / WEIGHTS).unlink()
  with pytest.raises(WeightsError, match='has no weights: neither model.safe'):
    hf.load(saved)
  (saved / 'config.json').write_text('{')
  with pytest.raises(WeightsError, match=r'config\.json is not JSON'):
    hf.load(saved)
  (saved / 'config.json').unlink()
  with pytest.raises(WeightsError, match=r'model has no config\.json'):
    hf.load(saved)


def test_a_missing_shard_is_named(saved):
  shard(saved)
  (saved / 'model-00002-of-00002.safetensors').unlink()
  with pytest.raises(WeightsError, match="lacks 'model-00002-of-00002.safe"):
    hf.load(saved)


@pytest.mark.parametrize(
    'text, message',
    [
        ('{}', 'has no weight_map'),
        ('{"weight_map": 3}', 'has no weight_map'),
        ('{"weight_map": {}}', 'has no weight_map'),
        ('{"weight_map": {"a": 5}}', 'has no weight_map'),
        ('{"weight_map": {"a": ["b"]}}', 'has no weight_map'),
        ('{"weight_map": {"a": "../b.safetensors"}}', 'has no weight_map'),
        ('[1, 2]', 'no JSON object'),
        ('{"weight_map": ', 'is not JSON'),
        ('[' * 100_000, 'is not JSON'),
    ],
)
def test_an_index_that_is_none_is_named(saved, text, message):
  shard(saved)
  (saved / INDEX).write_text(text)
  with pytest.raises(WeightsError, match=f'{INDEX} .*{message}') as caught:
    hf.load(saved)
  assert str(caught.value).isprintable()


def test_shapes_are_compared_before_memory_is_taken(saved):
  # 2^24 rows of 2^20 numbers are 64 TiB.
  change_config(saved, vocab_size=2**24, hidden_size=2**20)
  with pytest.raises(
      WeightsError, match='its configuration asks for .*1048576'
  ):
    hf.load(saved)


@pytest.mark.parametrize('share', [0, 0.0001, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_named(saved, share):
  data = (saved / WEIGHTS).read_bytes()
  (saved / WEIGHTS).write_bytes(data[: int(share * len(data))])
  with pytest.raises(WeightsError, match=r'model\.safetensors is not a whole'):
    hf.load(saved)


def test_missing_unknown_and_misshapen_tensors_are_named(model, saved):
  name = 'model.layers.1.mlp.up_proj.weight'

  def reshape(tensors):
    return tensors | {name: np.ascontiguousarray(tensors[name][:, :-1])}

  change_tensors(saved, reshape)
  with pytest.raises(WeightsError, match=rf"'{name}' of .* \[80, 47\]; .*48\]"):
    hf.load(saved)
  change_tensors(saved, lambda t: {k: v for k, v in t.items() if k != name})
  with pytest.raises(WeightsError, match=f'lacks 1 tensors .*them {name}'):
    hf.load(saved)
  hf.save(saved.parent / 'again', *model)
  bias = 'model.layers.0.self_attn.q_proj.bias'
  change_tensors(
      saved.parent / 'again', lambda t: t | {bias: np.zeros(96, np.float32)}
  )
  with pytest.raises(WeightsError, match=f'has unknown 1 tensors .*{bias}'):
    hf.load(saved.parent / 'again')


def test_fewer_layers_than_the_file_has_are_refused(saved):
  change_config(saved, num_hidden_layers=2)
  with pytest.raises(WeightsError, match='has unknown 9 tensors'):
    hf.load(saved)


def test_buffers_of_old_files_are_skipped(model, saved):
  old = {'model.layers.0.self_attn.rotary_emb.inv_freq': np.zeros(8, 'f4')}
  change_tensors(saved, lambda tensors: tensors | old)
  tiny.assert_trees_equal(hf.load(saved)[1], model[1])


def test_a_repeated_tied_head_must_be_the_embedding(saved, model):
  if not model[0].tie_embeddings:
    pytest.skip('about tied models')
  embed = 'model.embed_tokens.weight'
  change_tensors(saved, lambda t: t | {'lm_head.weight': t[embed].copy()})
  tiny.assert_trees_equal(hf.load(saved)[1], model[1])
  change_tensors(saved, lambda t: t | {'lm_head.weight': t[embed] + 1})
  with pytest.raises(WeightsError, match="'lm_head.weight' differs from"):
    hf.load(saved)


def test_the_table_has_each_parameter_once(model):
  config, params = model
  paths = [tensor.path for tensor in names.table(config)]
  flat = jax.tree_util.tree_flatten_with_path(params)[0]
  assert sorted(paths) == sorted(
      tuple(key.key for key in path) for path, _ in flat
  )
