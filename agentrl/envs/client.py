"""Async client of environment servers, ours and AgentGym's own."""

import base64
import errno
import reprlib
from typing import Any

import aiohttp
from absl import logging

from agentrl import envs
from agentrl.envs import dialect as dialect_lib, replies
from agentrl.envs.replies import Decoder, Refused, Unavailable
from agentrl.errors import ConfigError, EnvError, EnvFault
from agentrl.http import auth
from agentrl.types import StepResult

# Too many episodes; a proxy before a server that is away; a busy one.
_COME_AGAIN = (429, 502, 503)

_repr = reprlib.Repr()  # it takes arguments only since Python 3.12
_repr.maxstring, _repr.maxother, _repr.maxdict = 80, replies.SHOWN, 8
_short = _repr.repr


class EnvClient:
  """One live episode on an environment server.

      async with EnvClient(session, url, env_name='textcraft') as env:
        observation = await env.reset(task_id)
        result = await env.step('get 1 oak logs')

  The session is the caller's: one connection pool serves every episode. The
  episode is created by the first `reset`, because some servers must know the
  task to create it, and closed at the end of the block. Nothing is tried twice
  here: the collector decides, and `pool` waits for servers that are started anew.

  Attributes:
    spec: of the environment.
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
      env_name: as `envs.get` has it.
      timeout_s: limit of one request.
      token: sent as `Authorization: Bearer TOKEN`; None: nothing.
    """
    self._session = session
    self._headers = auth.headers(token)
    self._base_url = base_url.rstrip('/')
    self._env_name = env_name
    self.spec = envs.get(env_name)
    self._name, self._dialect = self.spec.name, self.spec.dialect
    self._timeout = aiohttp.ClientTimeout(total=timeout_s)
    self._episode: int | None = None
    self._total = 0.0

  @property
  def name(self) -> str:
    """The name of the environment."""
    return self._name

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
    dialect = self._dialect
    request = {dialect.task_key: task_id, **dialect.reset_extra}
    if seed is not None:
      request['seed'] = seed
    decoder = None if dialect.observes else replies.opened(dialect)
    reply = await self._post_episode(decoder, 'reset', **request)
    if dialect.observes:
      reply = await self.observation()
    elif dialect.prompt_keys:
      parts = [reply[key] for key in dialect.prompt_keys]
      reply = self._with_actions('\n'.join(parts), reply)
    if reply == dialect.failed_reset:
      raise EnvError(
          f'Resetting {self._base_url} to task {task_id} gave no observation'
          f' but {reply!r}.'
      )
    self._total = 0.0
    return reply

  async def step(self, action: str) -> StepResult:
    """Does `action`.

    Raises:
      EnvError: the server could not be reached or refused.
    """
    dialect = self._dialect
    reply = await self._post_episode(
        replies.stepped(dialect),
        'step',
        action=dialect.action_form.replace('{action}', action),
    )
    truncated = reply.get('truncated', False)
    terminated = reply.get(
        'terminated', reply[dialect.ended_key] and not truncated
    )
    worth = dialect.worth(reply[dialect.reward_key])
    ended = terminated or truncated
    if dialect.reward_kind == dialect_lib.CUMULATIVE:
      reward, self._total = worth - self._total, worth
    else:
      final = dialect.reward_kind == dialect_lib.TERMINAL
      reward = worth if ended or not final else 0.0
      self._total += reward
    success = reply.get('success')
    if success is None and ended:
      success = terminated and dialect.success(self._total)
    return StepResult(
        observation=self._with_actions(reply[dialect.observation_key], reply),
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        success=success,
        progress=reply.get('progress'),
    )

  def _with_actions(self, text: str, reply: Any) -> str:
    """An observation, and the actions that a reply lists."""
    if self._dialect.actions_key is None:
      return text
    actions = ', '.join(reply[self._dialect.actions_key])
    return f'{text}\nAVAILABLE ACTIONS: {actions}'

  async def observation(self) -> str:
    """The last observation once more.

    AgentGym's SciWorld and SearchQA leave out or add parts of the task.

    Raises:
      EnvError: the server could not be reached or refused.
    """
    reply = await self._get_episode(replies.OBSERVATION, 'observation')
    return reply if isinstance(reply, str) else reply['observation']

  async def available_actions(self) -> list[str]:
    """Actions that can be done now, or their forms; only from our servers.

    Raises:
      EnvError: the server could not be reached or refused.
    """
    try:
      reply = await self._get_episode(replies.AVAILABLE, 'available_actions')
    except Refused as error:
      if error.status != 404:
        raise
      raise EnvError(
          f'{self._base_url} offers no list of actions (GET /available_actions'
          " gave 404; AgentGym's own servers have none); use a server of ours."
      ) from error
    return reply['available_actions']

  async def expert_action(self) -> str:
    """The expert's next action; only from our servers started with it.

    Raises:
      EnvError: the server has no expert, or it has no plan.
    """
    return (await self._get_episode(replies.EXPERT, 'expert'))['action']

  async def picture(self) -> bytes:
    """The environment as a PNG file; see `Dialect.renders`.

    Raises:
      EnvError: the server could not be reached or refused, or gave no picture.
    """
    data = await self._post_episode(replies.TEXT, 'render')
    head, _, content = data.partition(',')
    try:
      png = base64.b64decode(content, validate=True)
    except ValueError:
      png = b''
    if head != 'data:image/png;base64' or not png.startswith(b'\x89PNG'):
      raise EnvError(
          f'{self._base_url} drew no PNG picture but {_short(data)}.'
      )
    return png

  async def boxes(self) -> dict[int, tuple[float, float, float, float]]:
    """Left, top, width and height of a page's elements in its picture, by number.

    Only from our servers of browsers.

    Raises:
      EnvError: the server could not be reached or refused.
    """
    return await self._get_episode(replies.BOXES, 'boxes')

  async def close(self) -> None:
    """Gives the episode back. A failure is only logged.

    It must not hide the error that ended the episode, and the server's lease
    ends what is left open.
    """
    if self._episode is None or not self._dialect.closes:
      self._episode = None
      return
    try:
      await self._post_episode(None, 'close')
    except EnvError as error:
      logging.warning('An environment was left open: %s', error)
    self._episode = None

  async def probe(
      self,
      task_id: int,
      *,
      expert: bool = False,
      data_version: int | None = None,
  ) -> None:
    """Opens an episode, which the end of the block closes, and plays none.

    Args:
      task_id: of the episode.
      expert: whether the server must offer its expert.
      data_version: what its tasks must be of, where it says; None: any.

    Raises:
      ConfigError: a server of another environment is at the URL, one with other
        tasks, or one without an expert.
      EnvError: no server of this environment is at the URL.
    """
    await self._check_name()
    if data_version is not None:
      await self._check_version(data_version)
    await self._create(task_id)
    if expert:
      await self._check_expert()

  async def _check_name(self) -> None:
    """Field names of environments coincide: the server says which it is."""
    try:
      greeting = await self._request(replies.TEXT, 'GET', '')
    except Unavailable:
      raise
    except EnvError:  # no greeting: /create will fail if it is another
      return
    greetings = [spec.dialect.greeting for spec in envs.every()]
    other = dialect_lib.other_environment(
        greeting, self._name, self._dialect, greetings
    )
    if other is not None:
      raise ConfigError(
          f'{self._base_url} serves {other}, and env.name is'
          f' {self._env_name!r}; set one of them right.'
      )

  async def _check_version(self, wanted: int) -> None:
    """Refuses a server with another data version, whose ids are other tasks."""
    try:
      health = await self._request(replies.HEALTH, 'GET', 'health')
    except Unavailable:
      raise
    except EnvError:  # AgentGym's servers have no such route
      return
    version = health.get('data_version', 1)
    if version != wanted:
      raise ConfigError(
          f'{self._base_url} serves data_version {version} of {self._env_name},'
          f' and here it has {wanted}: the same ids are other tasks. Run both'
          ' with one version of agentrl.'
      )

  async def _check_expert(self) -> None:
    try:
      await self.expert_action()
    except Refused as error:
      if error.status != 404:  # the route is there: 409, the episode is new
        return
      raise ConfigError(
          f"{self._base_url} has no expert (GET /expert gave 404; AgentGym's"
          ' own servers have none), and this run wants its demonstrations. Set'
          ' warmstart.episodes=0, or data.expert_episodes=0 with data.files. A'
          ' tiny model, whose tokenizer is trained on demonstrations, learns'
          ' from a file first: configs/textcraft_sft.py:data=FILE,model=NAME,'
          ' and then that workdir as model.name. A server of ours has its'
          ' expert when it is started with it: configs/serve_env.py:expert'
      ) from error

  async def _create(self, task_id: int) -> None:
    dialect = self._dialect
    request = (
        {dialect.create_task_key: task_id} if dialect.create_task_key else {}
    )
    reply = await self._request(
        replies.created(dialect), 'POST', 'create', json=request
    )
    self._episode = reply[dialect.created_key] if dialect.created_key else reply

  async def _post_episode(
      self, decoder: Decoder | None, route: str, **fields: Any
  ) -> Any:
    request = {self._dialect.episode_key: self._live(), **fields}
    return await self._request(decoder, 'POST', route, json=request)

  async def _get_episode(self, decoder: Decoder, route: str) -> Any:
    params = {self._dialect.episode_key: str(self._live())}
    return await self._request(decoder, 'GET', route, params=params)

  def _live(self) -> int:
    if self._episode is None:
      raise EnvError(
          f'No episode is open on {self._base_url}; call reset first.'
      )
    return self._episode

  async def _request(
      self, decoder: Decoder | None, method: str, route: str, **content: Any
  ) -> Any:
    """The reply to one request as `decoder` reads it; None: unread.

    Raises:
      Unavailable: none, or one that says to come again.
      Refused: another HTTP status.
      EnvFault: the environment's own code is at fault.
      EnvError: any other.
    """
    url = f'{self._base_url}/{route}'
    request = f'{method} {url}' + (
        f' with {_short(content)}' if content else ''
    )
    try:
      async with self._session.request(
          method, url, timeout=self._timeout, headers=self._headers, **content
      ) as response:
        status, body = response.status, await replies.read_body(response)
    except aiohttp.ClientConnectorError as error:
      raise Unavailable(
          f'{request} failed: {error}',
          refused=error.errno == errno.ECONNREFUSED,
      ) from error
    except (
        aiohttp.ClientConnectionError,
        aiohttp.ClientPayloadError,  # it broke off
        TimeoutError,
    ) as error:
      why = _why(error)
      if isinstance(error, TimeoutError):
        why = f'{why.strip()}, no answer within {self._timeout.total:g} s'
      raise Unavailable(f'{request} failed: {why}') from error
    except aiohttp.ClientError as error:
      raise EnvError(f'{request} failed: {_why(error)}') from error
    words = replies.failure(body)
    if status == 500 and (fault := replies.fault(body)):
      raise EnvFault(fault)
    if status != 200:
      message = f'{request} gave {status}: {words or replies.shown(body)}'
      if status in _COME_AGAIN:
        raise Unavailable(message)
      raise Refused(message, status)
    # AgentGym's servers say 200 whatever happens.
    if words is not None:
      raise EnvError(f'{request} gave the error {words!r}')
    if decoder is None:
      return None
    return replies.decode(body, decoder, request)


def _why(error: Exception) -> str:
  """An error in one line; a lying server may have written most of it."""
  words = (
      error.message if isinstance(error, aiohttp.ClientResponseError) else error
  )
  return f'{type(error).__name__} {" ".join(str(words).split())}'[
      : replies.SHOWN
  ]
