"""An agent program of one's own: it speaks to an OpenAI endpoint, which is the policy.

`env.options.command` is a program, `env.options.function` a Python function
(`module:NAME`, `FILE.py:NAME`) of base URL, task and seed. Each episode is one run of it.
The program finds its endpoint in OPENAI_BASE_URL (or as the function's first argument) and
its task, a line of `env.options.tasks`, as JSON in AGENTRL_TASK. It may call tools, stream,
hold several conversations, rewrite them: what it adds to a conversation is an observation,
and any other conversation begins a new segment, so that each sampled token is trained on
exactly once, as it was sampled. The reward is what the function returns, or what the program
posts to `BASE/../reward` as {"reward": 1.0, "success": true}.

Sampling is the run's: a request's temperature, seed and limits say nothing. Requests of one
episode are answered one after the other.
"""

import asyncio
import functools
import json
import math
import pathlib
import queue
import secrets
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import aiohttp.web

from agentrl import plugins
from agentrl.envs import base, conversation, functions as functions_lib
from agentrl.envs.adapters import task_files
from agentrl.envs.adapters.task_files import Task
from agentrl.envs.dialect import Dialect
from agentrl.envs.functions import Function
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec
from agentrl.errors import AgentrlError, ConfigError, EnvError, EnvFault
from agentrl.http.thread import HttpThread
from agentrl.runtime import children
from agentrl.runtime.children import Child
from agentrl.types import StepResult

_ROLES = {'system', 'developer', 'user', 'assistant', 'tool'}
_END_S = 5.0  # for a program whose episode is over
_WELL = 'ended with exit code 0'
_POLL_S = 0.05
_MODEL = 'policy'


class Ask:
  """A request for a completion, which waits for its answer."""

  def __init__(self, body: Mapping[str, Any]):
    """Reads the body of /v1/chat/completions; raises ValueError."""
    self.messages = [_message(x) for x in _list(body, 'messages')]
    if not self.messages or self.messages[-1]['role'] == 'assistant':
      raise ValueError('messages must end with one to the assistant')
    self.functions = tuple(_function(x) for x in body.get('tools') or ())
    if body.get('n') not in (None, 1):
      raise ValueError('n must be 1')
    self.stream = bool(body.get('stream'))
    options = body.get('stream_options') or {}
    self.usage = bool(options.get('include_usage'))
    self._loop = asyncio.get_running_loop()
    self._answer: asyncio.Future[str] = self._loop.create_future()

  async def answer(self) -> str:
    """The action that the policy answers with."""
    return await self._answer

  def resolve(self, action: str) -> None:
    """Answers, from any thread; nothing where the program has gone."""

    def settle() -> None:
      if not self._answer.done():
        self._answer.set_result(action)

    self._loop.call_soon_threadsafe(settle)

  def fail(self) -> None:
    """Ends the wait of a program whose episode is over."""
    self._loop.call_soon_threadsafe(self._answer.cancel)


class Session:
  """The requests and the reward of one run of a program."""

  def __init__(self):
    self.events: queue.Queue[Ask] = queue.Queue()
    self.reward: tuple[float, bool | None] | None = None
    self.over = False


class Endpoint:
  """The routes that programs speak to: a base URL for each session.

  Attributes:
    log: what programs print.
  """

  def __init__(self):
    self._sessions: dict[str, Session] = {}
    app = aiohttp.web.Application(client_max_size=2**26)
    app.router.add_post('/{id}/v1/chat/completions', self._chat)
    app.router.add_get('/{id}/v1/models', self._models)
    app.router.add_post('/{id}/reward', self._reward)
    self._folder = tempfile.TemporaryDirectory(prefix='agentrl-programs-')
    self.log = pathlib.Path(self._folder.name) / 'log.txt'
    self._thread = HttpThread(app)
    self._port = self._thread.start('127.0.0.1', 0)

  def open(self) -> tuple[str, Session]:
    """A new session, and its base URL."""
    name, session = secrets.token_hex(16), Session()
    self._sessions[name] = session
    return f'http://127.0.0.1:{self._port}/{name}/v1', session

  def end(self, url: str) -> None:
    """Forgets a session."""
    self._sessions.pop(url.split('/')[-2], None)

  def close(self) -> None:
    self._thread.stop()
    self._folder.cleanup()

  def _session(self, request: aiohttp.web.Request) -> Session:
    session = self._sessions.get(request.match_info['id'])
    if session is None or session.over:
      raise aiohttp.web.HTTPGone(
          text='{"error": {"message": "This episode is over."}}'
      )
    return session

  async def _chat(
      self, request: aiohttp.web.Request
  ) -> aiohttp.web.StreamResponse:
    session = self._session(request)
    try:
      ask = Ask(await request.json())
    except (ValueError, TypeError, AttributeError, KeyError) as error:
      return _refusal(str(error))
    session.events.put(ask)
    action = await ask.answer()
    message = _reply(action, ask.functions)
    reason = 'tool_calls' if message.get('tool_calls') else 'stop'
    common = {
        'id': f'chatcmpl-{uuid.uuid4().hex}',
        'created': int(time.time()),
        'model': _MODEL,
    }
    usage = {'prompt_tokens': 0, 'completion_tokens': 0, 'total_tokens': 0}
    if not ask.stream:
      choice = {'index': 0, 'message': message, 'finish_reason': reason}
      return aiohttp.web.json_response(
          common
          | {'object': 'chat.completion', 'choices': [choice], 'usage': usage}
      )
    response = aiohttp.web.StreamResponse(
        headers={'Content-Type': 'text/event-stream'}
    )
    await response.prepare(request)
    if calls := message.get('tool_calls'):
      message = message | {
          'tool_calls': [{'index': i} | call for i, call in enumerate(calls)]
      }
    chunk = lambda choices, **more: common | {
        'object': 'chat.completion.chunk',
        'choices': choices,
        **more,
    }
    events = [
        chunk([{'index': 0, 'delta': message, 'finish_reason': None}]),
        chunk([{'index': 0, 'delta': {}, 'finish_reason': reason}]),
    ]
    if ask.usage:
      events.append(chunk([], usage=usage))
    for event in events:
      await response.write(f'data: {json.dumps(event)}\n\n'.encode())
    await response.write(b'data: [DONE]\n\n')
    await response.write_eof()
    return response

  async def _models(self, request: aiohttp.web.Request) -> aiohttp.web.Response:
    self._session(request)
    card = {
        'id': _MODEL,
        'object': 'model',
        'created': 0,
        'owned_by': 'agentrl',
    }
    return aiohttp.web.json_response({'object': 'list', 'data': [card]})

  async def _reward(self, request: aiohttp.web.Request) -> aiohttp.web.Response:
    session = self._session(request)
    try:
      body = await request.json()
      reward, success = float(body['reward']), body.get('success')
      if not math.isfinite(reward) or success not in (None, True, False):
        raise ValueError('reward must be a finite number, success a boolean')
    except (ValueError, TypeError, KeyError) as error:
      return _refusal(
          f'{{"reward": 1.0, "success": true}} is what is posted: {error}'
      )
    session.reward = reward, success
    return aiohttp.web.json_response({'reward': reward})


def _refusal(words: str) -> aiohttp.web.Response:
  error = {'message': words, 'type': 'invalid_request_error'}
  return aiohttp.web.json_response({'error': error}, status=400)


def _list(body: Mapping[str, Any], name: str) -> list[Any]:
  if not isinstance(body.get(name), list):
    raise ValueError(f'{name} must be a list')
  return body[name]


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
  """A message of a request in few words: role and content, or a call."""
  role = message.get('role')
  if role not in _ROLES:
    raise ValueError(f'a message has the role {role!r}')
  calls = message.get('tool_calls')
  if calls:
    if len(calls) > 1:
      raise ValueError('a message has several tool calls; the policy makes one')
    call = calls[0]['function']
    arguments = json.loads(call['arguments'] or '{}')
    return {
        'role': role,
        'call': functions_lib.write_call(call['name'], arguments),
    }
  content = message.get('content')
  if isinstance(content, list):
    content = ''.join(str(part['text']) for part in content)
  if content is not None and not isinstance(content, str):
    raise ValueError('content must be a text, or a list of text parts')
  role = 'system' if role == 'developer' else role
  return {'role': role, 'content': content or ''}


def _function(tool: Mapping[str, Any]) -> Function:
  function = tool['function']
  return Function(
      function['name'],
      description=' '.join(str(function.get('description') or '').split())
      or function['name'],
      schema=function.get('parameters') or {'type': 'object', 'properties': {}},
  )


def _reply(action: str, functions: Sequence[Function]) -> dict[str, Any]:
  """The assistant's message that an action is."""
  call = functions_lib.called(functions, action)
  if call is None:
    return {'role': 'assistant', 'content': action}
  name, arguments = call
  function = {
      'name': name,
      'arguments': json.dumps(arguments, ensure_ascii=False),
  }
  made = {
      'id': f'call_{uuid.uuid4().hex[:24]}',
      'type': 'function',
      'function': function,
  }
  return {'role': 'assistant', 'content': None, 'tool_calls': [made]}


class Run(Protocol):
  """One run of a program."""

  @property
  def alive(self) -> bool:
    """True while it may still ask."""

  def check(self) -> None:
    """Refuses a run that has failed.

    Raises:
      EnvError: it has; a fault that a second try would meet again is an `EnvFault`.
    """

  def stop(self) -> None:
    """Ends it."""


# Starts a run, from base URL, session, number of a task and seed.
Start = Callable[[str, Session, int, int], Run]


class Started:
  """A run of the program: a process, or a thread of a function; see `Run`."""

  def __init__(
      self,
      options: Mapping[str, Any],
      url: str,
      session: Session,
      task: Mapping[str, Any],
      seed: int,
      log: pathlib.Path,
  ):
    self._session = session
    self._error: BaseException | None = None
    self._child: Child | None = None
    if options['function'] is None:
      variables = {
          'OPENAI_BASE_URL': url,
          'OPENAI_API_KEY': 'agentrl',
          'AGENTRL_TASK': json.dumps(task),
          'AGENTRL_SEED': str(seed),
      }
      self._child = Child(
          list(options['command']),
          name='program',
          env=children.environment() | variables,
          log=log,
          supervised=True,
      )
      return
    function = plugins.function(
        options['function'], {}, 'env.options.function='
    )
    self._thread = threading.Thread(
        target=self._call, args=(function, url, task, seed), daemon=True
    )
    self._thread.start()

  def _call(self, function: Callable[..., Any], *arguments: Any) -> None:
    try:
      reward = function(*arguments)
      if reward is not None:
        self._session.reward = float(reward), None
    except BaseException as error:  # told to whoever waits for the end
      self._error = error

  @property
  def alive(self) -> bool:
    if self._child is not None:
      return self._child.ending() is None
    return self._thread.is_alive()

  def check(self) -> None:
    """Refuses a run that has failed.

    Raises:
      EnvError: it has; a function's own fault is an `EnvFault`.
    """
    if self._error is not None:
      if isinstance(self._error, AgentrlError):
        raise EnvFault(str(self._error)) from self._error
      raise EnvError(f'The program failed: {self._error}') from self._error
    if self._child is not None:
      ending = self._child.ending()
      if ending != _WELL:
        raise EnvError(f'The program {ending}: {self._child.last_words()}')

  def stop(self) -> None:
    if self._child is not None:
      self._child.stop(_END_S)


def starting(
    options: Mapping[str, Any], tasks: Sequence[Task], endpoint: Endpoint
) -> Start:
  """A function that starts runs of the program that the options name."""
  return lambda url, session, task_id, seed: Started(
      options, url, session, tasks[task_id], seed, endpoint.log
  )


class Program:
  """One run of a program after the other; see `base.Env`."""

  def __init__(
      self,
      endpoint: Endpoint,
      count: int,
      functions: tuple[Function, ...] | None,
      start: Start,
      timeout_s: float,
      name: str = 'program',
  ):
    """Keeps the parts.

    Args:
      endpoint: that runs speak to.
      count: tasks.
      functions: tools of the policy; None: those of the first request.
      start: of a run.
      timeout_s: seconds between two requests, at most.
      name: of the environment, in errors.
    """
    self._endpoint, self._count, self._start = endpoint, count, start
    self._functions, self._timeout_s = functions, timeout_s
    self._name = name
    self._run: Run | None = None
    self._url = ''
    self._text = ''

  def reset(self, task_id: int, seed: int) -> str:
    base.check_task(self._name, task_id, self._count)
    self.close()
    self._url, self._session = self._endpoint.open()
    self._seen: list[dict[str, Any]] = []  # the segment, with our answers
    self._run = self._start(self._url, self._session, task_id, seed)
    ask = self._next()
    if ask is None:
      raise EnvFault('The program ended without asking for a completion.')
    return self._show(ask)

  def first_functions(self, task_id: int) -> tuple[Function, ...]:
    """The tools of the first request of a task."""
    self.reset(task_id, 0)
    return self._ask.functions

  def _next(self) -> Ask | None:
    """The next request; None: the program has ended, and all are answered."""
    assert self._run is not None  # since a reset
    until = time.monotonic() + self._timeout_s
    while time.monotonic() < until:
      try:
        return self._session.events.get(timeout=_POLL_S)
      except queue.Empty:
        pass
      if not self._run.alive:
        try:  # one may have come just before its end
          return self._session.events.get_nowait()
        except queue.Empty:
          self._run.check()
          return None
    raise EnvError(
        f'The program neither asks nor ends within {self._timeout_s:g} s.'
    )

  def _show(self, ask: Ask) -> str:
    """The observation that a request is to the policy."""
    if self._functions is None:
      self._functions = ask.functions
    if ask.functions and ask.functions != self._functions:
      raise EnvFault(
          'The program brings other tools than in its first request, which the'
          ' policy was told at the start.'
      )
    self._ask = ask
    before, new = self._seen, ask.messages[len(self._seen) :]
    goes_on = before and ask.messages[: len(before)] == before
    self._seen = list(ask.messages)
    # A user's words where answers are those of tools begin a segment, too.
    role = 'tool' if self._functions else 'user'
    if goes_on and len(new) == 1 and new[0]['role'] == role:
      self._text = new[0]['content']
      if conversation.read(self._text) is None:
        return self._text
    self._text = conversation.write(ask.messages)
    return self._text

  def observation(self) -> str:
    return self._text

  def step(self, action: str) -> StepResult:
    assert self._functions is not None  # since a reset
    answered = _message(_reply(action, self._functions))
    self._seen.append(answered)
    self._ask.resolve(action)
    ask = self._next()
    if ask is not None:
      return StepResult(self._show(ask), 0.0, False)
    if self._session.reward is None:
      raise EnvFault(
          'The program ended without a reward: let its function return one, or'
          ' post {"reward": 1.0} to OPENAI_BASE_URL/../reward.'
      )
    reward, success = self._session.reward
    self._text = 'The program has ended.'
    return StepResult(
        self._text,
        reward,
        True,
        success=reward >= 1.0 if success is None else success,
    )

  def available_actions(self) -> list[str]:
    return ['{text}']

  def expert_action(self) -> str:
    raise EnvError(
        'A program has no expert: warmstart.episodes=0, and a model that knows'
        ' how to answer it.'
    )

  def close(self) -> None:
    if self._run is not None:
      self._session.over = True
      self._ask_all_to_end()
      self._run.stop()
      self._endpoint.end(self._url)
      self._run = None

  def _ask_all_to_end(self) -> None:
    asks = [getattr(self, '_ask', None)]
    while not self._session.events.empty():
      asks.append(self._session.events.get_nowait())
    for ask in filter(None, asks):
      ask.fail()


class Programs:
  """The factory of `Program`: one endpoint, and what the first run asked with."""

  inline = ()

  def __init__(self, **options: Any):
    self._options = options
    self.slots = self.threads = options['episodes']
    self._tasks = load_tasks(options['tasks'])
    self._functions = functions(**options)
    self._endpoint = Endpoint()

  def make(self) -> Program:
    start = starting(self._options, self._tasks, self._endpoint)
    return Program(
        self._endpoint,
        len(self._tasks),
        self._functions,
        start,
        self._options['timeout_s'],
    )

  def gauges(self) -> Mapping[str, float]:
    return {}

  def close(self) -> None:
    self._endpoint.close()


def functions(**options: Any) -> tuple[Function, ...]:
  """The tools that a program brings, from its first request.

  Raises:
    ConfigError: no program is named, or two are.
    EnvError: it fails, or asks for nothing.
  """
  if (options['command'] is None) == (options['function'] is None):
    raise ConfigError(
        'Name a program by env.options.command, or a function by'
        ' env.options.function.'
    )
  key = {**options, 'command': tuple(options['command'] or ())}
  return _functions(json.dumps(key, sort_keys=True, default=list))


@functools.cache
def _functions(key: str) -> tuple[Function, ...]:
  options = json.loads(key)
  endpoint = Endpoint()
  tasks = load_tasks(options['tasks'])
  start = starting(options, tasks, endpoint)
  env = Program(endpoint, len(tasks), None, start, options['timeout_s'])
  try:
    return env.first_functions(0)
  finally:
    env.close()
    endpoint.close()


def load_tasks(path: str | None) -> tuple[Task, ...]:
  """The tasks of a file, a JSON object a line.

  Raises:
    ConfigError: none is named, or a line is no object.
  """
  return task_files.read(path, _any)


def _any(task: Task) -> None:
  """Checks nothing: the program alone reads a task."""
  del task


SPEC = EnvSpec(
    name='program',
    dialect=Dialect(success=lambda total: total >= 1.0),
    # The program brings its own.
    words=Words(full='', compact='', formats={'chat': '', 'raw': ''}),
    specialise=lambda **options: {'functions': functions(**options)},
    conversations=True,
    options={
        'command': None,
        'function': None,
        'tasks': None,
        'timeout_s': 120.0,
        'episodes': 32,
    },
    meanings={
        'command': 'of the program, a list of words',
        'function': 'in its place, of base URL, task and seed',
        'tasks': 'file of tasks, a JSON object a line',
        'timeout_s': 'seconds between two requests, at most',
        'episodes': 'programs at a time',
    },
    task_options=('tasks',),
    machine_options=('episodes', 'timeout_s'),
    unsafe_options={
        'command': lambda value: value is not None,
        'function': lambda value: value is not None,
        'tasks': lambda value: value is not None,
    },
    open_factory=Programs,
    list_tasks=lambda split, tasks: task_files.of_split(
        split, load_tasks(tasks)
    ),
    success='The program says so, or gives a reward of 1.',
)
