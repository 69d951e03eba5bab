"""Tests for agentrl.modes.build."""

import contextlib
import dataclasses
import json
import shutil
import types

import numpy as np
import pytest

from agentrl import envs
from agentrl.config import mixture, read
from agentrl.errors import CheckpointError, ConfigError
from agentrl.models import rotary
from agentrl.modes import build
from agentrl.rollout.task_lists import TaskLists
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.weights import hf
from configs import babyai_sft, quickstart, textcraft_sft
from tests import tiny


@pytest.fixture
def make_setup(make_session):
  """Makes the setup of a config, with an environment that nobody asks."""

  def make_setup(config, **session):
    config = read(config)
    environment = types.SimpleNamespace(spec=envs.get(config.env.name))
    session = make_session(config, **session)
    arena = build.Arena('', 1.0, config, environment, (), None, None)
    return build.Setup(session, None, tiny.one_device(), None, [arena])

  return make_setup


def saved(path, **fields):
  """A pretrained model of these fields beside a tiny one's."""
  config = dataclasses.replace(tiny.CONFIG, vocab_size=300, **fields)
  tokenizer = tokenizer_lib.train_bpe(['go'], 300)
  hf.save(path, config, tiny.random_params(config), companions=[tokenizer.save])
  return str(path)


def no_texts():
  raise AssertionError('the tokenizer is not trained')


def test_too_large_a_panel_is_refused_before_there_is_a_model(make_session):
  config = babyai_sft.get_config('tiny')
  config.eval.num_tasks = 10**6
  session = make_session(read(config))
  with pytest.raises(ConfigError, match='eval.num_tasks=1000000, but the test'):
    build.make_setup(session, expert=True)


def test_a_setup_has_its_environment_and_its_tasks(make_session):
  session = make_session(read(babyai_sft.get_config('tiny')))
  setup = build.make_setup(session, expert=True)
  arena = setup.arena
  assert setup.session is session and arena.environment.name == 'babyai'
  assert arena.tasks == arena.environment.tasks('train')
  assert setup.checkpoints.latest is None
  texts = build.expert_texts(session, arena, horizon=3)
  assert any('red ball' in text for text in texts)


def test_rows_beyond_the_positions_of_a_model_are_refused(make_setup, tmp_path):
  # Before anything is sampled: sft need not sample at all. That its rotations
  # are scaled beyond them changes nothing.
  scaling = rotary.Scaling('dynamic', factor=4.0)
  name = saved(tmp_path / 'model', max_positions=2048, rope_scaling=scaling)
  config = textcraft_sft.get_config(f'model={name}')
  config.rollout.max_context = 2049
  with pytest.raises(
      ConfigError, match='rollout.max_context=2049 exceeds the 2048 positions'
  ):
    build.make_run(make_setup(config), no_texts)


@pytest.mark.parametrize('rank', [0, 2])
def test_a_run_has_a_module_to_train_and_the_parameters_apart(
    make_setup, tmp_path, rank
):
  name = saved(tmp_path / 'model', max_positions=4096)
  config = textcraft_sft.get_config(f'model={name}')
  config.model.lora.rank = rank
  config.model.dtype = 'bfloat16'
  setup = make_setup(config)
  run, params = build.make_run(setup, no_texts)
  assert run.model.params is None and run.session is setup.session
  assert run.network.module.remat == 'full' and run.network.mesh is setup.mesh
  assert not run.network.offload
  assert run.network.base is run.model.base
  if rank:
    assert run.adapter['rank'] == 2 and run.adapter['base'] == name
    assert run.model.lora.rank == 2
    # Frozen in the type that it computes in; what is trained is not.
    assert run.model.base.params['embed'].dtype == 'bfloat16'
    assert 'embed' not in params
  else:
    assert run.adapter is None and run.model.base is None
    assert params['embed'].dtype == np.float32
  assert run.collector.environment is setup.arena.environment
  assert run.collector.limits is run.session.config.rollout


def test_a_random_network_has_the_vocabulary_asked_for(make_setup, said):
  config = babyai_sft.get_config('tiny')
  config.model.vocab_size = 512
  run, params = build.make_run(make_setup(config), lambda: ['go to the ball'])
  assert 'Training a tokenizer of 512 tokens' in said(run)
  assert run.model.config.vocab_size == 512 and len(params['embed']) == 512


def test_a_random_network_keeps_its_tokenizer(make_setup, said):
  config = babyai_sft.get_config('tiny')
  setup = make_setup(config)
  run, params = build.make_run(setup, lambda: ['go to the red ball'])
  path = setup.session.directory / 'tokenizer'
  assert run.model.path == str(path) and path.is_dir()
  assert 'Training a tokenizer of' in said(run)
  again, same = build.make_run(make_setup(config, known=True), no_texts)
  encode = lambda run: run.model.tokenizer.encode('go to the red ball')
  assert encode(again) == encode(run)
  tiny.assert_trees_equal(same, params)
  # One of a run that was refused may be of other tasks.
  other, _ = build.make_run(make_setup(config), lambda: ['pick up a key'])
  assert encode(other) != encode(run)


def test_a_run_from_a_folder_keeps_its_tokenizer(make_setup, tmp_path, said):
  config = textcraft_sft.get_config('tiny')
  config.model.name = saved(tmp_path / 'start')
  setup = make_setup(config)
  build._load(setup, no_texts)
  path = setup.session.directory / 'tokenizer'
  found = tokenizer_lib.load(path)
  expected = tokenizer_lib.load(tmp_path / 'start')
  assert found.encode('go there') == expected.encode('go there')
  assert found.eos_ids == expected.eos_ids
  assert f'Loading {config.model.name}' in said(setup)


@pytest.mark.parametrize(
    'fields, said',
    [
        ({}, 'there is no checkpoint yet: put it back'),
        ({'model.lora.rank': 2}, 'its adapter adds to that: put it back'),
    ],
)
def test_a_start_that_is_gone_is_named(make_setup, tmp_path, fields, said):
  config = textcraft_sft.get_config('tiny')
  config.model.name = saved(tmp_path / 'start')
  config.update_from_flattened_dict(fields)
  setup = make_setup(config)
  setup.session.claim()
  shutil.rmtree(tmp_path / 'start')
  setup = dataclasses.replace(
      setup, checkpoints=types.SimpleNamespace(latest=None)
  )
  with pytest.raises(CheckpointError, match=said) as refused:
    build._load(setup, no_texts)
  assert f'started from {tmp_path / "start"}' in str(refused.value)


class NoServer(TaskLists, contextlib.nullcontext):
  """The tasks of an environment whose server is not asked."""

  def __init__(self, loop, env, *, task_file, **how):
    del loop, how
    TaskLists.__init__(self, env, task_file)
    contextlib.nullcontext.__init__(self, self)


@pytest.mark.parametrize(
    'seen, split, weight, words',
    [
        (3, 'test', 1.0, '3 of the 8 tasks of evaluations are among those'),
        (8, 'dev', 0.5, '8 of the 8 tasks of evaluations are among those'),
        (0, 'test', 1.0, None),
        # Evaluated there alone, or on tasks that are called training tasks.
        (3, 'test', 0.0, None),
        (3, 'train', 1.0, None),
    ],
)
def test_evaluations_on_tasks_to_train_on_are_named(
    make_session, monkeypatch, tmp_path, said, seen, split, weight, words
):
  monkeypatch.setattr(build, 'Environment', NoServer)
  config = quickstart.get_config('tiny')
  config.eval.split = split
  lists = TaskLists(read(config).env)
  panel = lists.panel(split, 8)
  own = [task for task in lists.tasks('train') if task not in panel][:4]
  path = tmp_path / 'items.json'
  ids = [f'babyai_{task}' for task in (*own, *panel[:seen])]
  path.write_text(json.dumps([{'item_id': x} for x in ids]))
  if split != 'train':
    config.env.task_file = str(path)
  session = make_session(read(config))
  member = mixture.Member('', weight, session.config)
  setup = build.make_setup(session, expert=False, members=[member])
  assert len(setup.arena.panel.task_ids) == 8
  if words:
    assert words in said(session)
    assert 'Keep the splits of babyai apart' in said(session)
  else:
    assert 'train on' not in said(session)
