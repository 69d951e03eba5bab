"""Tests for agentrl.envs.live_episodes, with a clock in the test's hand."""

import asyncio

import pytest

from agentrl.envs.live_episodes import (
    LiveEpisodes,
    TooManyEpisodes,
    UnknownEpisode,
)


class FakeEnv:

  def __init__(self):
    self.closed = 0

  def close(self):
    self.closed += 1


@pytest.fixture
def clock():
  return [0.0]


@pytest.fixture
def episodes(clock):
  return LiveEpisodes(
      FakeEnv, max_episodes=2, lease_s=10.0, clock=lambda: clock[0]
  )


def test_numbers_count_from_zero_and_are_never_used_twice(episodes):
  assert episodes.create()[0] == 0
  assert episodes.close(0)
  assert episodes.create()[0] == 1
  assert (len(episodes), episodes.created) == (1, 2)


def test_the_limit_holds_until_one_is_closed(episodes):
  episodes.create(), episodes.create()
  with pytest.raises(TooManyEpisodes, match='2 episodes are live'):
    episodes.create()
  episodes.close(0)
  episodes.create()


def test_closing_closes_once(episodes):
  _, live = episodes.create()
  assert episodes.close(0) and not episodes.close(0)
  assert live.env.closed == 1
  with pytest.raises(UnknownEpisode, match='id 0'):
    episodes.get(0)


def test_a_lease_ends_only_what_nobody_used(episodes, clock):
  (_, old), (_, used) = episodes.create(), episodes.create()
  clock[0] = 8.0
  episodes.get(1)
  clock[0] = 12.0
  assert episodes.close_expired() == 1
  assert (old.env.closed, used.env.closed) == (1, 0)
  clock[0] = 18.5
  assert episodes.close_expired() == 1 and len(episodes) == 0


def test_a_busy_episode_does_not_expire(episodes, clock):
  async def body():
    _, live = episodes.create()
    async with live.lock:
      clock[0] = 100.0
      assert episodes.close_expired() == 0
    assert episodes.close_expired() == 1

  asyncio.run(body())
