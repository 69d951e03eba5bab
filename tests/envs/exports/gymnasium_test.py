"""Tests for agentrl.envs.exports.gymnasium, with Gymnasium's own checker."""

import warnings

import gymnasium
import pytest
from gymnasium.utils import env_checker

from agentrl import envs
from agentrl.envs.exports.gymnasium import TextEnv
from agentrl.errors import ConfigError, EnvError

OPTIONS = {'max_depth': 1, 'distractors': 0}


@pytest.fixture
def env():
  env = TextEnv('textcraft', split='test', **OPTIONS)
  yield env
  env.close()


def test_gymnasiums_checker_finds_nothing(env):
  with warnings.catch_warnings():
    warnings.simplefilter('error')
    env_checker.check_env(env, skip_render_check=True)


def test_the_expert_gets_what_it_gets_elsewhere(env):
  spec = envs.get('textcraft')
  factory = spec.open(**OPTIONS)
  ours = factory.make()
  task_id = spec.tasks('test', **OPTIONS)[3]
  text, info = env.reset(seed=1, options={'task_id': task_id})
  assert text == ours.reset(task_id, 0) and info['task_id'] == task_id
  assert 'craft' in info['instructions']
  over, total = False, 0.0
  while not over:
    action = ours.expert_action()
    expected = ours.step(action)
    text, reward, terminated, truncated, info = env.step(action)
    assert (text, reward) == (expected.observation, expected.reward)
    assert (terminated, truncated) == (expected.terminated, expected.truncated)
    over, total = terminated, total + reward
  assert info['success'] and total == 1.0
  with pytest.raises(EnvError, match='call reset first'):
    env.step('inventory')
  ours.close()
  factory.close()


def test_seeds_draw_tasks_of_the_split(env):
  tasks = set(envs.get('textcraft').tasks('test', **OPTIONS))
  drawn = [env.reset(seed=seed)[1]['task_id'] for seed in range(20)]
  assert set(drawn) <= tasks and len(set(drawn)) > 5
  assert drawn[7] == env.reset(seed=7)[1]['task_id']
  with pytest.raises(EnvError):
    env.reset(options={'task_id': 10**9})


def test_wrong_words_are_refused():
  with pytest.raises(ConfigError, match='no option depht'):
    TextEnv('textcraft', depht=1)
  with pytest.raises(ConfigError, match='Unknown split'):
    TextEnv('textcraft', split='all')
  with pytest.raises(ConfigError, match='nowhere'):
    TextEnv('nowhere')


def test_it_is_rendered_and_registered_as_any_other():
  gymnasium.register(
      'agentrl/Ball-v0', entry_point=TextEnv, kwargs={'name': 'babyai'}
  )
  env = gymnasium.make(
      'agentrl/Ball-v0',
      render_mode='ansi',
      max_episode_steps=3,
      levels=('GoToRedBall',),
  )
  text, _ = env.reset(seed=0)
  assert env.render() == text
  ended = [env.step('check available actions')[2:4] for _ in range(3)]
  assert ended == [(False, False), (False, False), (False, True)]
  env.close()
