"""Tests for which tasks a run plays, and how long its rows may be."""

import contextlib
import dataclasses
import json
import types

import pytest

from agentrl import envs
from agentrl.config import defaults, record, sections
from agentrl.envs import options as env_options
from agentrl.errors import ConfigError, DataError
from agentrl.models import rotary
from agentrl.modes import base, evaluate as evaluate_lib, sft, train
from agentrl.rollout import environment as environment_lib
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.training import language_model
from configs import babyai_grpo, evaluate, textcraft_grpo, textcraft_sft
from tests import tiny
from tests.config.refusals import refusal


@pytest.fixture
def items(tmp_path):
  """Writes an item file of these ids and gives its path."""

  def write(*item_ids):
    path = tmp_path / 'items.json'
    path.write_text(json.dumps([{'item_id': x} for x in item_ids]))
    return str(path)

  return write


def environment(name, task_file=None):
  """An environment whose server is not asked: no client is made."""
  host = types.SimpleNamespace(session=None, run=lambda asked: asked.close())
  return environment_lib.Environment(
      host,
      env_options.Env(name=name, url='http://127.0.0.1:9'),
      task_file=task_file,
  )


def wanted(num_tasks, **fields):
  return sections.Eval(num_tasks=num_tasks, horizon=3, **fields)


@pytest.mark.parametrize('name', envs.ENVS)
def test_an_item_file_names_the_tasks_of_training_and_of_evaluation(
    name, items
):
  last = envs.get(name).tasks('test')[-1]
  path = items(f'{name}_3', f'{name}_0', f'{name}_{last}')
  training = environment(name, task_file=path)
  assert training.tasks('train') == (3, 0, last)
  assert training.tasks('test') == envs.get(name).tasks('test')
  held_out = environment(name)
  assert held_out.panel(wanted(3, task_file=path)) == (3, 0, last)
  assert held_out.panel(wanted(2)) == training.panel(wanted(2))
  with pytest.raises(ConfigError, match='num_tasks=4, but .*items.json has 3'):
    held_out.panel(wanted(4, task_file=path))


def test_items_of_another_environment_and_tasks_that_are_none_are_named(items):
  path = items('babyai_3', 'textcraft_4')
  with pytest.raises(DataError, match='Item 1 of .*textcraft_4'):
    environment('babyai', task_file=path).tasks('train')
  with pytest.raises(DataError, match='Item 0 of .*babyai_3'):
    environment('textcraft').panel(wanted(2, task_file=path))
  path = items('textcraft_3', 'textcraft_544')
  with pytest.raises(DataError, match='Item 1 of .*items.json: .*544'):
    environment('textcraft').panel(wanted(2, task_file=path))


def test_training_tasks_are_refused_where_nothing_is_trained(items):
  config = evaluate.get_config('env=babyai')
  with pytest.raises(AttributeError, match='env.task_file .* mode=.evaluate'):
    config.env.task_file = items('babyai_3')


@pytest.mark.parametrize('listed', [True, False])
def test_a_run_is_evaluated_at_a_url_that_it_did_not_have(tmp_path, listed):
  trained = textcraft_grpo.get_config('tiny')
  trained.env.task_file = 'trained.json'
  recorded = record(train.read(trained))
  assert recorded['env']['url'] is None
  if not listed:
    del recorded['env']['url'], recorded['env']['retry_s']
  (tmp_path / 'checkpoints').mkdir()
  (tmp_path / 'config.json').write_text(json.dumps(recorded))
  config = evaluate.get_config(f'model={tmp_path}')
  env = evaluate_lib.read(config).env
  assert env.name == 'textcraft' and env.options == {'max_depth': 1}
  assert env.urls == ()
  # Flags set what has a type.
  assert config.env.get_type('url') is object  # a text or several
  assert config.eval.get_type('task_file') is str
  config.env.url, config.env.retry_s = 'http://h:1', 2.0
  config.eval.task_file = 'items.json'
  env = evaluate_lib.read(config).env
  assert env.urls == ('http://h:1',) and env.retry_s == 2.0


def test_waiting_for_a_server_is_for_urls():
  said = lambda **env: refusal(defaults('train'), {'env': env})
  assert not said(url='http://h:1', retry_s=0)
  assert 'env.retry_s=5.0 has no effect' in said(retry_s=5)
  found = said(url='http://h:1', retry_s=-1)
  assert 'env.retry_s must be at least 0' in found


@pytest.mark.parametrize('module', [textcraft_grpo, babyai_grpo])
def test_item_files_can_be_named_on_the_command_line(module):
  config = module.get_config('tiny')
  config.lock()
  config.env.task_file = config.eval.task_file = 'items.json'


def test_an_evaluation_takes_an_item_file_as_argument():
  config = evaluate.get_config('task_file=textcraft_test.json,n=90')
  read = evaluate_lib.read(config)
  assert read.eval.task_file == 'textcraft_test.json'
  assert read.eval.num_tasks == 90


class Scaled(base.Run):
  """A run of a policy whose rotations are scaled beyond its 2048 positions."""

  def _model(self, texts):
    scaling = rotary.Scaling('dynamic', factor=4.0)
    config = dataclasses.replace(
        tiny.CONFIG, vocab_size=300, rope_scaling=scaling
    )
    tokenizer = tokenizer_lib.train_bpe(texts(), 300)
    return language_model.LanguageModel(config, None, tokenizer, 'random')


def test_kernels_for_a_gpu_are_refused_before_anything_starts(tmp_path):
  config = textcraft_sft.get_config('tiny')
  config.model.attention = 'flash'
  run = base.Run(sft.read(config), tmp_path, None, contextlib.ExitStack())
  with pytest.raises(
      ConfigError,
      match="'flash' needs a GPU, .* 'cpu'; set model.attention='reference'",
  ):
    run.build_world(expert=False)
  assert not list(tmp_path.iterdir())


def test_rows_beyond_the_positions_of_a_model_are_refused(tmp_path):
  # Before anything is sampled: sft need not sample at all.
  config = textcraft_sft.get_config('tiny')
  config.rollout.max_context = 2049
  wanted = sft.read(config)
  run = Scaled(wanted, tmp_path, None, contextlib.ExitStack())
  with pytest.raises(
      ConfigError, match='rollout.max_context=2049 exceeds the 2048 positions'
  ):
    run.build_policy(lambda: ['go'])


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
