"""Tests for agentrl.envs.routes on a factory whose calls the test holds back."""

import asyncio
import threading
import time

import aiohttp
import pytest
from aiohttp import test_utils

from agentrl import envs
from agentrl.envs.options import EnvServerOptions
from agentrl.envs.routes import EnvRoutes
from agentrl.errors import EnvError
from agentrl.types import StepResult


class HeldEnv:
  """`hold` waits until it is closed; `wait` for `go`; there is no task 13.

  After `stick` its close waits for `go`, after `break` it raises.
  """

  def __init__(self, factory):
    self.factory = factory
    self.freed = threading.Event()
    self.last = ''

  def reset(self, task_id, seed):
    if task_id == 13:
      raise EnvError('There is no task 13.')
    self.factory.resets.append(task_id)
    return f'task {task_id}'

  def step(self, action):
    self.last = action
    if action == 'hold':
      self.freed.wait(120)
      raise EnvError('It was closed.')
    if action == 'wait':
      self.factory.waits.set()
      assert self.factory.go.wait(120)
      self.factory.waited = True
    return StepResult('seen', 0.0, action == 'end', success=False)

  def available_actions(self):
    return ['hold', 'end']

  def close(self):
    self.freed.set()
    if self.last == 'stick':
      assert self.factory.go.wait(120)
    if self.last == 'break':
      raise OSError('It hangs on.')


class HeldFactory:
  threads = 4
  inline = ()

  def __init__(self, slots=None):
    self.slots = slots
    self.resets = []
    self.waits, self.go = threading.Event(), threading.Event()
    self.waited = False
    self.closed = False

  def make(self):
    return HeldEnv(self)

  def gauges(self):
    return {'simulators': 3}

  def close(self):
    self.closed = True


def with_factory(factory, body, *, token=None, **kwargs):
  """Runs `body(post, get)` against a server of `factory`."""

  async def main():
    serving = EnvServerOptions(**kwargs)
    routes = EnvRoutes(envs.get('babyai'), factory, serving, token=token)
    async with (
        test_utils.TestServer(routes.app()) as server,
        aiohttp.ClientSession(server.make_url('')) as session,
    ):

      async def ask(method, route, status=200, headers=None, **fields):
        async with session.request(
            method, f'/{route}', json=fields or None, headers=headers
        ) as response:
          assert response.status == status, await response.text()
          if response.content_type == 'application/json':
            return await response.json()
          return await response.text()

      await body(
          lambda *args, **kw: ask('POST', *args, **kw),
          lambda *args, **kw: ask('GET', *args, **kw),
      )
    assert factory.closed

  asyncio.run(main())


async def queued(get, count):
  """Waits until /health tells of `count` resets in the queue."""
  for _ in range(3000):
    if (await get('health'))['queued'] == count:
      return
    await asyncio.sleep(0.02)
  raise AssertionError(await get('health'))


def test_resets_beyond_the_slots_wait_in_order_and_are_reported():
  factory = HeldFactory(slots=2)

  async def body(post, get):
    for _ in range(5):
      await post('create')
    for number in range(2):
      await post('reset', id=number, data_idx=number)
    waiting = []
    for number in (2, 3, 4):
      waiting.append(
          asyncio.create_task(post('reset', id=number, data_idx=number))
      )
      await queued(get, len(waiting))
    health = await get('health')
    assert (health['live'], health['running']) == (5, 2)
    text = await get('metrics')
    assert 'agentrl_env_queued_episodes{env="babyai"} 3.0' in text
    assert 'agentrl_env_simulators{env="babyai"} 3.0' in text
    # An end makes room, and so does a close.
    assert (await post('step', id=0, action='end'))['done']
    assert (await waiting[0])['observation'] == 'task 2'
    assert await post('close', id=1) is True
    await waiting[1]
    # A reset of an episode that runs keeps its slot.
    await post('reset', id=2, data_idx=7)
    await queued(get, 1)
    await post('close', id=3)
    await waiting[2]
    assert factory.resets == [0, 1, 2, 3, 7, 4]

  with_factory(factory, body)


def test_closing_a_queued_episode_takes_it_out_of_the_queue():
  async def body(post, get):
    for _ in range(3):
      await post('create')
    await post('reset', id=0, data_idx=0)
    gone = asyncio.create_task(post('reset', 409, id=1, data_idx=1))
    await queued(get, 1)
    stays = asyncio.create_task(post('reset', id=2, data_idx=2))
    await queued(get, 2)
    assert await post('close', id=1) is True
    assert 'closed while it waited' in (await gone)['error']
    await post('close', id=0)
    assert (await stays)['observation'] == 'task 2'

  with_factory(HeldFactory(slots=1), body)


def test_a_client_that_leaves_the_queue_takes_no_slot():
  async def body(post, get):
    for _ in range(3):
      await post('create')
    await post('reset', id=0, data_idx=0)
    gone = asyncio.create_task(post('reset', id=1, data_idx=1))
    await queued(get, 1)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
      await gone
    await post('close', id=0)
    assert (await post('reset', id=2, data_idx=2))['observation'] == 'task 2'

  with_factory(HeldFactory(slots=1), body)


def test_a_failed_reset_gives_its_slot_back():
  async def body(post, get):
    for _ in range(2):
      await post('create')
    assert (
        'no task 13' in (await post('reset', 422, id=0, data_idx=13))['error']
    )
    await post('reset', id=1, data_idx=1)
    assert (await get('health'))['running'] == 1

  with_factory(HeldFactory(slots=1), body)


def test_a_queued_episode_does_not_expire():
  async def body(post, get):
    for _ in range(2):
      await post('create')
    await post('reset', id=0, data_idx=0)
    waiting = asyncio.create_task(post('reset', id=1, data_idx=1))
    # The lease of the first ends, and only then is there room.
    assert (await waiting)['observation'] == 'task 1'
    await post('step', 404, id=0, action='end')

  with_factory(HeldFactory(slots=1), body, lease_s=1.0)


def test_a_call_beyond_the_deadline_ends_its_episode_and_frees_its_slot():
  async def body(post, get):
    for _ in range(2):
      await post('create')
    await post('reset', id=0, data_idx=0)
    start = time.monotonic()
    reply = await post('step', 504, id=0, action='hold')
    assert time.monotonic() - start < 60
    assert 'within 1 s; the episode was closed' in reply['error']
    await post('step', 404, id=0, action='end')
    await post('reset', id=1, data_idx=1)
    text = await get('metrics')
    assert 'agentrl_env_deadlines_exceeded_total{env="babyai"} 1.0' in text

  with_factory(HeldFactory(slots=1), body, deadline_s=1.0)


def test_a_call_that_never_comes_back_gives_its_place_to_others():
  factory = HeldFactory()
  factory.threads = 1

  async def body(post, get):
    for number in range(3):
      await post('create')
      if number < 2:
        await post('reset', id=number, data_idx=number)
        await post('step', 504, id=number, action='wait')
    await post('reset', id=2, data_idx=2)
    assert await post('step', id=2, action='end')

  with_factory(factory, body, deadline_s=1.0)  # whose end waits for neither
  assert not factory.waited
  factory.go.set()


def test_a_slow_step_does_not_hold_up_others():
  async def body(post, get):
    for number in range(2):
      await post('create')
      await post('reset', id=number, data_idx=number)
    slow = asyncio.create_task(post('step', id=0, action='wait'))
    while not factory.waits.is_set():
      await get('health')
    await post('step', id=1, action='go')
    # Closing what is busy waits for it.
    closing = asyncio.create_task(post('close', id=0))
    await asyncio.sleep(0.1)
    assert not slow.done() and not closing.done()
    factory.go.set()
    assert await closing is True and factory.waited
    await slow

  factory = HeldFactory()
  with_factory(factory, body)


def test_a_slow_close_does_not_hold_up_others():
  async def body(post, get):
    for number in range(2):
      await post('create')
      await post('reset', id=number, data_idx=number)
    await post('step', id=0, action='stick')
    closing = asyncio.create_task(post('close', id=0))
    assert not (await post('step', id=1, action='go'))['done']
    assert not closing.done()
    factory.go.set()
    assert await closing is True

  factory = HeldFactory()
  with_factory(factory, body)


def test_a_close_that_fails_keeps_no_slot_and_ends_no_sweeper():
  async def body(post, get):
    for number in range(4):
      await post('create')
      # Those of 2 and 3 wait until the lease of the one before has ended.
      await post('reset', id=number, data_idx=number)
      await post('step', id=number, action='break')
      if number == 0:
        assert await post('close', id=number) is True

  factory = HeldFactory(slots=1)
  with_factory(factory, body, lease_s=1.0)  # whose end closes the last one
  assert factory.resets == [0, 1, 2, 3]


def test_a_token_is_wanted_of_everything_but_health():
  async def body(post, get):
    for headers in (None, {'Authorization': 'Bearer wrong'}):
      assert 'token' in (await post('create', 401, headers))['error']
      await get('metrics', 401, headers)
      await get('health', headers=headers)
    right = {'Authorization': 'Bearer s3cret'}
    assert await post('create', headers=right) == {'id': 0}

  with_factory(HeldFactory(), body, token='s3cret')
