"""Tests for agentrl.envs.table, with a clock in the test's hand."""

import asyncio

import pytest

from agentrl.envs.table import Table, TooManyEpisodes, UnknownEpisode


class FakeEnv:

  def __init__(self):
    self.closed = 0

  def close(self):
    self.closed += 1


@pytest.fixture
def clock():
  return [0.0]


@pytest.fixture
def table(clock):
  return Table(FakeEnv, max_episodes=2, lease_s=10.0, clock=lambda: clock[0])


def test_numbers_count_from_zero_and_are_never_used_twice(table):
  assert table.create()[0] == 0
  assert table.close(0)
  assert table.create()[0] == 1
  assert (len(table), table.created) == (1, 2)


def test_the_limit_holds_until_one_is_closed(table):
  table.create(), table.create()
  with pytest.raises(TooManyEpisodes, match='2 episodes are live'):
    table.create()
  table.close(0)
  table.create()


def test_closing_closes_once(table):
  _, live = table.create()
  assert table.close(0) and not table.close(0)
  assert live.env.closed == 1
  with pytest.raises(UnknownEpisode, match='id 0'):
    table.get(0)


def test_a_lease_ends_only_what_nobody_used(table, clock):
  (_, old), (_, used) = table.create(), table.create()
  clock[0] = 8.0
  table.get(1)
  clock[0] = 12.0
  assert table.close_expired() == 1
  assert (old.env.closed, used.env.closed) == (1, 0)
  clock[0] = 18.5
  assert table.close_expired() == 1 and len(table) == 0


def test_a_busy_episode_does_not_expire(table, clock):
  async def body():
    _, live = table.create()
    async with live.lock:
      clock[0] = 100.0
      assert table.close_expired() == 0
    assert table.close_expired() == 1

  asyncio.run(body())
