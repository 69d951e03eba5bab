"""An OpenEnv server: its actions are functions, its observations texts.

`env.options.server` is the URL of a running server, or the command of one that the run
starts and ends, in which `{port}` stands for its port:

    ('python', '-m', 'uvicorn', 'echo_env.server.app:app', '--port', '{port}')

Each episode is a session over a WebSocket of its own. An action is a call of `act` with
the fields of the server's action type, or of a tool where the server has tools; a server
whose actions have a single text field takes plain text as well. A task is the seed of a
reset, or a line of the file `env.options.tasks`, whose parts may all be left out:

    {"reset": {"seed": 3, "level": "easy"}, "split": "train",
     "expert": [{"name": "act", "arguments": {"message": "up"}}, "down"]}

The wire is openenv-core's (0.3); the package itself is needed by the server alone.
"""

import asyncio
import dataclasses
import functools
import json
import pathlib
import socket
import tempfile
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import aiohttp
import msgspec
from absl import logging

from agentrl.envs import base, functions as functions_lib, replies
from agentrl.envs.adapters import task_files
from agentrl.envs.adapters.task_files import Task
from agentrl.envs.dialect import Dialect
from agentrl.envs.functions import Function, Functions
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec
from agentrl.errors import ConfigError, EnvError, EnvFault
from agentrl.runtime import children
from agentrl.runtime.children import Child
from agentrl.types import StepResult

T = TypeVar('T')
_COUNT = 20_000  # tasks without a file
_SPLITS = {'test': range(1000), 'dev': range(1000, 2000)}
_SPLITS['train'] = range(2000, _COUNT)
_FIELDS = ('reset', 'expert', 'split')
_ACT = 'act'
_PORT = '{port}'
_START_S = 120.0  # a server of its own may import much
_POLL_S = 0.1
_CLOSE_S = 5.0
_MARGIN_S = 5.0  # beyond the deadline of a request
# What servers call the fields of every action; no policy fills them.
_COMMON = ('metadata',)


class _Result(msgspec.Struct):
  """The data of an `observation` message."""

  observation: dict[str, Any]
  reward: bool | replies.Number | None = None
  done: bool = False


class _Reply(msgspec.Struct):
  """A message of a session."""

  type: str
  data: dict[str, Any] = {}


class _Schemas(msgspec.Struct):
  """The reply to GET /schema."""

  action: dict[str, Any]


class _Metadata(msgspec.Struct):
  """The reply to GET /metadata."""

  name: str = 'an environment'
  description: str = ''


class _Tool(msgspec.Struct):
  """A tool of a `list_tools` observation."""

  name: str
  description: str
  input_schema: dict[str, Any]


class Refused(EnvError):
  """An error message of a server.

  Attributes:
    code: of openenv-core, such as VALIDATION_ERROR.
  """

  def __init__(self, message: str, code: str):
    super().__init__(message)
    self.code = code


@dataclasses.dataclass(frozen=True)
class Actions:
  """The actions of a server.

  Attributes:
    functions: one for each tool, or `act`.
    tools: whether they are tools.
    text: the field that plain text fills; None: there is no such field.
  """

  functions: tuple[Function, ...]
  tools: bool = False
  text: str | None = None

  def payload(self, action: str) -> dict[str, Any] | None:
    """The data of a `step` message; None where `action` is no action."""
    call = functions_lib.called(self.functions, action)
    if call is None:
      return None if self.text is None else {self.text: action}
    name, arguments = call
    if self.tools:
      return {'type': 'call_tool', 'tool_name': name, 'arguments': arguments}
    return arguments


def _actions_of(schema: Mapping[str, Any]) -> Actions | None:
  """Actions by their JSON Schema; None: they are calls of tools, not yet known."""
  fields = {
      name: field
      for name, field in schema.get('properties', {}).items()
      if name not in _COMMON
  }
  if not fields or fields.keys() == {'type', 'tool_name', 'arguments'}:
    return None
  required = [x for x in schema.get('required', ()) if x in fields]
  texts = [
      name
      for name, field in fields.items()
      if isinstance(field, dict) and field.get('type') == 'string'
  ]
  text = None
  if (
      len(texts) == 1
      and texts[0].isidentifier()
      and set(required) <= set(texts)
  ):
    text = texts[0]
  act = Function(
      _ACT,
      forms=() if text is None else (f'{{{text}}}',),
      description=' '.join(str(schema.get('description') or 'Acts.').split()),
      schema={**schema, 'properties': fields, 'required': required},
  )
  return Actions((act,), text=text)


class Server:
  """A server, and the loop of a thread that speaks to it.

  Attributes:
    url: of the server, without a slash at the end.
  """

  def __init__(self, server: str | Sequence[str] | None, timeout_s: float):
    """Finds the server, or starts it.

    Args:
      server: its URL or command.
      timeout_s: limit of one request.

    Raises:
      ConfigError: no server is named, or a command has no `{port}`.
      EnvError: it cannot be reached, or does not start.
    """
    self._timeout_s = timeout_s
    self._child: Child | None = None
    self._folder: tempfile.TemporaryDirectory[str] | None = None
    self.url = _url(server)
    self._loop = asyncio.new_event_loop()
    self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
    self._thread.start()
    self._http = self.wait(_http_session(timeout_s), 'the HTTP session')
    try:
      if not isinstance(server, str):
        assert server is not None  # `_url` has refused it
        self._start(server)
      self.get('health')
    except EnvError:
      self.close()
      raise

  def _start(self, command: Sequence[str]) -> None:
    port = self.url.rpartition(':')[2]
    self._folder = tempfile.TemporaryDirectory(prefix='agentrl-openenv-')
    self._child = Child(
        [word.replace(_PORT, port) for word in command],
        name='openenv',
        env=children.environment(),
        log=pathlib.Path(self._folder.name) / 'log.txt',
        supervised=True,
    )
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
      if (ending := self._child.ending()) is not None:
        raise EnvError(
            f'The OpenEnv server {ending}: {self._child.last_words()}'
        )
      try:
        return self.get('health')
      except EnvError:
        time.sleep(_POLL_S)
    raise EnvError(
        f'The OpenEnv server does not answer on {self.url} within'
        f' {_START_S:g} s: does its command use {_PORT}?'
    )

  def wait(self, coroutine: Coroutine[Any, Any, T], what: str) -> T:
    """The result of a coroutine of the loop.

    Raises:
      EnvError: it does not end in time, or the connection fails.
    """
    future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
    try:
      return future.result(self._timeout_s + _MARGIN_S)
    except TimeoutError as error:
      future.cancel()
      raise EnvError(
          f'The OpenEnv server {self.url} does not answer {what} within'
          f' {self._timeout_s:g} s.'
      ) from error
    except (aiohttp.ClientError, OSError) as error:
      raise EnvError(
          f'The OpenEnv server {self.url} does not answer {what}:'
          f' {type(error).__name__} {" ".join(str(error).split())}'
      ) from error

  def get(self, route: str) -> Any:
    """The JSON of a route.

    Raises:
      EnvError: the server cannot be reached, or answers with another status.
    """
    return self.wait(self._get(route), f'GET /{route}')

  async def _get(self, route: str) -> Any:
    async with self._http.get(f'{self.url}/{route}') as response:
      body = await replies.read_body(response)
      if response.status != 200:
        raise EnvError(
            f'GET {self.url}/{route} gave {response.status}: is this an OpenEnv'
            ' server?'
        )
      return _json(body, f'GET {self.url}/{route}')

  def actions(self) -> Actions:
    """The actions of the server.

    Raises:
      EnvError: it does not answer.
      EnvFault: it answers outside of the protocol.
    """
    schema = _read(self.get('schema'), _Schemas, 'GET /schema').action
    found = _actions_of(schema)
    if found is not None:
      return found
    session = Session(self)
    try:
      return session.tools()
    finally:
      session.close()

  def words(self) -> Words:
    """The server's words about its environment, for a policy.

    Raises:
      EnvError: it does not answer.
    """
    found = _read(self.get('metadata'), _Metadata, 'GET /metadata')
    text = ' '.join(found.description.split())
    return Words(
        full=f'You act in {found.name}. {text}'.strip(), compact=found.name
    )

  def connect(self) -> aiohttp.ClientWebSocketResponse:
    """A WebSocket of a new session.

    Raises:
      EnvError: the server opens none.
    """
    return self.wait(self._connect(), 'a new session')

  async def _connect(self) -> aiohttp.ClientWebSocketResponse:
    return await self._http.ws_connect(
        f'{self.url}/ws',
        max_msg_size=replies.MAX_BYTES,
        timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_S),
    )

  def close(self) -> None:
    """Ends the connections, and a server that was started here."""
    asyncio.run_coroutine_threadsafe(self._http.close(), self._loop).result(
        _CLOSE_S
    )
    self._loop.call_soon_threadsafe(self._loop.stop)
    self._thread.join(_CLOSE_S)
    if self._child is not None:
      self._child.stop(_CLOSE_S)
    if self._folder is not None:
      self._folder.cleanup()


async def _http_session(timeout_s: float) -> aiohttp.ClientSession:
  return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout_s))


def _url(server: str | Sequence[str] | None) -> str:
  """The URL of a server; of one to be started, on a free port of loopback."""
  if not server:
    raise ConfigError(
        'env.options.server is not set: name the URL of an OpenEnv server, or'
        " its command, as in ('python', '-m', 'uvicorn', 'APP', '--port',"
        f" '{_PORT}')."
    )
  if isinstance(server, str):
    if not server.startswith(('http://', 'https://')):
      raise ConfigError(
          f'env.options.server={server!r} is no URL: begin it with http://, or'
          ' give a command as a list of words.'
      )
    return server.rstrip('/')
  if not any(_PORT in word for word in server):
    raise ConfigError(
        f'env.options.server: the command has no {_PORT}, where its port goes.'
    )
  with socket.socket() as probe:
    probe.bind(('127.0.0.1', 0))
    return f'http://127.0.0.1:{probe.getsockname()[1]}'


class Session:
  """A session of a server: one environment of its own."""

  def __init__(self, server: Server):
    """Connects.

    Raises:
      EnvError: the server cannot be reached.
    """
    self._server = server
    self._socket = server.connect()

  def reset(self, arguments: Mapping[str, Any]) -> _Result:
    """The first observation.

    Raises:
      EnvError: the server does not answer, or has no room.
      EnvFault: its code fails, or it replies outside of the protocol.
    """
    try:
      return self._observation('reset', dict(arguments))
    except Refused as error:
      if error.code in ('CAPACITY_REACHED', 'SESSION_ERROR'):
        raise
      raise EnvFault(str(error)) from error

  def step(self, action: Mapping[str, Any]) -> _Result:
    """The answer to an action.

    Raises:
      Refused: the server takes no such action, or its code fails.
      EnvError: the server does not answer.
      EnvFault: it replies outside of the protocol.
    """
    return self._observation('step', dict(action))

  def tools(self) -> Actions:
    """The tools of the server as actions.

    Raises:
      EnvError: as `step`.
    """
    shown = self.step({'type': 'list_tools'}).observation
    found = _read(shown.get('tools'), list[_Tool], 'the list of tools')
    if not found:
      raise EnvFault(
          f'The OpenEnv server {self._server.url} has neither action fields nor'
          ' tools.'
      )
    return Actions(
        tuple(
            Function(
                tool.name,
                description=' '.join((tool.description or tool.name).split()),
                schema={'type': 'object', **tool.input_schema},
            )
            for tool in found
        ),
        tools=True,
    )

  def _observation(self, kind: str, data: dict[str, Any]) -> _Result:
    try:
      reply = self._server.wait(self._exchange(kind, data), kind)
    except EnvError:
      self.close()  # a late answer would be taken for the next one's
      raise
    if reply.type == 'error':
      raise _refusal(kind, reply.data)
    if reply.type != 'observation':
      raise EnvFault(f'{kind} of OpenEnv gave a message {reply.type!r:.80}.')
    return _read(reply.data, _Result, kind)

  async def _exchange(self, kind: str, data: dict[str, Any]) -> _Reply:
    await self._socket.send_str(json.dumps({'type': kind, 'data': data}))
    async with asyncio.timeout(self._server._timeout_s):
      message = await self._socket.receive()
    if message.type is aiohttp.WSMsgType.TEXT:
      return _read(_json(message.data, kind), _Reply, kind)
    why = f'the connection ended ({message.type.name})'
    if self._socket.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
      raise EnvFault(f'{kind} of OpenEnv gave over {replies.MAX_BYTES} bytes.')
    raise EnvError(
        f'The OpenEnv server {self._server.url} does not answer {kind}: {why}.'
    )

  def close(self) -> None:
    """Ends the session. A failure is only logged: the server may be gone."""
    try:
      self._server.wait(self._socket.close(), 'the end of a session')
    except EnvError as error:
      logging.info('%s', error)


def _refusal(kind: str, data: Mapping[str, Any]) -> Refused:
  """The error that a server answers with."""
  code, words = str(data.get('code', '')), str(data.get('message', ''))
  errors = data.get('errors')
  if isinstance(errors, list) and errors and isinstance(errors[0], dict):
    where = '.'.join(map(str, errors[0].get('loc', ())))
    words = f'{where}: {errors[0].get("msg", words)}'
  if code == 'CAPACITY_REACHED':
    words += '; set env.options.episodes to the sessions that it takes'
  text = f'{code} {" ".join(words.split())[: 2 * replies.SHOWN]}'
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


class Connections:
  """The factory of `OpenEnv`: its server, started or found, and its tasks."""

  inline = ()

  def __init__(self, **options: Any):
    self._options = options
    self.slots = self.threads = options['episodes']
    self._tasks = load_tasks(options['tasks'])
    self._server = Server(options['server'], options['timeout_s'])
    try:
      self._actions = self._server.actions()
    except EnvError:
      self._server.close()
      raise

  def make(self) -> 'OpenEnv':
    return OpenEnv(self._server, self._actions, self._tasks, self._options)

  def gauges(self) -> Mapping[str, float]:
    return {}

  def close(self) -> None:
    self._server.close()


class OpenEnv:
  """One session after the other; see `base.Env`."""

  def __init__(
      self,
      server: Server,
      actions: Actions,
      tasks: Sequence[Task] | None,
      options: Mapping[str, Any],
  ):
    self._server, self._actions, self._tasks = server, actions, tasks
    self._fields, self._success = options['fields'], options['success']
    self._most_chars = options['most_chars']
    self._shown_errors = {'VALIDATION_ERROR'}
    if options['show_errors']:
      self._shown_errors.add('EXECUTION_ERROR')
    self._session: Session | None = None
    self._text = ''

  def reset(self, task_id: int, seed: int) -> str:
    del seed  # a server's reset has one seed, which is the task
    count = _COUNT if self._tasks is None else len(self._tasks)
    base.check_task('openenv', task_id, count)
    self.close()
    self._task: Task = {} if self._tasks is None else self._tasks[task_id]
    if self._server.actions() != self._actions:
      raise EnvFault(
          'The actions of the OpenEnv server are others than those that the'
          ' policy was told: start the run again.'
      )
    self._session = Session(self._server)
    self._done, self._total = 0, 0.0
    arguments = {'seed': task_id, **self._task.get('reset', {})}
    first = self._session.reset(arguments)
    self._text = self._show(first.observation)
    return self._text

  def observation(self) -> str:
    return self._text

  def step(self, action: str) -> StepResult:
    assert self._session is not None  # since a reset
    payload = self._actions.payload(action)
    if payload is None:
      names = ', '.join(x.signature for x in self._actions.functions)
      return self._say(f'This is no call of a function. There are: {names}.')
    try:
      result = self._session.step(payload)
    except Refused as error:
      if error.code not in self._shown_errors:
        raise
      return self._say(str(error))
    self._done += 1
    reward = float(result.reward or 0.0)
    self._total += reward
    self._text = self._show(result.observation)
    success = self._total >= self._success if result.done else None
    return StepResult(self._text, reward, result.done, success=success)

  def _say(self, text: str) -> StepResult:
    """The answer to what is no action: nothing happens."""
    self._text = text
    return StepResult(text, 0.0, False)

  def _show(self, observation: Mapping[str, Any]) -> str:
    if self._actions.tools and 'tool_name' in observation:
      text = _result_of_tool(observation)
    else:
      text = _plain(observation, self._fields)
    if len(text) > self._most_chars:
      cut = len(text) - self._most_chars
      text = f'{text[: self._most_chars]}\n[{cut} characters were cut]'
    return text

  def available_actions(self) -> list[str]:
    if self._actions.text is not None:
      return [f'{{{self._actions.text}}}']
    return [
        functions_lib.write_call(
            function.name, {x: f'{{{x}}}' for x in function.parameters}
        )
        for function in self._actions.functions
    ]

  def expert_action(self) -> str:
    calls = self._task.get('expert')
    if not calls:
      raise EnvError(
          "This task has no expert: give it one in the file's 'expert', or"
          ' train without a warm start.'
      )
    if self._done >= len(calls):
      raise EnvError('The expert has no plan from here.')
    return task_files.action_of(calls[self._done])

  def close(self) -> None:
    if self._session is not None:
      session, self._session = self._session, None
      session.close()


def _plain(observation: Mapping[str, Any], fields: Sequence[str] | None) -> str:
  """An observation in words: its only field, or a line for each that is set.

  Args:
    observation: as a server gives it.
    fields: to be shown; None: all.
  """
  missing = [x for x in fields or () if x not in observation]
  if missing:
    raise EnvFault(
        f'env.options.fields: an observation has no field {missing[0]!r}; it'
        f' has {", ".join(observation) or "none"}.'
    )
  shown = {
      x: observation[x] for x in (observation if fields is None else fields)
  }
  word = lambda x: (
      x if isinstance(x, str) else json.dumps(x, ensure_ascii=False)
  )
  if len(shown) == 1:
    return word(*shown.values())
  return '\n'.join(
      f'{x}: {word(value)}' for x, value in shown.items() if value is not None
  )


def _result_of_tool(observation: Mapping[str, Any]) -> str:
  """The result of a call of a tool in words."""
  error = observation.get('error')
  if error is not None:
    words = error.get('message') if isinstance(error, dict) else error
    return f'Error: {words}'
  result = observation.get('result')
  if not isinstance(result, dict) or not isinstance(
      result.get('content'), list
  ):
    return _plain({'result': result}, ('result',))
  parts = [
      str(part['text']) if part.get('text') is not None else '[content]'
      for part in result['content']
      if isinstance(part, dict)
  ]
  text = '\n'.join(parts) or '(nothing)'
  return f'Error: {text}' if result.get('is_error') else text


def load_tasks(path: str | None) -> tuple[Task, ...] | None:
  """The tasks of a file; None: there is no file, and a task is a seed.

  Raises:
    ConfigError: a line is no task.
  """
  return None if path is None else task_files.read(path, _check_task)


def _check_task(task: Task) -> None:
  """Raises ValueError for a task with a wrong part."""
  unknown = [name for name in task if name not in _FIELDS]
  if unknown:
    raise ValueError(f'unknown {unknown[0]!r}; known: {", ".join(_FIELDS)}')
  if not isinstance(task.get('reset', {}), dict):
    raise ValueError("'reset' must be an object, arguments of reset")
  task_files.check_expert(task.get('expert', ()), plain=True)


def _list_tasks(split: str, tasks: str | None) -> Sequence[int]:
  found = load_tasks(tasks)
  return _SPLITS[split] if found is None else task_files.of_split(split, found)


@functools.cache
def _told(
    server: str | tuple[str, ...] | None, timeout_s: float
) -> tuple[Functions, Words]:
  """Functions and words of a server, which is asked once."""
  found = Server(server, timeout_s)
  try:
    return found.actions().functions, found.words()
  finally:
    found.close()


def _specialise(**options: Any) -> dict[str, Any]:
  server = options['server']
  if isinstance(server, list):
    server = tuple(server)
  functions, words = _told(server, options['timeout_s'])
  return {'functions': functions, 'words': words}


SPEC = EnvSpec(
    name='openenv',
    dialect=Dialect(success=lambda total: total >= 1.0),
    words=Words(full='You act in an environment.', compact='Act.'),
    functions=(Function(_ACT, ('{action}',)),),
    specialise=_specialise,
    options={
        'server': None,
        'tasks': None,
        'fields': None,
        'success': 1.0,
        'show_errors': False,
        'timeout_s': 60.0,
        'most_chars': 8000,
        'episodes': 16,
    },
    meanings={
        'server': (
            'URL of a server, or its command with {port}, a list of words'
        ),
        'tasks': 'file of tasks, a JSON object a line; None: seeds',
        'fields': 'of an observation that are shown; None: all that are set',
        'success': 'return of an episode that succeeds, at least',
        'show_errors': (
            'an error that an action raises costs a turn and is told to the'
            ' policy; False: it fails the episode'
        ),
        'timeout_s': 'seconds of a request, at most',
        'most_chars': 'characters of an observation, at most; the rest is cut',
        'episodes': 'sessions at a time',
    },
    task_options=('tasks',),
    machine_options=('episodes', 'timeout_s'),
    slots_option='episodes',
    unsafe_options={
        'server': lambda value: value is not None,
        'tasks': lambda value: value is not None,
    },
    open_factory=Connections,
    list_tasks=_list_tasks,
    success='The server says that it is over, and the return is high enough.',
)
