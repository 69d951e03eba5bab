"""Visitors of the sites over HTTP, without a browser."""

import asyncio
import contextlib

import aiohttp

from agentrl.envs.webarena.server import COOKIE, Server
from agentrl.sites.state import Faults, State


class Client:
  """A visitor: requests, and what they have changed."""

  def __init__(self, session, state):
    self._session, self._state = session, state

  async def get(self, path, **query):
    async with self._session.get(path, params=query) as reply:
      return reply.status, await reply.text(), reply.url.path_qs

  async def post(self, path, **form):
    async with self._session.post(path, data=form) as reply:
      return reply.status, await reply.text(), reply.url.path_qs

  def changes(self):
    return self._state.changes()

  def writes(self, store):
    """Rows written in a store's records, also those that are as before."""
    return self._state.copy(store).total_changes


@contextlib.contextmanager
def serving(*sites):
  """A loop and a server for all tests: its templates are compiled once."""
  with asyncio.Runner() as runner:
    server = Server(sites)
    runner.run(server.start())
    yield runner, server
    runner.run(server.stop())


def play(served, scenario, store, sites, episodes=1):
  """Runs a coroutine function that gets a client of each episode and site."""
  runner, server = served

  async def run():
    clients = []
    async with contextlib.AsyncExitStack() as stack:
      for _ in range(episodes):
        state = State({store.name: store}, Faults(), 'x')
        key = server.open(state)
        stack.callback(server.close, key)
        for site in sites:
          session = aiohttp.ClientSession(
              server.urls[site],
              cookies={COOKIE: key},
              cookie_jar=aiohttp.CookieJar(unsafe=True),
          )
          await stack.enter_async_context(session)
          clients.append(Client(session, state))
      await scenario(*clients)

  runner.run(run())
