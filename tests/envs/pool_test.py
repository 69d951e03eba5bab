"""Tests for agentrl.envs.pool: several servers, and servers that die."""

import asyncio
import contextlib

import aiohttp
import pytest
from aiohttp import web

from agentrl.envs.pool import EnvPool
from agentrl.errors import ConfigError, EnvError
from tests.envs.scripted import serving, textcraft


def test_a_pool_spreads_episodes_and_avoids_what_failed():
  async def main():
    good, bad = textcraft(), textcraft(create=web.Response(status=500))
    async with (
        serving(good) as (first, at_first),
        serving(good) as (second, at_second),
        serving(bad) as (third, at_third),
        aiohttp.ClientSession() as session,
        contextlib.AsyncExitStack() as stack,
    ):
      pool = EnvPool(session, [first, second, third], env_name='textcraft')
      failures = 0
      for _ in range(9):
        env = await stack.enter_async_context(pool.client())
        try:
          await env.reset(0)
        except EnvError:
          failures += 1
      counts = [
          sum(path == '/reset' for path, _ in requests)
          for requests in (at_first, at_second, at_third)
      ]
      return failures, counts

  failures, counts = asyncio.run(main())
  assert failures == 1 and counts == [4, 4, 0]


def test_a_probe_opens_and_closes_an_episode_wherever_one_can_be_had(caplog):
  good = textcraft()

  def bad():  # a response can be sent once
    return textcraft(create=web.Response(status=501, text='no'))

  async def probe(*servers):
    async with contextlib.AsyncExitStack() as stack:
      at = [await stack.enter_async_context(serving(x)) for x in servers]
      session = await stack.enter_async_context(aiohttp.ClientSession())
      urls = [url for url, _ in at]
      await EnvPool(session, urls, env_name='textcraft').probe(0)
      return [[path for path, _ in requests] for _, requests in at]

  assert asyncio.run(probe(good, good)) == 2 * [['/', '/create', '/close']]
  assert 'does not answer' not in caplog.text
  assert asyncio.run(probe(bad(), good))[1] == ['/', '/create', '/close']
  assert 'does not answer' in caplog.text and '501: no' in caplog.text
  with pytest.raises(EnvError, match='No textcraft server answers: .*501: no'):
    asyncio.run(probe(bad(), bad()))


def test_an_empty_pool_is_refused():
  with pytest.raises(EnvError, match='at least one URL'):
    EnvPool(None, [], env_name='babyai')


@contextlib.asynccontextmanager
async def one_server(replies, **pool):
  """A pool of one scripted server, which the test may stop and start."""
  async with contextlib.AsyncExitStack() as stack:
    session = await stack.enter_async_context(aiohttp.ClientSession())
    server = Restartable(replies)
    stack.push_async_callback(server.stop)
    await server.start()
    yield server, EnvPool(session, [server.url], env_name='textcraft', **pool)


class Restartable:
  """A TextCraft server that counts its ids from 0 after every start."""

  def __init__(self, replies=None):
    self._replies = replies or {}
    self._port = 0
    self._runner = None
    self.steps = []  # ids that were asked to step

  async def start(self):
    self._next = 0
    self._live = set()
    app = web.Application()
    for route in ('create', 'reset', 'step', 'close'):
      app.router.add_post(f'/{route}', self._answer)
    self._runner = web.AppRunner(app, shutdown_timeout=0.1)
    await self._runner.setup()
    site = web.TCPSite(self._runner, '127.0.0.1', self._port)
    await site.start()
    self._port = self._runner.addresses[0][1]
    self.url = f'http://127.0.0.1:{self._port}'

  async def stop(self):
    if self._runner is not None:
      await self._runner.cleanup()
      self._runner = None

  async def _answer(self, request):
    body = await request.json()
    if request.path == '/create':
      number, self._next = self._next, self._next + 1
      self._live.add(number)
      return web.json_response({'id': number, 'observation': 'Goal'})
    if body['id'] not in self._live:
      # As AgentGym's says it.
      error = f'The id {body["id"]} is not valid.'
      return web.json_response({'error': error})
    if request.path == '/close':
      self._live.remove(body['id'])
      return web.json_response(True)
    if request.path == '/step':
      self.steps.append(body['id'])
    reply = {'observation': 'Goal', 'reward': 0, 'done': False}
    return web.json_response(reply)


def test_an_episode_waits_for_a_server_that_is_started_anew(caplog):
  async def main():
    async with one_server({}, retry_s=30.0) as (server, pool):
      async with pool.client() as env:
        await env.reset(0)
        await server.stop()
        with pytest.raises(EnvError):
          await env.step('look')
      async with pool.client() as env:
        waiting = asyncio.create_task(env.reset(1))
        await asyncio.sleep(0.7)
        assert not waiting.done()
        await server.start()
        assert await waiting == 'Goal'
        return (await env.step('look')).observation

  assert asyncio.run(main()) == 'Goal'
  assert 'is away; new episodes wait for it' in caplog.text
  assert 'answers again after' in caplog.text


def test_a_server_is_waited_for_no_longer_than_it_may_be_away():
  async def main():
    async with one_server({}, retry_s=1.0) as (server, pool):
      async with pool.client() as env:
        await env.reset(0)
      await server.stop()
      loop = asyncio.get_running_loop()
      began = loop.time()
      for _ in range(3):  # the second and the third find it spent
        async with pool.client() as env:
          with pytest.raises(EnvError, match='/create .*Cannot connect'):
            await env.reset(0)
      return loop.time() - began

  assert 1.0 <= asyncio.run(main()) < 2.5


def test_a_server_that_never_answered_is_not_waited_for():
  async def main():
    async with aiohttp.ClientSession() as session:
      pool = EnvPool(
          session, ['http://127.0.0.1:9'], env_name='textcraft', retry_s=60.0
      )
      loop = asyncio.get_running_loop()
      began = loop.time()
      with pytest.raises(EnvError, match='No textcraft server answers'):
        await pool.probe(0)
      async with pool.client() as env:
        with pytest.raises(EnvError, match='Cannot connect'):
          await env.reset(0)
      return loop.time() - began

  assert asyncio.run(main()) < 5


@pytest.mark.parametrize('notice', [True, False])
def test_nobody_steps_into_an_episode_of_a_server_started_anew(notice):
  async def main():
    async with (
        one_server({}, retry_s=30.0) as (server, pool),
        pool.client() as old,
        pool.client() as other,
        pool.client() as new,
    ):
      await old.reset(0)
      await other.reset(1)
      await server.stop()
      if notice:  # a call that nobody answers
        with pytest.raises(EnvError):
          await other.step('look')
      await server.start()
      await new.reset(2)  # has the id that `old` had
      with pytest.raises(EnvError, match='started anew.*is gone'):
        await old.step('look')
      await old.close()  # of the new server's it is not
      await new.step('look')
      # Its id means nothing there.
      with pytest.raises(EnvError, match='is gone|not valid'):
        await other.step('look')
      return server.steps

  assert asyncio.run(main()) == [0]


def test_of_several_servers_one_that_is_there_is_taken():
  async def main():
    async with (
        one_server({}) as (first, _),
        one_server({}) as (second, _),
        aiohttp.ClientSession() as session,
    ):
      urls = [first.url, second.url]
      pool = EnvPool(session, urls, env_name='textcraft', retry_s=30.0)
      await pool.probe(0)
      await first.stop()
      loop = asyncio.get_running_loop()
      began = loop.time()
      for _ in range(4):
        async with pool.client() as env:
          await env.reset(0)
          await env.step('look')
      return loop.time() - began, second.steps

  seconds, steps = asyncio.run(main())
  assert seconds < 5 and steps == [1, 2, 3, 4]


def test_too_many_episodes_are_waited_out():
  busy = web.json_response({'error': 'too many'}, status=429)

  async def main():
    created = {'id': 5, 'observation': 'Goal'}
    async with (
        serving(textcraft(create=[created, busy, created])) as (url, requests),
        aiohttp.ClientSession() as session,
    ):
      pool = EnvPool(session, [url], env_name='textcraft', retry_s=30.0)
      await pool.probe(0)
      async with pool.client() as env:
        await env.reset(0)
      return [path for path, _ in requests]

  opened = ['/', '/create', '/close']
  assert asyncio.run(main())[:6] == [*opened, '/create', '/create', '/reset']


@pytest.mark.parametrize(
    'said, other',
    [
        ('This is environment BabyAI.', "'BabyAI'"),
        ('This is environment AlfWorld.', "'AlfWorld'"),
        ('agentrl guess environment server', "'guess'"),
        ('This is environment TextCraft.', None),
        ('agentrl textcraft environment server', None),
        ('ok', None),  # what AgentGym's SearchQA says
        (web.Response(status=404, text='no'), None),
        (web.Response(text='<html>'), None),
    ],
)
def test_a_server_of_another_environment_is_noticed_at_first(said, other):
  async def main():
    replies = textcraft() | {'/': said}
    async with (
        serving(replies) as (url, requests),
        aiohttp.ClientSession() as session,
    ):
      pool = EnvPool(session, [url], env_name='textcraft', retry_s=60.0)
      if other is None:
        await pool.probe(0)
      else:
        match = f"{url} serves {other}, and env.name is 'textcraft'"
        with pytest.raises(ConfigError, match=match):
          await pool.probe(0)
      return [path for path, _ in requests]

  paths = asyncio.run(main())
  assert paths == (['/', '/create', '/close'] if other is None else ['/'])


@pytest.mark.parametrize(
    'expert, words',
    [
        ({'action': 'get 1 oak log'}, None),
        (web.json_response({'error': 'not running'}, status=409), None),
        (
            web.json_response({'detail': 'Not Found'}, status=404),
            'has no expert .*warmstart.episodes=0.*textcraft_sft.py:data=FILE',
        ),
    ],
)
def test_a_server_without_an_expert_is_noticed_at_first(expert, words):
  async def main():
    async with (
        serving(textcraft(expert=expert)) as (url, requests),
        aiohttp.ClientSession() as session,
    ):
      pool = EnvPool(session, [url], env_name='textcraft')
      if words is None:
        await pool.probe(0, expert=True)
      else:
        await pool.probe(0)  # nobody wants it
        with pytest.raises(ConfigError, match=words):
          await pool.probe(0, expert=True)
      return [path for path, _ in requests][-2:]

  assert asyncio.run(main()) == ['/expert', '/close']


@pytest.mark.parametrize(
    'health, wanted, said',
    [
        ({'data_version': 2}, 2, None),
        ({'data_version': 2}, None, None),
        ({'data_version': 2}, 1, 'data_version 2 of textcraft, .* it has 1'),
        ({}, 1, None),  # of before there were versions
        ({}, 2, 'data_version 1 of textcraft, .* it has 2'),
        (None, 2, None),  # an original server does not say
    ],
)
def test_a_server_with_other_tasks_is_refused(health, wanted, said):
  reply = web.json_response({'env': 'textcraft', 'live': 0} | (health or {}))
  if health is None:
    reply = web.json_response({'detail': 'Not Found'}, status=404)

  async def main():
    async with (
        serving(textcraft(health=reply)) as (url, _),
        aiohttp.ClientSession() as session,
    ):
      pool = EnvPool(session, [url], env_name='textcraft')
      await pool.probe(0, data_version=wanted)

  if said is None:
    asyncio.run(main())
  else:
    with pytest.raises(ConfigError, match=said):
      asyncio.run(main())
