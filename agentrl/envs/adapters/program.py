"""An agent program of one's own: it speaks to an OpenAI endpoint, which is the policy.

`env.options.command` is a program, `env.options.function` a Python function
(`module:NAME`, `FILE.py:NAME`) of base URL, task and seed. Each episode is one run of it.
The program finds its endpoint in OPENAI_BASE_URL (or as the function's first argument) and
its task, a line of `env.options.tasks`, as JSON in AGENTRL_TASK. It may call tools, stream,
hold several conversations, rewrite them: what it adds to a conversation is an observation,
and any other conversation begins a new segment, so that each sampled token is trained on
exactly once, as it was sampled. The reward is what the function returns, or what the program
posts to `BASE/../reward` (`/sessions/ID/reward`) as {"reward": 1.0, "success": true}.

`env.options.expert`, a function of a request's messages, task and seed, says what the policy
should answer, for a warm start: a text, or {"name": "add", "arguments": {"a": 1}}.

Sampling is the run's: a request's temperature, seed and limits say nothing. Requests of one
episode are answered one after the other.
"""

import json
import pathlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from agentrl import plugins
from agentrl.envs import base, conversation
from agentrl.envs.adapters import (
    caching,
    endpoint as endpoint_lib,
    task_files,
)
from agentrl.envs.adapters.endpoint import Ask, Endpoint, Session
from agentrl.envs.adapters.task_files import Task
from agentrl.envs.dialect import Dialect
from agentrl.envs.functions import Function
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec, is_set
from agentrl.errors import AgentrlError, ConfigError, EnvError, EnvFault
from agentrl.runtime import children
from agentrl.runtime.children import Child
from agentrl.types import StepResult

_END_S = 5.0  # for a program whose episode is over
_WELL = 'ended with exit code 0'
_POLL_S = 0.05


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


# What the policy should answer, from a request's messages, a task's number and a seed.
Expert = Callable[[Sequence[Any], int, int], Any]


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
      expert: Expert | None = None,
  ):
    """Keeps the parts.

    Args:
      endpoint: that runs speak to.
      count: tasks.
      functions: tools of the policy; None: those of the first request.
      start: of a run.
      timeout_s: seconds between two requests, at most.
      name: of the environment, in errors.
      expert: that answers in the policy's place, or None.
    """
    self._expert = expert
    self._endpoint, self._count, self._start = endpoint, count, start
    self._functions, self._timeout_s = functions, timeout_s
    self._name = name
    self._run: Run | None = None
    self._ask: Ask | None = None
    self._url = ''

  def reset(self, task_id: int, seed: int) -> str:
    base.check_task(self._name, task_id, self._count)
    self.close()
    self._url, self._session = self._endpoint.open()
    self._seen: list[dict[str, Any]] = []  # the segment, with our answers
    self._episode = task_id, seed
    self._run = self._start(self._url, self._session, task_id, seed)
    ask = self._next()
    if ask is None:
      raise EnvFault('The program ended without asking for a completion.')
    return self._show(ask)

  def first_functions(self, task_id: int) -> tuple[Function, ...]:
    """The tools of the first request of a task."""
    self.reset(task_id, 0)
    assert self._ask is not None  # since a reset
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
      text = new[0]['content']
      if conversation.read(text) is None:
        return text
    return conversation.write(ask.messages)

  def step(self, action: str) -> StepResult:
    # Since a reset.
    assert self._functions is not None and self._ask is not None
    answered = endpoint_lib.message_of(
        endpoint_lib.reply_of(action, self._functions)
    )
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
    return StepResult(
        'The program has ended.',
        reward,
        True,
        success=reward >= 1.0 if success is None else success,
    )

  def available_actions(self) -> list[str]:
    return ['{text}']

  def expert_action(self) -> str:
    if self._expert is None:
      raise EnvError(
          f'{self._name} has no expert: warmstart.episodes=0 and a model that'
          ' knows how to answer, or a function as env.options.expert.'
      )
    assert self._ask is not None  # since a reset
    answer = self._expert(self._ask.sent, *self._episode)
    try:
      task_files.check_expert([answer], plain=True)
    except ValueError as error:
      raise EnvFault(
          f'env.options.expert gives {answer!r:.200}, which is neither a text'
          ' nor {"name": ..., "arguments": {...}}.'
      ) from error
    return task_files.action_of(answer)

  def close(self) -> None:
    if self._run is not None:
      self._session.over = True
      if self._ask is not None:
        self._ask.fail()
      while not self._session.events.empty():
        self._session.events.get_nowait().fail()
      self._run.stop()
      self._endpoint.end(self._url)
      self._run = None


def open_factory(**options: Any) -> base.Independent:
  """The factory of `Program`: they share an endpoint."""
  tasks = task_files.read(options['tasks'])
  tools = functions(**options)
  expert = find_expert(options['expert'], tasks)
  endpoint = Endpoint()
  start = starting(options, tasks, endpoint)
  return base.Independent(
      lambda: Program(
          endpoint,
          len(tasks),
          tools,
          start,
          options['timeout_s'],
          expert=expert,
      ),
      slots=options['episodes'],
      threads=options['episodes'],
      close=endpoint.close,
  )


def find_expert(name: str | None, tasks: Sequence[Task]) -> Expert | None:
  """The function of messages, task and seed that answers in the policy's place.

  Raises:
    ConfigError: there is none of this name.
  """
  if name is None:
    return None
  function = plugins.function(name, {}, 'env.options.expert=')
  return lambda messages, task_id, seed: function(
      messages, tasks[task_id], seed
  )


@caching.by_options
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
  endpoint = Endpoint()
  tasks = task_files.read(options['tasks'])
  start = starting(options, tasks, endpoint)
  env = Program(endpoint, len(tasks), None, start, options['timeout_s'])
  try:
    return env.first_functions(0)
  finally:
    env.close()
    endpoint.close()


SPEC = EnvSpec(
    name='program',
    dialect=Dialect(),
    # The program brings its own.
    words=Words(full='', compact='', formats={'chat': '', 'raw': ''}),
    specialise=lambda **options: {'functions': functions(**options)},
    conversations=True,
    options={
        'command': None,
        'function': None,
        'tasks': None,
        'expert': None,
        'timeout_s': 120.0,
        'episodes': 32,
    },
    meanings={
        'command': 'of the program, a list of words',
        'function': 'in its place, of base URL, task and seed',
        'tasks': 'file of tasks, a JSON object a line',
        'expert': (
            'function of messages, task and seed: what the policy should say'
        ),
        'timeout_s': 'seconds between two requests, at most',
        'episodes': 'programs at a time',
    },
    task_options=('tasks',),
    machine_options=('episodes', 'timeout_s'),
    unsafe_options=dict.fromkeys(
        ('command', 'function', 'tasks', 'expert'), is_set
    ),
    open_factory=open_factory,
    list_tasks=lambda split, tasks: task_files.of_split(
        split, task_files.read(tasks)
    ),
    success='The program says so, or gives a reward of 1.',
)
