"""Tests for agentrl.evaluation.workdirs.run_config, of configs as runs keep them."""

import pytest

from agentrl import config as config_lib, envs
from agentrl.config import evaluation, modes
from agentrl.errors import DataError
from agentrl.evaluation.workdirs import run_config
from configs import evaluate, mixture_grpo, quickstart


def evaluated(arg, **env):
  config = evaluate.get_config(f'model=expert,{arg}')
  config.env.update(env)
  return modes.record(evaluation.whole(config, evaluation.read(config)))


def options(config, *names):
  """Options of environments in a config, over their defaults, by name."""
  return [
      {**envs.get(x).options, **run_config.env_options(config, (x,))}
      for x in names
  ]


def test_a_run_of_one_environment_has_its_options():
  config = modes.record(config_lib.read(quickstart.get_config('tiny')))
  [babyai, textcraft] = options(config, 'babyai', 'textcraft')
  assert babyai == config['env']['options']
  assert textcraft == dict(envs.get('textcraft').options)
  assert run_config.env_options({}, ('babyai',)) == {}


def test_members_of_a_mixture_have_their_own():
  config = modes.record(config_lib.read(mixture_grpo.get_config('tiny')))
  [textcraft, babyai] = options(config, 'textcraft', 'babyai')
  assert (textcraft['max_depth'], textcraft['distractors']) == (1, 2)
  assert (babyai['levels'], babyai['style']) == (['GoToRedBall'], 'compact')


def test_a_member_inherits_options_of_the_same_environment_alone():
  config = {
      'env': {'name': 'babyai', 'options': {'style': 'compact', 'levels': ['A']}},
      'mixture': {
          'a': {'env': {'options': {'levels': ['B']}}},
          'b': {'env': {'name': 'textcraft'}},
          'c': {},
      },
  }  # fmt: skip
  sections = {x: run_config.env_of_member(config, x) for x in 'abc'}
  assert {x: each['options'] for x, each in sections.items()} == {
      'a': {'style': 'compact', 'levels': ['B']},
      'b': {},
      'c': config['env']['options'],
  }
  assert run_config.env_options(config, ('textcraft',)) == {}
  with pytest.raises(DataError, match='under different options'):
    run_config.env_options(config, ('babyai',))


def test_a_section_of_a_member_is_over_that_of_the_run():
  config = {
      'env': {'name': 'babyai'},
      'agent': {'format': 'react', 'instructions': 'full'},
      'mixture': {
          'a': {},
          'b': {'env': {'name': 'textcraft'}, 'agent': {'format': 'plain'}},
      },
  }
  agent = lambda *names: run_config.section_in(config, 'agent', names)
  assert agent('babyai') == agent('another') == config['agent']
  assert agent('x', 'textcraft') == {'format': 'plain', 'instructions': 'full'}
  assert run_config.section_in(config, 'rollout', ('babyai',)) == {}


def test_an_evaluation_of_several_environments_has_those_of_each():
  several = evaluated(
      'env=textcraft;babyai', options={'distractors': 3, 'style': 'compact'}
  )
  [textcraft, babyai] = options(several, 'textcraft', 'babyai')
  assert (textcraft['distractors'], babyai['style']) == (3, 'compact')
  panels = evaluated('suite=text')
  for section in run_config.env_sections(panels):
    assert section['options'] == panels['env']['options'][section['name']]
