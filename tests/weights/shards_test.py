"""Tests for agentrl.weights.shards: what others read of what we write."""

import json
import pathlib

import jax
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from agentrl.errors import WeightsError
from agentrl.weights import hf, names, shards


def read(directory):
  """All tensors, by the library that defines the format."""
  tensors = {}
  for path in directory.glob('*.safetensors'):
    tensors |= safetensors.numpy.load_file(path)
  return tensors


def index(directory):
  return json.loads((directory / 'model.safetensors.index.json').read_text())


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16', 'float16'])
def test_shards_hold_what_one_file_holds(model, tmp_path, dtype):
  hf.save(tmp_path / 'one', *model, dtype=dtype)
  hf.save(tmp_path / 'many', *model, dtype=dtype, shard_bytes=20_000)
  one, many = read(tmp_path / 'one'), read(tmp_path / 'many')
  assert one.keys() == many.keys()
  for name, tensor in one.items():
    assert tensor.dtype == dtype
    np.testing.assert_array_equal(tensor, many[name])
  assert not (tmp_path / 'one' / shards.INDEX).exists()
  fields = json.loads((tmp_path / 'many/config.json').read_text())
  assert fields['torch_dtype'] == dtype


def test_the_index_places_each_tensor_and_bounds_hold(model, tmp_path):
  hf.save(tmp_path / 'a', *model, shard_bytes=20_000)
  listed = index(tmp_path / 'a')
  for name, file in listed['weight_map'].items():
    assert name in safetensors.numpy.load_file(tmp_path / 'a' / file)
  files = sorted(set(listed['weight_map'].values()))
  assert files[0] == f'model-00001-of-{len(files):05d}.safetensors'
  assert len(files) > 3
  total = 0
  for file in files:
    tensors = safetensors.numpy.load_file(tmp_path / 'a' / file)
    size = sum(tensor.nbytes for tensor in tensors.values())
    assert size <= 20_000 or len(tensors) == 1  # larger than a shard by itself
    total += size
  assert listed['metadata']['total_size'] == total
  assert total == shards.total_bytes(names.disassemble(*model))


def test_shards_are_loaded_as_they_were_saved(model, tmp_path):
  hf.save(tmp_path / 'a', *model, shard_bytes=20_000)
  config, params = hf.load(tmp_path / 'a')
  assert config == model[0]
  jax.tree.map(np.testing.assert_array_equal, params, model[1])


def test_arrays_on_a_device_are_written_like_those_on_the_host(model, tmp_path):
  config, params = model
  hf.save(tmp_path / 'host', config, params, dtype='bfloat16')
  hf.save(tmp_path / 'dev', config, jax.device_put(params), dtype='bfloat16')
  expected, actual = read(tmp_path / 'host'), read(tmp_path / 'dev')
  assert actual.keys() == expected.keys()
  for name, tensor in expected.items():
    np.testing.assert_array_equal(actual[name], tensor)


def test_a_header_ends_on_a_boundary_and_says_pytorch(model, tmp_path):
  hf.save(tmp_path / 'a', *model)
  data = (tmp_path / 'a' / shards.SINGLE).read_bytes()
  size = int.from_bytes(data[:8], 'little')
  header = json.loads(data[8 : 8 + size])
  assert size % 8 == 0
  assert header.pop('__metadata__') == {'format': 'pt'}
  assert len(data) == 8 + size + max(
      entry['data_offsets'][1] for entry in header.values()
  )


def test_a_full_disk_leaves_nothing_behind(model, tmp_path, monkeypatch):
  write = shards._write_all
  written = []

  def fill_up(file, array):
    if len(written) > 3:
      raise OSError(28, 'No space left on device')
    written.append(pathlib.Path(file.name))
    write(file, array)

  monkeypatch.setattr(shards, '_write_all', fill_up)
  with pytest.raises(WeightsError, match='Cannot write .*a: .*No space left'):
    hf.save(tmp_path / 'a', *model, shard_bytes=20_000)
  assert written and not list(tmp_path.iterdir())


def test_transformers_reads_shards_in_bfloat16(model, tmp_path):
  torch = pytest.importorskip('torch')
  transformers = pytest.importorskip('transformers')
  config, params = model
  hf.save(tmp_path / 'a', config, params, dtype='bfloat16', shard_bytes=20_000)
  theirs = transformers.AutoModelForCausalLM.from_pretrained(
      tmp_path / 'a', dtype='auto'
  ).state_dict()
  ours = read(tmp_path / 'a')
  tied = {'lm_head.weight'} if config.tie_embeddings else set()
  assert theirs.keys() - ours.keys() == tied
  for name in ours.keys() | tied:
    assert theirs[name].dtype == torch.bfloat16
    expected = ours['model.embed_tokens.weight' if name in tied else name]
    np.testing.assert_array_equal(
        theirs[name].float().numpy(), expected.astype(np.float32)
    )
  kernel = params['layers']['mlp']['down']['kernel'][1]
  np.testing.assert_array_equal(
      theirs['model.layers.1.mlp.down_proj.weight'].float().numpy(),
      kernel.T.astype(ml_dtypes.bfloat16).astype(np.float32),
  )
