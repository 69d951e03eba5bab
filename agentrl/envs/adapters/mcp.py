"""A server of the Model Context Protocol: its tools are actions.

`env.options.server` is the command of a server that speaks over its standard streams (a
process for each episode), or the URL of one that speaks streamable HTTP (a session for
each). `env.options.tasks` names a file, a JSON object a line:

    {"prompt": "How old is Ada?", "check": {"kind": "exact", "answer": "36"},
     "expert": [{"name": "find", "arguments": {"who": "Ada"}},
                {"name": "final_answer", "arguments": {"text": "36"}}]}

`check.kind` is `exact` (but for case and blanks), `regex` (on the whole answer), `judge` (by
meaning, with `env.options.judge`) or `function` (`check.function`, `module:NAME` or
`FILE.py:NAME`, gets the answer, the task and a function that calls tools, and gives a number
from 0 to 1). `expert` and `split` (train, dev or test) may be left out.
"""

import asyncio
import concurrent.futures
import contextlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import logging

from agentrl import plugins
from agentrl.envs import base, functions as functions_lib
from agentrl.envs.adapters import caching, task_files
from agentrl.envs.adapters.task_files import Task
from agentrl.envs.adapters.truncation import truncate
from agentrl.envs.dialect import Dialect
from agentrl.envs.functions import Function
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec, is_set
from agentrl.errors import (
    AgentrlError,
    ConfigError,
    EnvError,
    EnvFault,
    one_line,
)
from agentrl.runtime.loop_thread import LoopThread
from agentrl.types import StepResult

ANSWER = functions_lib.of_texts(
    'final_answer', 'Gives your answer and ends the task.', 'text'
)
_KINDS = ('exact', 'regex', 'judge', 'function')
_FIELDS = ('prompt', 'check', 'expert', 'split')
_MARGIN_S = 5.0  # beyond the SDK's own deadline
_CLOSE_S = 5.0
_MOST_TOOLS_PAGES = 100

# Name and text of the result of a call.
Ask = Callable[[str, Mapping[str, Any]], str]


class Session:
  """A connection to a server, in a task of its own of a shared loop.

  The SDK wants a connection to be opened, used and closed by one task.
  """

  def __init__(
      self,
      loop: LoopThread,
      server: str | Sequence[str],
      timeout_s: float,
  ):
    """Connects.

    Raises:
      EnvError: the server cannot be reached, or does not answer in time.
    """
    self._loop, self._server, self._timeout_s = loop, server, timeout_s
    self._calls: asyncio.Queue[Any] = asyncio.Queue()
    self._ready: concurrent.futures.Future[list[Any]] = (
        concurrent.futures.Future()
    )
    self._task = loop.submit(self._run())
    try:
      self.tools = self._wait(self._ready, 'does not start')
    except EnvError:
      self.close()
      raise

  def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
    """The result of a tool, as the SDK has it.

    Raises:
      EnvError: the server does not answer in time, or is gone.
    """
    answer: concurrent.futures.Future[Any] = concurrent.futures.Future()
    item = name, dict(arguments), answer
    self._loop.loop.call_soon_threadsafe(self._calls.put_nowait, item)
    return self._wait(answer, f'does not answer {name}')

  def close(self) -> None:
    """Ends the connection, and a process that was started for it."""
    self._loop.loop.call_soon_threadsafe(self._calls.put_nowait, None)
    try:
      self._task.result(_CLOSE_S)
    except concurrent.futures.TimeoutError:
      self._task.cancel()
    except Exception as error:  # `_run` has told whoever waits
      logging.info('An MCP connection ended with %s', _words(error))

  def _wait(self, future: concurrent.futures.Future[Any], what: str) -> Any:
    try:
      return future.result(self._timeout_s + _MARGIN_S)
    except concurrent.futures.TimeoutError as error:
      raise EnvError(
          f'The MCP server {what} within {self._timeout_s:g} s.'
      ) from error
    except AgentrlError:
      raise
    except Exception as error:  # of the SDK: many kinds, some of them in groups
      raise EnvError(f'The MCP server {what}: {_words(error)}') from error

  async def _run(self) -> None:
    from mcp import client as client_lib
    from mcp.client.stdio import StdioServerParameters

    server: Any = self._server
    if not isinstance(server, str):
      server = StdioServerParameters(command=server[0], args=list(server[1:]))
    try:
      async with client_lib.Client(
          server, read_timeout_seconds=self._timeout_s
      ) as client:
        self._ready.set_result(await _all_tools(client))
        while (item := await self._calls.get()) is not None:
          name, arguments, answer = item
          try:
            answer.set_result(await client.call_tool(name, arguments))
          except Exception as error:  # told to whoever asked
            answer.set_exception(error)
    except BaseException as error:  # told to whoever waits
      if not self._ready.done():
        self._ready.set_exception(error)
        return
      while not self._calls.empty():
        item = self._calls.get_nowait()
        if item is not None:
          item[2].set_exception(error)


async def _all_tools(client: Any) -> list[Any]:
  tools, cursor = [], None
  for _ in range(_MOST_TOOLS_PAGES):
    page = await client.list_tools(cursor=cursor)
    tools += page.tools
    cursor = page.next_cursor
    if cursor is None:
      return tools
  raise EnvFault(f'Its list of tools has over {_MOST_TOOLS_PAGES} pages.')


def _words(error: BaseException) -> str:
  """The innermost error of a group, in a line."""
  while isinstance(error, BaseExceptionGroup):
    error = error.exceptions[0]
  text = one_line(error)
  return f'{type(error).__name__}: {text}' if text else type(error).__name__


def open_factory(**options: Any) -> base.Independent:
  """The factory of `Mcp`: they share a loop."""
  tasks = task_files.read(options['tasks'], _check_task)
  judge = None
  if any(x['check']['kind'] == 'judge' for x in tasks):
    if options['judge'] is None:
      raise ConfigError(
          'env.options.judge is not set, and a task is checked by one: name'
          ' it, as in agentrl.evaluation.judge:fuzzy_match.'
      )
    judge = plugins.function(options['judge'], {}, 'env.options.judge=')
  server, timeout_s = options['server'], options['timeout_s']
  tools = functions(server=server, timeout_s=timeout_s)
  loop = LoopThread('mcp')
  connect = lambda: Session(loop, server, timeout_s)
  return base.Independent(
      lambda: Mcp(connect, tasks, tools, judge, options['most_chars']),
      slots=options['episodes'],
      threads=8,  # they wait for servers
      close=loop.close,
  )


class Mcp:
  """One task at a time; see `base.Env`."""

  def __init__(
      self,
      connect: Callable[[], Session],
      tasks: Sequence[Mapping[str, Any]],
      functions: Sequence[Function],
      judge: Callable[..., Any] | None,
      most_chars: int,
  ):
    self._connect, self._tasks, self._functions = connect, tasks, functions
    self._judge, self._most_chars = judge, most_chars
    self._session: Session | None = None

  def reset(self, task_id: int, seed: int) -> str:
    del seed  # what a server leaves to chance is its own
    base.check_task('mcp', task_id, len(self._tasks))
    self.close()
    self._session = self._connect()
    if as_functions(self._session.tools) != tuple(self._functions):
      raise EnvFault(
          'The tools of the MCP server are others than those that the policy'
          ' was told: start the run again.'
      )
    self._task, self._done = self._tasks[task_id], 0
    return str(self._task['prompt'])

  def step(self, action: str) -> StepResult:
    call = functions_lib.called(self._functions, action)
    if call is None:
      names = ', '.join(function.name for function in self._functions)
      text = f'This is no call of a tool. There are: {names}.'
      return StepResult(text, 0.0, False)
    name, arguments = call
    if name == ANSWER.name:
      reward = self._check(str(arguments.get('text', '')))
      text = 'Your answer was taken.'
      return StepResult(text, reward, True, success=reward >= 1.0)
    self._done += 1
    return StepResult(self._ask(name, arguments), 0.0, False)

  def _ask(self, name: str, arguments: Mapping[str, Any]) -> str:
    assert self._session is not None  # since a reset
    result = self._session.call(name, arguments)
    parts = [
        getattr(part, 'text', None) or f'[{getattr(part, "type", "content")}]'
        for part in result.content
    ]
    text = truncate('\n'.join(parts), self._most_chars)
    if result.is_error:
      return f'Error: {text}'
    return text or '(nothing)'

  def _check(self, answer: str) -> float:
    check = self._task['check']
    kind = check['kind']
    if kind == 'exact':
      plain = lambda text: ' '.join(str(text).casefold().split())
      return float(plain(answer) == plain(check['answer']))
    if kind == 'regex':
      return float(
          re.fullmatch(check['pattern'], answer.strip(), re.DOTALL) is not None
      )
    if kind == 'judge':
      assert self._judge is not None  # the factory has refused to have none
      right = self._judge(self._task['prompt'], check['answer'], answer)
      if inspect.iscoroutine(right):
        right = asyncio.run(right)
      return float(bool(right))
    function = plugins.function(check['function'], {}, 'check.function=')
    try:
      reward = float(function(answer, dict(self._task), self._ask))
    except ConfigError as error:
      raise EnvFault(str(error)) from error
    if not 0.0 <= reward <= 1.0:
      raise EnvFault(
          f'check.function={check["function"]} gives {reward}, which is not'
          ' from 0 to 1.'
      )
    return reward

  def available_actions(self) -> list[str]:
    return functions_lib.call_forms(self._functions)

  def expert_action(self) -> str:
    return task_files.expert_action(self._task, self._done)

  def close(self) -> None:
    if self._session is not None:
      self._session.close()
      self._session = None


def as_functions(tools: Sequence[Any]) -> tuple[Function, ...]:
  """Tools of a server as functions, and the one that ends a task."""
  if any(tool.name == ANSWER.name for tool in tools):
    raise EnvFault(f'The server has a tool {ANSWER.name!r}, which is our own.')
  return (
      *(
          functions_lib.of_tool(tool.name, tool.description, tool.input_schema)
          for tool in tools
      ),
      ANSWER,
  )


@caching.by_options
def functions(
    server: str | Sequence[str] | None, timeout_s: float
) -> tuple[Function, ...]:
  """The tools of a server.

  Raises:
    ConfigError: none is named.
    EnvError: it cannot be reached, or does not answer.
  """
  if not server:
    raise ConfigError(
        'env.options.server is not set: name the command of an MCP server, as'
        " in ('python', 'server.py'), or its URL."
    )
  with (
      contextlib.closing(LoopThread('mcp')) as loop,
      contextlib.closing(Session(loop, server, timeout_s)) as session,
  ):
    return as_functions(session.tools)


def _check_task(task: Task) -> None:
  """Raises ValueError for a task that lacks something."""
  task_files.check_names(task, _FIELDS)
  if not isinstance(task.get('prompt'), str) or not task['prompt']:
    raise ValueError("'prompt' must be a text")
  check = task.get('check')
  if not isinstance(check, dict) or check.get('kind') not in _KINDS:
    raise ValueError(f"'check' must have a 'kind': {', '.join(_KINDS)}")
  needs = dict(
      exact='answer', regex='pattern', judge='answer', function='function'
  )
  need = needs[check['kind']]
  if not isinstance(check.get(need), str):
    raise ValueError(
        f"'check' of kind {check['kind']!r} needs {need!r}, a text"
    )
  if check['kind'] == 'regex':
    try:
      re.compile(check['pattern'])
    except re.error as error:
      raise ValueError(f'its pattern is broken: {error}') from error
  task_files.check_expert(task.get('expert', ()))


SPEC = EnvSpec(
    name='mcp',
    dialect=Dialect(),
    words=Words(
        full=(
            'You are given a task and tools. Call them as you need, and end'
            ' with final_answer.'
        ),
        compact='Use tools.',
    ),
    functions=(ANSWER,),
    specialise=lambda server, timeout_s, **rest: {
        'functions': functions(server=server, timeout_s=timeout_s)
    },
    options={
        'server': None,
        'tasks': None,
        'judge': None,
        'timeout_s': 30.0,
        'most_chars': 8000,
        'episodes': 16,
    },
    meanings={
        'server': 'command of a server, a list of words, or its URL',
        'tasks': 'file of tasks, a JSON object a line',
        'judge': 'module:NAME of what compares answers by meaning',
        'timeout_s': 'seconds of a call, at most',
        'most_chars': 'characters of a result, at most; the rest is cut',
        'episodes': 'connections at a time',
    },
    task_options=('tasks', 'judge'),
    machine_options=('episodes', 'timeout_s'),
    unsafe_options=dict.fromkeys(('server', 'tasks', 'judge'), is_set),
    open_factory=open_factory,
    list_tasks=lambda split, tasks, judge: task_files.of_split(
        split, task_files.read(tasks, _check_task)
    ),
    success="The answer passes the task's check.",
    packages=('mcp',),
    requirements=('adapters',),
)
