"""Client of an OpenEnv server: its routes, and sessions over WebSockets.

The wire is openenv-core's (0.3). Methods are called from any thread.
"""

import asyncio
import json
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import aiohttp
import msgspec
from absl import logging

from agentrl.envs import replies
from agentrl.errors import EnvError, EnvFault, one_line
from agentrl.runtime.loop_thread import LoopThread

T = TypeVar('T')
_CLOSE_S = 5.0
_MARGIN_S = 5.0  # beyond the deadline of a request


class Result(msgspec.Struct):
  """The data of an `observation` message."""

  observation: dict[str, Any]
  reward: bool | replies.Number | None = None
  done: bool = False


class Metadata(msgspec.Struct):
  """The reply to GET /metadata."""

  name: str = 'an environment'
  description: str = ''


class Tool(msgspec.Struct):
  """A tool of a `list_tools` observation."""

  name: str
  description: str
  input_schema: dict[str, Any]


class _Reply(msgspec.Struct):
  """A message of a session."""

  type: str
  data: dict[str, Any] = {}


class _Schemas(msgspec.Struct):
  """The reply to GET /schema."""

  action: dict[str, Any]


class Refused(EnvError):
  """An error message of a server.

  Attributes:
    code: of openenv-core, such as VALIDATION_ERROR.
  """

  def __init__(self, message: str, code: str):
    super().__init__(message)
    self.code = code


class Client:
  """A client of one server, with an event loop in a thread.

  Attributes:
    url: of the server, without a slash at the end.
    timeout_s: limit of one request.
  """

  def __init__(self, url: str, timeout_s: float):
    self.url = url.rstrip('/')
    self.timeout_s = timeout_s
    self._loop = LoopThread('openenv')
    self._http = self.wait(_http_session(timeout_s), 'the HTTP session')

  def wait(self, coroutine: Coroutine[Any, Any, T], what: str) -> T:
    """The result of a coroutine of the loop.

    Raises:
      EnvError: it does not end in time, or the connection fails.
    """
    future = self._loop.submit(coroutine)
    try:
      return future.result(self.timeout_s + _MARGIN_S)
    except TimeoutError as error:
      future.cancel()
      raise EnvError(
          f'The OpenEnv server {self.url} does not answer {what} within'
          f' {self.timeout_s:g} s.'
      ) from error
    except (aiohttp.ClientError, OSError) as error:
      raise EnvError(
          f'The OpenEnv server {self.url} does not answer {what}:'
          f' {type(error).__name__} {" ".join(str(error).split())}'
      ) from error

  def check(self) -> None:
    """Refuses a server that is not healthy.

    Raises:
      EnvError: it cannot be reached, or says so.
    """
    self._get('health')

  def action_schema(self) -> dict[str, Any]:
    """The JSON Schema of the server's actions.

    Raises:
      EnvError: it does not answer.
      EnvFault: it answers outside of the protocol.
    """
    return _read(self._get('schema'), _Schemas, 'GET /schema').action

  def metadata(self) -> Metadata:
    """The server's words about its environment.

    Raises:
      EnvError: it does not answer.
    """
    return _read(self._get('metadata'), Metadata, 'GET /metadata')

  def connect(self) -> aiohttp.ClientWebSocketResponse:
    """A WebSocket of a new session.

    Raises:
      EnvError: the server opens none.
    """

    async def connect() -> aiohttp.ClientWebSocketResponse:
      return await self._http.ws_connect(
          f'{self.url}/ws',
          max_msg_size=replies.MAX_BYTES,
          timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_S),
      )

    return self.wait(connect(), 'a new session')

  def close(self) -> None:
    """Ends the connections and the thread."""
    self._loop.submit(self._http.close()).result(_CLOSE_S)
    self._loop.close()

  def _get(self, route: str) -> Any:
    """The JSON of a route."""
    url = f'{self.url}/{route}'

    async def get() -> Any:
      async with self._http.get(url) as response:
        body = await replies.read_body(response)
        if response.status != 200:
          raise EnvError(
              f'GET {url} gave {response.status}: is this an OpenEnv server?'
          )
        return _json(body, f'GET {url}')

    return self.wait(get(), f'GET /{route}')


async def _http_session(timeout_s: float) -> aiohttp.ClientSession:
  return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout_s))


class Session:
  """A session of a server: one environment of its own."""

  def __init__(self, client: Client):
    """Connects.

    Raises:
      EnvError: the server cannot be reached.
    """
    self._client = client
    self._socket = client.connect()

  def reset(self, arguments: dict[str, Any]) -> Result:
    """The first observation.

    Raises:
      EnvError: the server does not answer, or has no room.
      EnvFault: its code fails, or it replies outside of the protocol.
    """
    try:
      return self._observation('reset', arguments)
    except Refused as error:
      if error.code in ('CAPACITY_REACHED', 'SESSION_ERROR'):
        raise
      raise EnvFault(str(error)) from error

  def step(self, action: dict[str, Any]) -> Result:
    """The answer to an action.

    Raises:
      Refused: the server takes no such action, or its code fails.
      EnvError: the server does not answer.
      EnvFault: it replies outside of the protocol.
    """
    return self._observation('step', action)

  def tools(self) -> list[Tool]:
    """The tools of the server.

    Raises:
      EnvError: as `step`.
    """
    listed = self.step({'type': 'list_tools'}).observation
    return _read(listed.get('tools'), list[Tool], 'the list of tools')

  def close(self) -> None:
    """Ends the session. A failure is only logged: the server may be gone."""
    try:
      self._client.wait(self._socket.close(), 'the end of a session')
    except EnvError as error:
      logging.info('%s', error)

  def _observation(self, kind: str, data: dict[str, Any]) -> Result:
    try:
      reply = self._client.wait(self._exchange(kind, data), kind)
    except EnvError:
      self.close()  # a late answer would be taken for the next one's
      raise
    if reply.type == 'error':
      raise _refusal(kind, reply.data)
    if reply.type != 'observation':
      raise EnvFault(f'{kind} of OpenEnv gave a message {reply.type!r:.80}.')
    return _read(reply.data, Result, kind)

  async def _exchange(self, kind: str, data: dict[str, Any]) -> _Reply:
    await self._socket.send_str(json.dumps({'type': kind, 'data': data}))
    async with asyncio.timeout(self._client.timeout_s):
      message = await self._socket.receive()
    if message.type is aiohttp.WSMsgType.TEXT:
      return _read(_json(message.data, kind), _Reply, kind)
    if self._socket.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
      raise EnvFault(f'{kind} of OpenEnv gave over {replies.MAX_BYTES} bytes.')
    raise EnvError(
        f'The OpenEnv server {self._client.url} does not answer {kind}: the'
        f' connection ended ({message.type.name}).'
    )


def _refusal(kind: str, data: Mapping[str, Any]) -> Refused:
  """The error that a server answers with."""
  code, words = str(data.get('code', '')), str(data.get('message', ''))
  errors = data.get('errors')
  if isinstance(errors, list) and errors and isinstance(errors[0], dict):
    where = '.'.join(map(str, errors[0].get('loc', ())))
    words = f'{where}: {errors[0].get("msg", words)}'
  if code == 'CAPACITY_REACHED':
    words += '; set env.options.episodes to the sessions that it takes'
  text = f'{code} {one_line(words, 2 * replies.SHOWN)}'
  return Refused(f'{kind} of OpenEnv failed: {text}', code)


def _json(body: str | bytes, what: str) -> Any:
  try:
    return json.loads(body)
  except (ValueError, RecursionError) as error:
    raise EnvFault(f'{what} gave no JSON: {error}') from error


def _read(value: Any, kind: type[T], what: str) -> T:
  """A JSON value as the type that the protocol has.

  Raises:
    EnvFault: it is of another type.
  """
  try:
    return msgspec.convert(value, kind)
  except msgspec.ValidationError as error:
    raise EnvFault(
        f'{what} of OpenEnv is not what openenv-core 0.3 sends: {error}'
    ) from error
