"""Tests for agentrl.modes.evaluate."""

import json

import pytest

from agentrl.config import record
from agentrl.modes import evaluate, train
from configs import evaluate as config_lib, textcraft_grpo


def test_training_tasks_are_refused_where_nothing_is_trained():
  config = config_lib.get_config('env=babyai')
  with pytest.raises(AttributeError, match='env.task_file .* mode=.evaluate'):
    config.env.task_file = 'items.json'


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
  config = config_lib.get_config(f'model={tmp_path}')
  env = evaluate.read(config).env
  assert env.name == 'textcraft' and env.options == {'max_depth': 1}
  assert env.urls == ()
  # Flags set what has a type.
  assert config.env.get_type('url') is object  # a text or several
  assert config.eval.get_type('task_file') is str
  config.env.url, config.env.retry_s = 'http://h:1', 2.0
  config.eval.task_file = 'items.json'
  env = evaluate.read(config).env
  assert env.urls == ('http://h:1',) and env.retry_s == 2.0


def test_an_evaluation_takes_an_item_file_as_argument():
  config = config_lib.get_config('task_file=textcraft_test.json,n=90')
  read = evaluate.read(config)
  assert read.eval.task_file == 'textcraft_test.json'
  assert read.eval.num_tasks == 90
