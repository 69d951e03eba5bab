"""Several servers of one environment, and their restarts."""

import asyncio
import dataclasses
import math
import time
from collections.abc import Sequence
from typing import Any

import aiohttp
from absl import logging

from agentrl.envs.client import EnvClient
from agentrl.envs.replies import Decoder, Unavailable
from agentrl.errors import EnvError, EnvFault
from agentrl.runtime import balancer

_PAUSE_S = 0.5  # between two tries to open an episode


@dataclasses.dataclass
class _Server(balancer.ServerLoad):
  """The record of one server in this run."""

  url: str = ''
  answered: bool = False
  away_since: float | None = None  # its first failure since it last answered
  logged: bool = False  # its absence was logged
  episodes: dict[int, '_PooledClient'] = dataclasses.field(default_factory=dict)


class EnvPool:
  """Servers of one environment; new episodes go to the least busy.

  A server that failed is asked last for half a minute: it answers fastest, so
  it would otherwise draw every episode to itself.

  A server that has answered may go away for `retry_s`, to be started anew:
  opening an episode waits for it. The episodes that lived there fail, and the
  collector starts them again. Such a server counts its ids from 0 again, so an
  old episode's id may name another one: a client whose episode is gone sends no
  more requests for it.
  """

  def __init__(
      self,
      session: aiohttp.ClientSession,
      urls: Sequence[str],
      *,
      env_name: str,
      timeout_s: float = 60.0,
      retry_s: float = 0.0,
      token: str | None = None,
  ):
    """Keeps the parts; nothing is sent yet.

    Args:
      session: of the caller.
      urls: of the servers.
      env_name: as `EnvClient` has it.
      timeout_s: limit of one request.
      retry_s: how long a server that has answered may be away.
      token: as `EnvClient` has it.
    """
    if not urls:
      raise EnvError('An environment pool needs at least one URL.')
    self._session = session
    self._env_name = env_name
    self._timeout_s = timeout_s
    self._retry_s = retry_s
    self._token = token
    self._servers = [_Server(url=url) for url in dict.fromkeys(urls)]

  def client(self) -> EnvClient:
    """A client for one episode; its server is chosen when it is opened."""
    return _PooledClient(self)

  async def probe(
      self,
      task_id: int,
      *,
      expert: bool = False,
      data_version: int | None = None,
  ) -> None:
    """Asks every server for an episode, so that a wrong URL fails at once.

    Args:
      task_id: of the episode.
      expert: whether the servers must offer their expert.
      data_version: what their tasks must be of, where they say; None: any.

    Raises:
      ConfigError: one serves another environment, other tasks, or no expert.
      EnvError: none of them gives an episode; single failures are logged.
    """
    failures = []
    for server in self._servers:
      try:
        async with _PooledClient(self, server) as client:
          await client.probe(task_id, expert=expert, data_version=data_version)
      except EnvError as error:
        failures.append(error)
    if len(failures) == len(self._servers):
      raise EnvError(
          f'No {self._env_name} server answers: {failures[0]}'
      ) from failures[0]
    for failure in failures:
      logging.warning(
          'A %s server does not answer: %s', self._env_name, failure
      )

  def _choose(self) -> _Server:
    return balancer.least_busy(self._servers, time.monotonic())

  def _may_return(self, server: _Server) -> bool:
    if not server.answered:
      return False
    away = time.monotonic() - (server.away_since or math.inf)
    return away < self._retry_s

  def _hopeful(self) -> bool:
    """True if a server answers, or may come back in time."""
    return self._retry_s > 0 and any(
        self._may_return(server) for server in self._servers
    )

  def _failed(self, server: _Server, error: EnvError) -> None:
    if isinstance(error, EnvFault):  # which another server would meet, too
      self._answered(server)
      return
    now = time.monotonic()
    server.fail(now, balancer.MAX_COOL_DOWN_S)
    if not isinstance(error, Unavailable):
      self._answered(server)
      return
    if server.away_since is None:
      server.away_since = now
    if not error.refused:
      return
    if server.answered and self._retry_s and not server.logged:
      server.logged = True
      logging.warning(
          '%s is away; new episodes wait for it up to env.retry_s=%g s.',
          server.url,
          self._retry_s,
      )
    for client in tuple(server.episodes.values()):
      client.lose()

  def _answered(self, server: _Server) -> None:
    if server.logged:
      assert server.away_since is not None  # since it was logged
      away = time.monotonic() - server.away_since
      logging.warning('%s answers again after %.1f s.', server.url, away)
    server.answered, server.logged, server.away_since = True, False, None


class _PooledClient(EnvClient):
  """A client that reports to its pool, which may choose its server."""

  def __init__(self, pool: EnvPool, server: _Server | None = None):
    super().__init__(
        pool._session,
        server.url if server else '',
        env_name=pool._env_name,
        timeout_s=pool._timeout_s,
        token=pool._token,
    )
    self._pool = pool
    self._server = server
    self._lost = False

  async def __aenter__(self) -> 'EnvClient':
    self._use(self._server or self._pool._choose())
    return self

  async def __aexit__(self, *exc_info) -> None:
    self._chosen.in_flight -= 1
    await self.close()

  @property
  def _chosen(self) -> _Server:
    assert self._server is not None  # `__aenter__` chooses one
    return self._server

  def lose(self) -> None:
    """Lets go of the episode: its server died and took it along."""
    self._forget(self._episode)
    self._episode, self._lost = None, True

  async def close(self) -> None:
    number = self._episode
    await super().close()
    self._forget(number)

  def _use(self, server: _Server) -> None:
    self._server, self._base_url = server, server.url.rstrip('/')
    server.in_flight += 1

  def _forget(self, number: int | None) -> None:
    episodes = self._chosen.episodes
    if number is not None and episodes.get(number) is self:
      del episodes[number]

  def _live(self) -> int:
    if self._lost:
      raise EnvError(
          f'{self._base_url} was started anew, and this episode is gone.'
      )
    return super()._live()

  async def _create(self, task_id: int) -> None:
    self._lost = False
    while True:
      try:
        await super()._create(task_id)
        break
      except Unavailable:
        if not self._pool._hopeful():
          raise
      await asyncio.sleep(_PAUSE_S)
      self._chosen.in_flight -= 1
      self._use(self._pool._choose())
    # No server gives an id twice but one that was started anew.
    assert self._episode is not None  # it was created
    episodes = self._chosen.episodes
    older = episodes.get(self._episode)
    if older is not None:
      older.lose()
    episodes[self._episode] = self

  async def _request(
      self, decoder: Decoder | None, method: str, route: str, **content: Any
  ) -> Any:
    try:
      reply = await super()._request(decoder, method, route, **content)
    except EnvError as error:
      self._pool._failed(self._chosen, error)
      raise
    self._pool._answered(self._chosen)
    return reply
