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

  assert asyncio.run(probe(good, good)) == 2 * [['/create', '/close']]
  assert 'does not answer' not in caplog.text
  assert asyncio.run(probe(bad(), good))[1] == ['/create', '/close']
  assert 'does not answer' in caplog.text and '501: no' in caplog.text
  with pytest.raises(EnvError, match='No textcraft server answers: .*501: no'):
    asyncio.run(probe(bad(), bad()))


def test_an_empty_pool_is_refused():
  with pytest.raises(EnvError, match='at least one URL'):
    EnvPool(None, [], env_name='babyai')
