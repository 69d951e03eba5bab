"""Tests for agentrl.envs.live_episodes, with a clock in the test's hand."""

import asyncio
import functools
import threading

import pytest

from agentrl.envs.live_episodes import (
    GivenUp,
    LiveEpisodes,
    TooManyEpisodes,
    UnknownEpisode,
)


class FakeEnv:
  """Its close raises if it is `broken`, and ends with `go` if there is one."""

  def __init__(self, broken=False, go=None):
    self.broken, self.go = broken, go
    self.closed = 0

  def close(self):
    self.closed += 1
    if self.go is not None:
      assert self.go.wait(60)
    if self.broken:
      raise OSError('it hangs on')


@pytest.fixture
def clock():
  return [0.0]


@pytest.fixture
def opened(clock):
  return lambda slots=None, **env: LiveEpisodes(
      'calc',
      functools.partial(FakeEnv, **env),
      slots=slots,
      max_episodes=2,
      lease_s=10.0,
      clock=lambda: clock[0],
  )


def in_loop(test):
  """A test that is a coroutine."""

  @functools.wraps(test)
  def run(*args, **kwargs):
    asyncio.run(test(*args, **kwargs))

  return run


@in_loop
async def test_numbers_count_from_zero_and_are_never_used_twice(opened):
  episodes = opened()
  assert episodes.create()[0] == 0
  await episodes.close(0)
  assert episodes.create()[0] == 1
  assert (len(episodes), episodes.created) == (1, 2)


@in_loop
async def test_the_limit_holds_until_one_is_closed(opened):
  episodes = opened()
  episodes.create(), episodes.create()
  with pytest.raises(TooManyEpisodes, match='2 episodes are live'):
    episodes.create()
  episodes.close(0)
  episodes.create()


@in_loop
async def test_closing_closes_once(opened):
  episodes = opened()
  _, live = episodes.create()
  await episodes.close(0)
  assert episodes.close(0) is None
  assert live.env.closed == 1
  with pytest.raises(UnknownEpisode, match='id 0'):
    episodes.get(0)


@in_loop
async def test_a_lease_ends_only_what_nobody_used(opened, clock):
  episodes = opened()
  (_, old), (_, used) = episodes.create(), episodes.create()
  clock[0] = 8.0
  episodes.get(1)
  clock[0] = 12.0
  assert episodes.close_expired() == 1
  clock[0] = 17.5
  assert episodes.close_expired() == 0
  await episodes.close_all(60.0)
  assert (old.env.closed, used.env.closed) == (1, 1)


@in_loop
async def test_a_busy_episode_does_not_expire(opened, clock):
  episodes = opened()
  _, live = episodes.create()
  async with live.lock:
    clock[0] = 100.0
    assert episodes.close_expired() == 0
  assert episodes.close_expired() == 1


@in_loop
async def test_what_a_close_raises_is_logged_and_keeps_no_slot(opened, caplog):
  episodes = opened(slots=1, broken=True)
  (_, first), (_, second) = episodes.create(), episodes.create()
  await episodes.admit(first)
  await episodes.close(0)
  await asyncio.wait_for(episodes.admit(second), 60.0)
  assert 'OSError: it hangs on' in caplog.text
  assert '(environment calc, close)' in caplog.text
  await episodes.close_all(60.0)
  assert second.env.closed == 1


@in_loop
async def test_a_slow_close_holds_its_slot_and_nobody_up(opened):
  go = threading.Event()
  episodes = opened(slots=1, go=go)
  (_, first), (_, second) = episodes.create(), episodes.create()
  await episodes.admit(first)
  closing = episodes.close(0)
  next_one = asyncio.create_task(episodes.admit(second))
  episodes.release(first)  # a reset that has failed
  await asyncio.sleep(0.1)
  assert not closing.done() and not next_one.done()
  go.set()
  await asyncio.wait_for(next_one, 60.0)
  await episodes.close_all(60.0)


@in_loop
async def test_the_end_does_not_wait_for_a_close_that_hangs(opened):
  go = threading.Event()
  episodes = opened(go=go)
  episodes.create()
  await asyncio.wait_for(episodes.close_all(0.1), 60.0)
  assert len(episodes) == 0
  go.set()


@in_loop
async def test_an_episode_that_is_closed_as_its_turn_comes_is_given_up(opened):
  episodes = opened(slots=1)
  (_, first), (_, second) = episodes.create(), episodes.create()
  await episodes.admit(first)
  waiting = asyncio.create_task(episodes.admit(second))
  await asyncio.sleep(0)  # it begins to wait
  second.waiting.add_done_callback(lambda turn: episodes.close(1))
  episodes.release(first)
  with pytest.raises(GivenUp):
    await waiting
  await asyncio.wait_for(episodes.admit(first), 60.0)
