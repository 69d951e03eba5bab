"""Tests for agentrl.rollout.reward."""

import asyncio
import math

import pytest

from agentrl.data import episodes as episodes_lib
from agentrl.errors import ConfigError
from agentrl.rollout import reward
from agentrl.rollout.collect import Assignment
from agentrl.types import ENGINE_ERROR, PLAN, Episode
from tests import fakes

OWN = """
import asyncio
from agentrl.errors import EngineError

half = lambda episode: 0.5
turns = lambda episode: [float(i) for i in range(len(episode.turns))]
one = lambda episode: [1.0]
nan = lambda episode: float('nan')
word = lambda episode: 'good'
NUMBER = 3

async def judge(episode):
  await asyncio.sleep(0)
  return float(len(episode.turns))

async def down(episode):
  raise EngineError('the judge is away', retryable=episode.task_id == 0)

async def breaks(episode):
  return 1 / 0
"""


@pytest.fixture
def play(tmp_path):
  """Plays one episode, and rewards it by a function of the file."""
  path = tmp_path / 'mine.py'
  path.write_text(OWN)

  def run(name, episode) -> Episode:
    async def played(assignment):
      del assignment
      return episode

    rewarded = reward.rewarded(played, f'{path}:{name}')
    return asyncio.run(rewarded(Assignment(0, 0, 0, 0)))

  return run


def earned(episode):
  return [(turn.reward, turn.env_reward) for turn in episode.turns]


def test_a_number_is_of_the_last_turn_and_a_list_of_all(play):
  episode = fakes.make_episode((0.0, 0.25, 1.0))
  assert earned(play('half', episode)) == [(0, 0), (0, 0.25), (0.5, 1)]
  assert earned(play('turns', episode)) == [(0, 0), (1, 0.25), (2, 1)]
  assert earned(play('judge', episode)) == [(0, 0), (0, 0.25), (3, 1)]
  assert play('half', episode).success == episode.success


def test_a_number_is_of_a_turn_that_is_learnt_from(play):
  turns = (
      fakes.make_turn(),
      fakes.make_turn(kind=PLAN, learn=False),
  )
  episode = fakes.make_episode((0.0, 0.0), turns=turns)
  assert earned(play('half', episode)) == [(0.5, 0), (0, 0)]
  with pytest.raises(ConfigError, match='turn that is not learnt from'):
    play('turns', episode)


def test_a_judge_that_is_away_fails_the_episode_and_is_no_reward(play):
  episode = fakes.make_episode((1.0,))
  failed = play('down', episode)
  assert failed.stop_reason == ENGINE_ERROR and not failed.valid
  assert 'the judge is away' in failed.error and failed.retryable
  other = play('down', fakes.make_episode((1.0,), task_id=1))
  assert not other.retryable


def test_an_episode_that_failed_before_is_not_judged(play):
  failed = fakes.make_episode((1.0,), stop_reason=ENGINE_ERROR, error='x')
  assert play('breaks', failed) == failed


@pytest.mark.parametrize(
    'name, said',
    [
        ('one', 'gives 1 rewards for 2 turns'),
        ('nan', 'gives nan, which is no reward'),
        ('word', "gives 'good': give a number"),
        ('breaks', 'breaks: ZeroDivisionError: .*mine.py, line 20'),
        ('NUMBER', 'is an int, not a Callable'),
        ('none', 'has no attribute'),
    ],
)
def test_what_is_no_reward_is_named(name, said, play):
  with pytest.raises(ConfigError, match=said):
    play(name, fakes.make_episode((0.0, 1.0)))


def test_both_rewards_are_recorded(play):
  episode = play('half', fakes.make_episode((0.25,)))
  read = episodes_lib.from_line(episodes_lib.to_line(episode))
  assert earned(read) == [(0.5, 0.25)]
  assert math.isclose(read.episode_return, 0.5)
  plain = episodes_lib.to_line(fakes.make_episode((0.25,)))
  assert 'env_reward' not in plain
