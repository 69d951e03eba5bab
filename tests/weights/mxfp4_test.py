"""Tests for agentrl.weights.mxfp4, against transformers' own reading of it."""

import json

import numpy as np
import pytest
import safetensors.numpy

from agentrl.errors import WeightsError
from agentrl.weights import hf, mxfp4, sharded
from tests import tiny
from tests.models import hugging_face


def packed(rng, experts, rows, columns):
  blocks = rng.integers(0, 256, (experts, rows, columns // 32, 16), np.uint8)
  scales = rng.integers(118, 132, blocks.shape[:-1], np.uint8)
  return blocks, scales


def test_numbers_are_those_of_transformers():
  torch = pytest.importorskip('torch')
  integrations = pytest.importorskip('transformers.integrations.mxfp4')
  blocks, scales = packed(np.random.default_rng(0), 2, 6, 96)
  expected = integrations.convert_moe_packed_tensors(
      torch.tensor(blocks), torch.tensor(scales), dtype=torch.float32
  ).numpy()
  found = mxfp4.dequantise(blocks, scales).swapaxes(1, 2)
  np.testing.assert_array_equal(found, expected)


@pytest.fixture
def model(tmp_path):
  """A small gpt-oss as published: experts in four bits, a config that says so."""
  source = hugging_face.make('gpt_oss 1', hidden_size=32, intermediate_size=64)
  folder = tmp_path / 'model'
  source.save_pretrained(folder)
  path = folder / 'model.safetensors'
  tensors = safetensors.numpy.load_file(path)
  rng, whole = np.random.default_rng(1), dict(tensors)
  for name in [n for n in tensors if n.endswith(('gate_up_proj', 'down_proj'))]:
    experts, inner, outer = tensors.pop(name).shape
    blocks, scales = packed(rng, experts, outer, inner)
    tensors |= {f'{name}_blocks': blocks, f'{name}_scales': scales}
    whole[name] = mxfp4.dequantise(blocks, scales).swapaxes(1, 2)
  safetensors.numpy.save_file(tensors, path)
  config = json.loads((folder / 'config.json').read_text())
  config['quantization_config'] = {'quant_method': 'mxfp4'}
  (folder / 'config.json').write_text(json.dumps(config))
  return folder, whole


def test_experts_of_four_bits_are_read_and_written_as_floats(model, tmp_path):
  folder, whole = model
  config, params = hf.load(folder)
  layer = params['layers']['mlp']
  for name in ('gate_up', 'down'):
    np.testing.assert_array_equal(
        layer[f'experts_{name}'][0],
        whole[f'model.layers.0.mlp.experts.{name}_proj'],
    )
  hf.save(tmp_path / 'out', config, params)
  written = safetensors.numpy.load_file(tmp_path / 'out' / 'model.safetensors')
  assert written.keys() == whole.keys()
  for name, value in whole.items():
    np.testing.assert_array_equal(written[name], value, err_msg=name)


def test_devices_read_their_parts(model):
  folder, _ = model
  config, expected = hf.load(folder)
  mesh = tiny.one_device()
  found, params = sharded.load_on_devices(
      folder,
      lambda config, shapes: sharded.sharding_lib.infer_shardings(
          shapes, mesh, sharded.sharding_lib.DECODER_RULES
      ),
  )
  assert found == config
  tiny.assert_trees_equal(params, expected)


def test_blocks_without_scales_are_refused(model):
  folder, _ = model
  path = folder / 'model.safetensors'
  tensors = safetensors.numpy.load_file(path)
  del tensors['model.layers.0.mlp.experts.down_proj_scales']
  safetensors.numpy.save_file(tensors, path)
  with pytest.raises(WeightsError, match='down_proj'):
    hf.load(folder)
