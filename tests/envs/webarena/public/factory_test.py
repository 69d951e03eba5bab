"""Tests for the options of public tasks, without a browser."""

import json

import pytest

from agentrl.envs.webarena import options
from agentrl.envs.webarena.public import env, sites, tasks as public
from agentrl.errors import ConfigError, EnvError
from tests.envs.webarena.public import records


@pytest.fixture
def path(tmp_path, monkeypatch):
  """A file of three tasks; only the forum is there."""
  for variable in sites.VARIABLES.values():
    monkeypatch.delenv(variable, raising=False)
  monkeypatch.setenv('REDDIT', 'http://forum.test')
  found = tmp_path / 'tasks.json'
  string = dict(eval_types=['string_match'])
  found.write_text(
      json.dumps([
          records.raw(1, **string, reference_answers={'exact_match': 'x'}),
          records.raw(3, **string, reference_answers={'fuzzy_match': ['x']}),
          records.raw(
              5, **string, reference_answers={'exact_match': 'x'}, site='map'
          ),
      ])
  )
  return str(found)


def test_what_cannot_be_played_is_counted(path, caplog):
  assert env.choose('raw', path, None) == (1,)
  assert "1 of WebArena's raw tasks can be played" in caplog.text
  assert '1: fuzzy_match needs a judge; 1: MAP not set.' in caplog.text
  assert env.choose('raw', path, 'a:b') == (1, 3)


def test_with_no_site_the_way_out_is_named(path, monkeypatch):
  monkeypatch.delenv('REDDIT')
  with pytest.raises(ConfigError, match='2: REDDIT not set.*Set SHOPPING, '):
    env.choose('raw', path, None)


def test_splits_and_kinds_are_of_what_can_be_played(path):
  given = dict(tasks='raw', task_file=path)
  assert options.list_tasks('train', **given) == (1,)
  with pytest.raises(ConfigError, match="No task of 'raw'.*is for dev"):
    options.list_tasks('dev', **given)
  kind = options.subtasks_of(**given)
  assert [kind(k) for k in (1, 5)] == ['reddit', 'maps']
  cluster = options.clusters_of(**given)
  assert cluster(1) == str(public.load('raw', path)[1].template_id)


def test_a_judge_is_a_function_of_a_module():
  assert env.load_judge(None) is None
  assert env.load_judge('builtins:max') is max


@pytest.mark.parametrize(
    'name,words',
    [
        ('nowhere:judge', 'is no module:function: No module named'),
        ('builtins:nothing', 'is no module:function: .*nothing'),
        ('builtins', 'is no module:function'),
        (':max', 'is no module:function'),
        ('', 'is no module:function'),
        ('builtins:__name__', "'builtins:__name__' cannot be called"),
    ],
)
def test_what_is_no_judge(name, words):
  with pytest.raises(ConfigError, match=words):
    env.load_judge(name)


@pytest.mark.parametrize('tasks', ['verified', 'hard'])
def test_a_judge_has_no_effect_on_verified_tasks(tasks):
  given = options.DEFAULTS | {'tasks': tasks, 'judge': 'builtins:max'}
  with pytest.raises(ConfigError, match="judge .* tasks='raw' alone"):
    options.open_factory(**given)


def test_accounts(tmp_path):
  path = tmp_path / 'accounts.json'
  assert env.read_accounts(None) == {}
  path.write_text('{"reddit": "ann:pw"}')
  assert env.read_accounts(str(path)) == {'reddit': 'ann:pw'}
  for text, words in (
      ('["reddit"]', 'must map sites to name:password'),
      ('{"reddit": 5}', 'must map sites to name:password'),
      ('{"bank": "a:b"}', "'bank' does not sign in"),
      ('x', 'is no JSON file'),
  ):
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
      env.read_accounts(str(path))
  with pytest.raises(EnvError, match='cannot be read'):
    env.read_accounts(str(tmp_path))
