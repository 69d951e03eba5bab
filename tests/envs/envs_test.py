"""Tests for the dictionary of environments."""

import dataclasses

import pytest

from agentrl import envs
from agentrl.envs.spec import SPLITS, EnvSpec
from agentrl.errors import ConfigError
from tests.envs import packages
from tests.envs.conformance import IN_A_BROWSER, OF_A_FILE


@pytest.mark.parametrize(
    'name',
    [
        packages.param(x, *[pytest.mark.browser] * (x in IN_A_BROWSER))
        for x in envs.ENVS
        if x not in OF_A_FILE
    ],
)
def test_every_environment_can_be_made_and_has_disjoint_splits(name):
  spec = envs.get(name)
  assert spec.name == name
  seen = set()
  for split in SPLITS:
    ids = spec.tasks(split)
    assert ids and not seen & set(ids)
    seen |= set(ids)
  factory = spec.open()
  env = factory.make()
  assert env.reset(spec.tasks('test')[0], 0)
  env.close()
  factory.close()


def test_every_environment_says_in_a_sentence_when_an_episode_succeeds():
  said = {spec.name: spec.success for spec in envs.every()}
  assert len(set(said.values())) == len(envs.ENVS)
  for words in said.values():
    assert words[0].isupper() and words.endswith('.') and '. ' not in words
    assert words != EnvSpec.success


def test_options_choose_tasks_or_pass_by():
  spec = envs.get('babyai')
  ids = spec.tasks('test', levels=['Pickup'], style='compact')
  assert {x % 40 for x in ids} == {16}


@pytest.mark.parametrize(
    'name, first, second',
    [
        ('gymnasium', {'id': 'FrozenLake-v1'}, {'id': 'Taxi-v4'}),
        ('gymnasium', {'kwargs': {'map_name': '8x8'}}, {}),
        ('gymnasium', {'id': 'CliffWalking-v1', 'told': 'mine.py:CLIFF'}, {}),
        ('textarena', {'id': 'Mastermind-v0'}, {}),
        ('textarena', {'kwargs': {'max_number': 5}}, {}),
        ('reasoning_gym', {'dataset': 'gcd'}, {'dataset': 'chain_sum'}),
        ('reasoning_gym', {'config': {'max_terms': 3}}, {}),
        ('verifiers', {'taskset': 'gsm8k-v1'}, {'taskset': 'wordle-v1'}),
        ('verifiers', {'config': {'user': {'id': 'b'}}}, {}),
        ('openenv', {'server': 'http://a'}, {'server': 'http://b'}),
        ('openenv', {'success': 0.5}, {'success': 1.0}),
        ('mcp', {'judge': 'mine.py:judge'}, {}),
        ('harbor', {'reward': 'speed'}, {}),
    ],
)
def test_what_makes_another_game_gives_ids_their_meaning(name, first, second):
  spec = envs.get(name)
  one, another = (
      {x: spec.check_options(options)[x] for x in spec.task_options}
      for options in (first, second)
  )
  assert one != another
  if name not in ('mcp', 'harbor'):  # whose lists are of files
    assert spec.tasks('test', **first) == spec.tasks('test', **second)


def test_unknown_names_list_the_known():
  with pytest.raises(ConfigError, match='known: textcraft, babyai'):
    envs.get('chess')
  with pytest.raises(
      ConfigError, match='no option depth; did you mean min_depth'
  ):
    envs.get('textcraft').open(depth=1)
  with pytest.raises(ConfigError, match='known: train, dev, test'):
    envs.get('textcraft').tasks('validation')


@pytest.mark.parametrize('version', [0, -1, True, 1.0, '2', None])
def test_a_data_version_is_a_whole_number_from_1(version):
  with pytest.raises(ConfigError, match=r'textcraft: data_version is a whole'):
    dataclasses.replace(envs.get('textcraft'), data_version=version)
