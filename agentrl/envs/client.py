"""Async client of environment servers, ours and AgentGym's own."""

import json
import math
import reprlib
import time
from collections.abc import Sequence
from typing import Any

import aiohttp
from absl import logging

from agentrl import envs
from agentrl.envs import wire as wire_lib
from agentrl.errors import EnvError
from agentrl.types import StepResult

_SHOWN = 200  # characters of a request or a reply that an error repeats
# A server that failed is asked last for so long.
_COOL_DOWN_S = 30.0

_repr = reprlib.Repr()  # it takes arguments only since Python 3.12
_repr.maxstring, _repr.maxother, _repr.maxdict = 80, _SHOWN, 8
_short = _repr.repr


class EnvClient:
  """One live episode on an environment server.

      async with EnvClient(session, url, env_name='textcraft') as env:
        observation = await env.reset(task_id)
        result = await env.step('get 1 oak logs')

  The session is the caller's: one connection pool serves every episode. The
  episode is created by the first `reset`, because some servers must know the
  task to create it, and closed at the end of the block. Nothing is tried twice
  here: the collector decides.
  """

  def __init__(
      self,
      session: aiohttp.ClientSession,
      base_url: str,
      *,
      env_name: str,
      timeout_s: float = 60.0,
      token: str | None = None,
  ):
    """Keeps the parts; nothing is sent yet.

    Args:
      session: of the caller.
      base_url: of the server.
      env_name: in `wire.WIRES`, or as `envs.get` has it.
      timeout_s: limit of one request.
      token: sent as `Authorization: Bearer TOKEN`; None: nothing.
    """
    self._session = session
    self._headers = (
        {} if token is None else {'Authorization': f'Bearer {token}'}
    )
    self._base_url = base_url.rstrip('/')
    self._wire = wire_lib.WIRES.get(env_name) or envs.get(env_name).wire
    self._timeout = aiohttp.ClientTimeout(total=timeout_s)
    self._episode: int | None = None
    self._total = 0.0

  async def __aenter__(self) -> 'EnvClient':
    return self

  async def __aexit__(self, *exc_info) -> None:
    await self.close()

  async def reset(self, task_id: int, seed: int | None = None) -> str:
    """Starts task `task_id` and returns its first observation.

    Args:
      task_id: which task.
      seed: what the task itself leaves to chance; None: the server's default.
        AgentGym's own servers ignore it.

    Raises:
      EnvError: the server could not be reached or refused.
    """
    if self._episode is None:
      await self._create(task_id)
    wire = self._wire
    request = {wire.task_key: task_id, **wire.reset_extra}
    if seed is not None:
      request['seed'] = seed
    reply = await self._post_episode('reset', **request)
    if wire.prompt_keys:
      texts = [self._field(reply, key, 'reset') for key in wire.prompt_keys]
      observation = '\n'.join(str(text) for text in texts)
    else:
      observation = reply
    if not isinstance(observation, str) or (
        wire.failed_reset is not None and observation == wire.failed_reset
    ):
      raise EnvError(
          f'Resetting {self._base_url} to task {task_id} gave no observation:'
          f' {_short(reply)}'
      )
    self._total = 0.0
    return observation

  async def step(self, action: str) -> StepResult:
    """Does `action`.

    Raises:
      EnvError: the server could not be reached or refused.
    """
    wire = self._wire
    reply = await self._post_episode('step', action=action)
    observation = self._field(reply, 'observation', 'step')
    ended = bool(self._field(reply, wire.ended_key, 'step'))
    truncated = bool(reply.get('truncated', False))
    terminated = bool(reply.get('terminated', ended and not truncated))
    number = self._field(reply, wire.reward_key, 'step')
    if not isinstance(number, int | float) or not math.isfinite(number):
      raise EnvError(
          f'{self._base_url}/step gave the reward {_short(number)}, not a'
          ' finite number.'
      )
    worth = wire.worth(number)
    ended = terminated or truncated
    if wire.reward_kind == wire_lib.CUMULATIVE:
      reward, self._total = worth - self._total, worth
    else:
      final = wire.reward_kind == wire_lib.TERMINAL
      reward = worth if ended or not final else 0.0
      self._total += reward
    success = reply.get('success')
    if success is None and ended:
      success = terminated and wire.success(self._total)
    return StepResult(
        observation=str(observation),
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        success=success,
    )

  async def observation(self) -> str:
    """The last observation once more.

    AgentGym's SciWorld and SearchQA leave out or add parts of the task.

    Raises:
      EnvError: the server could not be reached or refused.
    """
    params = {self._wire.episode_key: str(self._live())}
    reply = await self._request('GET', 'observation', params=params)
    if isinstance(reply, dict):
      reply = self._field(reply, 'observation', 'observation')
    return str(reply)

  async def expert_action(self) -> str:
    """The expert's next action; only from our servers started with it.

    Raises:
      EnvError: the server has no expert, or it has no plan.
    """
    params = {self._wire.episode_key: str(self._live())}
    reply = await self._request('GET', 'expert', params=params)
    return str(self._field(reply, 'action', 'expert'))

  async def close(self) -> None:
    """Gives the episode back. A failure is only logged.

    It must not hide the error that ended the episode, and the server's lease
    ends what is left open.
    """
    if self._episode is None:
      return
    try:
      await self._post_episode('close')
    except EnvError as error:
      logging.warning('An environment was left open: %s', error)
    self._episode = None

  async def probe(self, task_id: int) -> None:
    """Opens an episode, which the end of the block closes, and plays none.

    Raises:
      EnvError: no server of this environment is at the URL.
    """
    await self._create(task_id)

  async def _create(self, task_id: int) -> None:
    wire = self._wire
    request = {wire.create_task_key: task_id} if wire.create_task_key else {}
    reply = await self._request('POST', 'create', json=request)
    if wire.created_key is not None:
      reply = self._field(reply, wire.created_key, 'create')
    if not isinstance(reply, int) or isinstance(reply, bool):
      raise EnvError(f'{self._base_url}/create gave the id {_short(reply)}.')
    self._episode = reply

  async def _post_episode(self, route: str, **fields: Any) -> Any:
    request = {self._wire.episode_key: self._live(), **fields}
    return await self._request('POST', route, json=request)

  def _live(self) -> int:
    if self._episode is None:
      raise EnvError(
          f'No episode is open on {self._base_url}; call reset first.'
      )
    return self._episode

  def _field(self, reply: Any, key: str, route: str) -> Any:
    if not isinstance(reply, dict) or key not in reply:
      raise EnvError(
          f'{self._base_url}/{route} gave no {key!r}: {_short(reply)}'
      )
    return reply[key]

  async def _request(self, method: str, route: str, **content: Any) -> Any:
    """The decoded reply to one request, or an EnvError that names both."""
    url = f'{self._base_url}/{route}'
    asked = f'{method} {url} with {_short(content)}'
    try:
      async with self._session.request(
          method, url, timeout=self._timeout, headers=self._headers, **content
      ) as response:
        status, body = response.status, await response.text()
    except (aiohttp.ClientError, TimeoutError, UnicodeDecodeError) as error:
      raise EnvError(f'{asked} failed: {error!r}') from error
    try:
      reply = json.loads(body)
    except ValueError:
      reply = None
    if status != 200:
      known = isinstance(reply, dict) and 'error' in reply
      # A page of another server: in one line.
      words = reply['error'] if known else ' '.join(body.split())[:_SHOWN]
      raise EnvError(f'{asked} gave {status}: {words}')
    if reply is None:
      raise EnvError(
          f'{asked} gave {response.content_type}, not JSON: {body[:_SHOWN]!r}'
      )
    # AgentGym's servers say 200 whatever happens.
    if isinstance(reply, dict) and 'error' in reply:
      raise EnvError(f'{asked} gave the error {_short(reply["error"])}')
    return reply


class EnvPool:
  """Several servers of one environment; new episodes go to the least busy.

  A server that failed is asked last for half a minute: it answers fastest, so
  it would otherwise draw every episode to itself.
  """

  def __init__(
      self,
      session: aiohttp.ClientSession,
      urls: Sequence[str],
      *,
      env_name: str,
      timeout_s: float = 60.0,
      token: str | None = None,
  ):
    if not urls:
      raise EnvError('An environment pool needs at least one URL.')
    self._session = session
    self._env_name = env_name
    self._timeout_s = timeout_s
    self._token = token
    self._live = dict.fromkeys(urls, 0)
    self._failed_at = dict.fromkeys(urls, -_COOL_DOWN_S)

  def client(self) -> EnvClient:
    """A client for one episode; its server is chosen when it is opened."""
    return _PooledClient(self)

  async def probe(self, task_id: int) -> None:
    """Asks every server for an episode, so that a wrong URL is told at once.

    Raises:
      EnvError: none of them gives one. Of some that fail, the log tells.
    """
    failures = []
    for url in self._live:
      try:
        async with _PooledClient(self, url) as client:
          await client.probe(task_id)
      except EnvError as error:
        failures.append(error)
    if len(failures) == len(self._live):
      raise EnvError(
          f'No {self._env_name} server answers: {failures[0]}'
      ) from failures[0]
    for error in failures:
      logging.warning('A %s server does not answer: %s', self._env_name, error)

  def _choose(self) -> str:
    now = time.monotonic()
    return min(
        self._live,
        key=lambda url: (
            now - self._failed_at[url] < _COOL_DOWN_S,
            self._live[url],
        ),
    )


class _PooledClient(EnvClient):
  """A client whose pool learns how its server did, and may choose it."""

  def __init__(self, pool: EnvPool, url: str | None = None):
    super().__init__(
        pool._session,
        url or '',
        env_name=pool._env_name,
        timeout_s=pool._timeout_s,
        token=pool._token,
    )
    self._pool = pool
    self._url = url

  async def __aenter__(self) -> 'EnvClient':
    if self._url is None:
      self._url = self._pool._choose()
    self._base_url = self._url.rstrip('/')
    self._pool._live[self._url] += 1
    return self

  async def __aexit__(self, *exc_info) -> None:
    self._pool._live[self._url] -= 1
    await self.close()

  async def _request(self, method: str, route: str, **content: Any) -> Any:
    try:
      return await super()._request(method, route, **content)
    except EnvError:
      self._pool._failed_at[self._url] = time.monotonic()
      raise
