"""Tests for agentrl.training.language_model; runs are read in adapters_test."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.errors import CheckpointError, ConfigError
from agentrl.models import rotary
from agentrl.models.options import TrainModel
from agentrl.runtime import workdir as workdir_lib
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.training import language_model
from agentrl.weights import hf
from tests import tiny

CONFIG = dataclasses.replace(tiny.CONFIG, vocab_size=300, max_positions=64)


def train_tokenizer():
  return tokenizer_lib.train_bpe(['go there'], 300)


def test_a_tokenizer_of_more_ids_than_the_embedding_has_rows_is_refused():
  words = [f'{word} {number}' for number in range(99) for word in 'abcdefgh']
  tokenizer = tokenizer_lib.train_bpe(words, 320)
  rows = tokenizer.vocab_size
  model = lambda rows: language_model.LanguageModel(
      dataclasses.replace(tiny.CONFIG, vocab_size=rows), None, tokenizer, 'DIR'
  )
  model(rows)
  with pytest.raises(
      ConfigError, match=f'DIR has {rows} ids, .* only {rows - 1} rows.*files'
  ):
    model(rows - 1)


def test_rows_beyond_the_positions_of_a_model_are_refused():
  language_model.check_context(CONFIG, 'serve.max_context', 64)
  with pytest.raises(
      ConfigError, match='serve.max_context=65 exceeds the 64 positions'
  ):
    language_model.check_context(CONFIG, 'serve.max_context', 65)
  scaling = rotary.Scaling(
      'longrope',
      factor=4.0,
      original_max_positions=16,
      short_factor=(1.0,) * (CONFIG.head_dim // 2),
      long_factor=(3.0,) * (CONFIG.head_dim // 2),
  )
  config = dataclasses.replace(CONFIG, rope_scaling=scaling)
  language_model.check_context(config, 'serve.max_context', 16)
  with pytest.raises(ConfigError, match='=17 exceeds 16 tokens.*short_factor'):
    language_model.check_context(config, 'serve.max_context', 17)


def test_a_module_is_what_the_config_says():
  model = TrainModel(remat='full', dtype='bfloat16')
  module = language_model.make_module(CONFIG, model)
  assert (module.config, module.scan_layers) == (CONFIG, True)
  assert module.remat == 'full'
  assert module.dtype is jnp.bfloat16


def test_a_random_model_follows_its_seed():
  new = lambda seed: language_model.init_random(
      CONFIG, train_tokenizer(), seed=seed, path='p', mesh=tiny.one_device()
  )
  one, same, other = new(3), new(3), new(4)
  assert one.path == 'p' and one.base is None
  tiny.assert_trees_equal(one.params, same.params)
  assert (one.params['embed'] != other.params['embed']).any()


def test_a_pretrained_model_has_the_version_that_servers_begin_with(tmp_path):
  params = tiny.random_params(CONFIG)
  tokenizer = train_tokenizer()
  hf.save(tmp_path, CONFIG, params, companions=[tokenizer.save])
  model, version = language_model.load_policy(str(tmp_path))
  assert version == 'default' and model.path == str(tmp_path)
  assert model.config == CONFIG
  assert model.tokenizer.encode('go there') == tokenizer.encode('go there')
  tiny.assert_trees_equal(jax.tree.map(np.asarray, model.params), params)


def test_a_run_that_saved_nothing_or_not_this_is_named(tmp_path):
  (tmp_path / 'checkpoints').mkdir()
  with pytest.raises(CheckpointError, match='without a complete checkpoint'):
    language_model.load_policy(str(tmp_path))
  for number in (2, 5):
    (tmp_path / 'checkpoints' / str(number)).mkdir()
  with pytest.raises(CheckpointError, match='no checkpoint 3; known: 2, 5'):
    language_model.load_policy(str(tmp_path / 'checkpoints' / '3'))


def test_the_tokenizer_of_a_run_is_its_own_or_that_of_where_it_began(tmp_path):
  first, second = tmp_path / 'first', tmp_path / 'second'
  for workdir in (first, second):
    (workdir / 'checkpoints').mkdir(parents=True)
  tokenizer = train_tokenizer()
  tokenizer.save(first / 'tokenizer')
  (second / workdir_lib.CONFIG).write_text(
      f'{{"model": {{"name": "{first}/checkpoints/2"}}}}'
  )
  for workdir in (first, second):
    found = language_model.load_run_tokenizer(workdir)
    assert found.encode('go there') == tokenizer.encode('go there')
  (first / 'tokenizer' / 'tokenizer.json').rename(tmp_path / 'tokenizer.json')
  (first / 'tokenizer').rename(tmp_path / 'gone')
  with pytest.raises(CheckpointError, match='first/config.json of a run'):
    language_model.load_run_tokenizer(second)
