"""Episodes on an OpenEnv server, each in a session of its own."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.envs import base, functions as functions_lib
from agentrl.envs.adapters import seeds, task_files
from agentrl.envs.adapters.openenv import (
    actions as actions_lib,
    observations,
    server,
)
from agentrl.envs.adapters.openenv.actions import Actions
from agentrl.envs.adapters.openenv.client import Client, Refused, Session
from agentrl.envs.adapters.task_files import Task
from agentrl.envs.adapters.truncation import truncate
from agentrl.errors import EnvFault
from agentrl.types import StepResult

_FIELDS = ('reset', 'expert', 'split')


def open_factory(**options: Any) -> base.Independent:
  """The factory of `OpenEnv`: they share its server, started or found."""
  tasks = load_tasks(options['tasks'])
  with contextlib.ExitStack() as stack:
    client = stack.enter_context(
        server.opened(options['server'], options['timeout_s'])
    )
    actions = actions_lib.of_server(client)
    return base.Independent(
        lambda: OpenEnv(client, actions, tasks, options),
        slots=options['episodes'],
        threads=options['episodes'],
        close=stack.pop_all().close,
    )


class OpenEnv:
  """One session after the other; see `base.Env`."""

  def __init__(
      self,
      client: Client,
      actions: Actions,
      tasks: Sequence[Task] | None,
      options: Mapping[str, Any],
  ):
    self._client, self._actions, self._tasks = client, actions, tasks
    self._fields, self._success = options['fields'], options['success']
    self._most_chars = options['most_chars']
    self._shown_errors = {'VALIDATION_ERROR'}
    if options['show_errors']:
      self._shown_errors.add('EXECUTION_ERROR')
    self._session: Session | None = None

  def reset(self, task_id: int, seed: int) -> str:
    del seed  # a server's reset has one seed, which is the task
    count = seeds.COUNT if self._tasks is None else len(self._tasks)
    base.check_task('openenv', task_id, count)
    self.close()
    self._task: Task = {} if self._tasks is None else self._tasks[task_id]
    if actions_lib.of_server(self._client) != self._actions:
      raise EnvFault(
          'The actions of the OpenEnv server are others than those that the'
          ' policy was told: start the run again.'
      )
    self._session = Session(self._client)
    self._done, self._total = 0, 0.0
    arguments = {'seed': task_id, **self._task.get('reset', {})}
    return self._show(self._session.reset(arguments).observation)

  def step(self, action: str) -> StepResult:
    assert self._session is not None  # since a reset
    payload = self._actions.payload(action)
    if payload is None:
      names = ', '.join(x.signature for x in self._actions.functions)
      text = f'This is no call of a function. There are: {names}.'
      return StepResult(text, 0.0, False)
    try:
      result = self._session.step(payload)
    except Refused as error:
      if error.code not in self._shown_errors:
        raise
      return StepResult(str(error), 0.0, False)
    self._done += 1
    reward = float(result.reward or 0.0)
    self._total += reward
    success = self._total >= self._success if result.done else None
    text = self._show(result.observation)
    return StepResult(text, reward, result.done, success=success)

  def _show(self, observation: Mapping[str, Any]) -> str:
    if self._actions.tools and 'tool_name' in observation:
      text = observations.text_of_tool(observation)
    else:
      text = observations.text(observation, self._fields)
    return truncate(text, self._most_chars)

  def available_actions(self) -> list[str]:
    if self._actions.text is not None:
      return [f'{{{self._actions.text}}}']
    return functions_lib.call_forms(self._actions.functions)

  def expert_action(self) -> str:
    return task_files.expert_action(self._task, self._done)

  def close(self) -> None:
    if self._session is not None:
      session, self._session = self._session, None
      session.close()


def load_tasks(path: str | None) -> tuple[Task, ...] | None:
  """The tasks of a file; None: there is no file, and a task is a seed.

  Raises:
    ConfigError: a line is no task.
  """
  return None if path is None else task_files.read(path, _check_task)


def _check_task(task: Task) -> None:
  """Raises ValueError for a task with a wrong part."""
  task_files.check_names(task, _FIELDS)
  if not isinstance(task.get('reset', {}), dict):
    raise ValueError("'reset' must be an object, arguments of reset")
  task_files.check_expert(task.get('expert', ()), plain=True)
