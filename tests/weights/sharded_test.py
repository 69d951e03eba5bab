"""Tests for agentrl.weights.sharded, on one device; see also tests.parallel."""

import dataclasses
import json

import jax
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from agentrl.errors import WeightsError
from agentrl.models import transformer
from agentrl.training import state as state_lib
from agentrl.weights import hf, hf_config, names, pretrained, sharded
from tests import tiny
from tests.weights.safetensors_file import change_tensors


def place(config, shapes):
  del config
  return state_lib.infer_shardings(shapes, tiny.one_device())


@pytest.fixture(name='saved')
def _saved(model, tmp_path):
  hf.save(tmp_path / 'model', *model)
  return tmp_path / 'model'


def test_it_loads_what_the_host_loads(model, saved):
  config, params = pretrained.load(saved, place=place)
  expected = hf.load(saved)
  assert config == expected[0] == model[0]
  assert jax.tree.structure(params) == jax.tree.structure(expected[1])
  tiny.assert_trees_equal(params, expected[1])
  assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(params))


def test_types_are_those_asked_for(model, saved):
  config, params = model
  hf.save(saved.with_name('half'), config, params, dtype=ml_dtypes.bfloat16)
  _, found = pretrained.load(saved.with_name('half'), place=place)
  _, expected = hf.load(saved.with_name('half'))
  tiny.assert_trees_equal(found, expected)
  assert {x.dtype for x in jax.tree.leaves(found)} == {np.dtype(np.float32)}


def test_experts_are_stacked_of_one_tensor_each(tmp_path):
  config = dataclasses.replace(
      tiny.CONFIG,
      family='qwen3_moe',
      qk_norm=True,
      tie_embeddings=False,
      norm_topk_prob=True,
      **tiny.EXPERTS,
  )
  module = transformer.Transformer(config, scan_layers=True)
  params = transformer.init_params(module, jax.random.key(0))
  hf.save(tmp_path / 'model', config, params)
  found, loaded = pretrained.load(tmp_path / 'model', place=place)
  assert found == config
  tiny.assert_trees_equal(loaded, params)


def test_a_missing_tensor_is_named(saved):
  name = 'model.norm.weight'
  change_tensors(saved, lambda t: {k: v for k, v in t.items() if k != name})
  with pytest.raises(WeightsError, match=f'lacks 1 tensors.*{name}'):
    pretrained.load(saved, place=place)


def test_another_shape_is_named(saved):
  name = 'model.layers.1.mlp.up_proj.weight'
  change_tensors(saved, lambda t: t | {name: t[name][:-1].copy()})
  with pytest.raises(WeightsError, match=f'{name}.* has shape .* asks for'):
    pretrained.load(saved, place=place)


def test_another_configuration_is_noticed(saved):
  path = saved / 'config.json'
  fields = json.loads(path.read_text())
  path.write_text(json.dumps(fields | {'num_hidden_layers': 1}))
  with pytest.raises(WeightsError, match='has unknown'):
    pretrained.load(saved, place=place)


@pytest.mark.parametrize('family', ['phi3', 'glm4'])
def test_matrices_that_share_a_tensor_are_split(tmp_path, family):
  config = hf_config.parse(
      dict(
          model_type=family,
          vocab_size=61,
          hidden_size=24,
          intermediate_size=36,
          num_hidden_layers=2,
          num_attention_heads=4,
          num_key_value_heads=2,
          head_dim=8,
      ),
      'config.json',
  )
  params = tiny.random_params(config)
  hf.save(tmp_path / 'model', config, params)
  stored = safetensors.numpy.load_file(tmp_path / 'model/model.safetensors')
  name = 'model.layers.1.mlp.gate_up_proj.weight'
  assert stored[name].shape == (72, 24)
  mlp = params['layers']['mlp']
  np.testing.assert_array_equal(stored[name][36:], mlp['up']['kernel'][1].T)
  found, loaded = pretrained.load(tmp_path / 'model', place=place)
  assert found == config
  tiny.assert_trees_equal(loaded, params)
  # A device's part of the second of them.
  shapes = names.shapes(config, np.float32)
  piece = names.pieces(config, lambda tensor: tensor.hf, shapes)[name][1]
  source = [stored[name.replace('.1.', f'.{i}.')] for i in range(2)]
  slices = np.empty(2, object)
  slices[:] = source
  index = (slice(0, 2), slice(3, 9), slice(5, 20))
  leaf = shapes['layers']['mlp']['up']['kernel']
  np.testing.assert_array_equal(
      sharded._read(piece, leaf, slices, index), mlp['up']['kernel'][index]
  )
  cut = stored[name][:-1].copy()
  change_tensors(tmp_path / 'model', lambda t: t | {name: cut})
  with pytest.raises(WeightsError, match=r'has shape \[71, 24\]; .*\[72, 24\]'):
    pretrained.load(tmp_path / 'model', place=place)


def test_rows_of_a_head_that_lie_together_are_sorted(tmp_path):
  config = dataclasses.replace(tiny.CONFIG, **tiny.QWEN3_NEXT)
  params = tiny.random_params(config)
  hf.save(tmp_path / 'model', config, params)
  stored = safetensors.numpy.load_file(tmp_path / 'model/model.safetensors')
  name = 'model.layers.2.linear_attn.in_proj_ba.weight'
  attention = params['layers']['block_0_of_2']['attention']
  # Two heads of keys, each with two of values.
  expected = [
      attention[f'in_{x}']['kernel'][1].T[head]
      for pair in ((0, 1), (2, 3))
      for x in 'ba'
      for head in pair
  ]
  np.testing.assert_array_equal(stored[name], expected)
  found, loaded = pretrained.load(tmp_path / 'model', place=place)
  assert found == config
  tiny.assert_trees_equal(loaded, params)
  # A device's part.
  shapes = names.shapes(config, np.float32)
  held = names.pieces(config, lambda tensor: tensor.hf, shapes)[name]
  order = names.file_order([piece.tensor for piece in held], 8)
  index = (slice(1, 2), slice(3, 9), slice(1, 4))
  slices = np.array([None, stored[name]], object)
  leaf = shapes['layers']['block_0_of_2']['attention']['in_a']['kernel']
  np.testing.assert_array_equal(
      sharded._read(held[1], leaf, slices, index, order),
      attention['in_a']['kernel'][index],
  )


def test_experts_in_one_tensor_are_split(tmp_path):
  config = dataclasses.replace(
      tiny.CONFIG, **tiny.QWEN3_NEXT | dict(family='qwen3_5_moe_text')
  )
  params = tiny.random_params(config)
  hf.save(tmp_path / 'model', config, params)

  def stack(tensors):
    """As published: all experts of a layer, gates above what they gate."""
    out = dict(tensors)
    for layer in range(config.num_layers):
      start = f'model.layers.{layer}.mlp.experts'
      of_all = lambda part, s=start: [
          out.pop(f'{s}.{e}.{part}_proj.weight')
          for e in range(config.num_experts)
      ]
      gate, up, down = map(of_all, ('gate', 'up', 'down'))
      out[f'{start}.gate_up_proj'] = np.concatenate([gate, up], axis=1)
      out[f'{start}.down_proj'] = np.stack(down)
    return out

  change_tensors(tmp_path / 'model', stack)
  for load in (hf.load, lambda path: pretrained.load(path, place=place)):
    found, loaded = load(tmp_path / 'model')
    assert found == config
    tiny.assert_trees_equal(loaded, params)
  name = 'model.layers.1.mlp.experts.gate_up_proj'
  change_tensors(
      tmp_path / 'model', lambda t: t | {name: t[name][:, 1:].copy()}
  )
  with pytest.raises(WeightsError, match=r'gate_up_proj.* has shape \[4, 15,'):
    hf.load(tmp_path / 'model')
