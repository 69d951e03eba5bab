"""Environments of Gymnasium that do everything wrong, as a run meets them."""

import re
import time
import zlib

import pytest

from agentrl.envs import options as env_options
from agentrl.rollout import play as play_lib
from agentrl.rollout.collect import collect
from agentrl.rollout.environment import Environment
from agentrl.rollout.options import Limits
from agentrl.rollout.random_policy import RandomPolicy
from agentrl.runtime.event_loop import EventLoop

BAD = """
import os
import sys
import re
import time

import gymnasium
import numpy as np

print('Hello from a package')  # as pygame does


class Bad(gymnasium.Env):
  action_space = gymnasium.spaces.Discrete(2)
  observation_space = gymnasium.spaces.Text(10**8)

  def __init__(self, trouble):
    self._trouble = trouble

  def reset(self, seed=None, options=None):
    self._bad = seed % 4 == 0  # in one task of four
    super().reset(seed=seed)
    if self._bad and self._trouble == 'raises at a reset':
      raise KeyError('world')
    return 'begin', {}

  def step(self, action):
    print('x' * 100_000)  # more than a pipe holds
    seen, reward, over = 'on', 0.0, False
    if self._bad:
      match self._trouble:
        case 'raises':
          raise ZeroDivisionError('a step')
        case 'hangs':
          time.sleep(3600)
        case 'dies':
          sys.stderr.write('out of luck')
          sys.stderr.flush()
          os._exit(9)
        case 'nan':
          reward = float('nan')
        case 'an array':
          reward = np.zeros(2)
        case 'shouts':
          seen = 'x' * 50_000_000
        case 'mumbles':
          seen = chr(0xD800) + chr(0)
        case 'old':  # API, of four values
          return seen, reward, over, {}
    return seen, reward, over, False, {}


gymnasium.register('Bad-v0', entry_point=Bad, disable_env_checker=True)
"""
TASKS = range(8)
ID = 'bad_gym:Bad-v0'
BAD_TASKS = [
    task for task in TASKS if zlib.crc32(f'{ID}/{task}'.encode()) % 4 == 0
]


def play(agent, trouble):
  with EventLoop() as loop:
    options = env_options.EnvOptions(
        name='gymnasium',
        options={'id': ID, 'kwargs': {'trouble': trouble}},
        timeout_s=3.0,
    )
    with Environment(loop, options) as world:
      one = play_lib.make_play(
          world,
          agent,
          None,
          Limits(max_completion_tokens=4000, max_context=8000),
          acting=RandomPolicy,
          name='bad',
          split='train',
          horizon=3,
          policy_version=0,
      )
      groups = loop.run(
          collect(
              [(i, i) for i in TASKS],
              1,
              one,
              seed=1,
              # What dies takes the episodes beside it along.
              concurrency=1 if trouble == 'dies' else 4,
              retry_wait_s=0.1,
          )
      )
      return [group.episodes[0] for group in groups], world.deaths


@pytest.fixture(autouse=True)
def _bad(tmp_path, monkeypatch):
  (tmp_path / 'bad_gym.py').write_text(BAD)
  monkeypatch.setenv('PYTHONPATH', str(tmp_path))


@pytest.mark.parametrize(
    'trouble, said',
    [
        ('raises', r'ZeroDivisionError: a step \(.*bad_gym.py.*in step\)'),
        ('raises at a reset', "KeyError: 'world'"),
        ('hangs', 'within 3 s'),
        ('dies', 'ended with exit code 9: .*out of luck'),
        ('nan', 'reward must be a number from .* got nan'),
        ('an array', 'TypeError|ValueError'),
        ('shouts', 'observation must be str, of .* characters at most'),
        ('old', 'not enough values to unpack'),
    ],
)
def test_episodes_in_trouble_are_typed_and_the_others_are_played(
    agent, trouble, said
):
  assert 1 <= len(BAD_TASKS) <= 4
  began = time.monotonic()
  episodes, deaths = play(agent, trouble)
  assert time.monotonic() - began < 200
  for task, episode in zip(TASKS, episodes, strict=True):
    if task not in BAD_TASKS:
      assert episode.valid and len(episode.turns) == 3, episode.error
      continue
    assert not episode.valid and episode.stop_reason == 'env_error'
    assert episode.error and len(episode.error) < 6000
    assert re.search(said, episode.error), episode.error
  assert bool(deaths) == (trouble == 'dies')


def test_words_that_are_no_unicode_are_read(agent):
  episodes, _ = play(agent, 'mumbles')
  assert all(episode.valid for episode in episodes)
  said = episodes[BAD_TASKS[0]].turns[0].observation
  assert said == '\ufffd\x00'
