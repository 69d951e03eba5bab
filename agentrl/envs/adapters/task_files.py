"""Files of tasks that users write, a JSON object a line."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentrl import json_files
from agentrl.envs import functions as functions_lib
from agentrl.envs.spec import SPLITS
from agentrl.errors import ConfigError, DataError, EnvError

Task = Mapping[str, Any]


@functools.cache
def read(
    path: str | None, check: Callable[[Task], None] | None = None
) -> tuple[Task, ...]:
  """The tasks of `env.options.tasks`.

  Args:
    path: of the file.
    check: raises ValueError for an object that is no task of the environment;
      None: any object is one.

  Raises:
    ConfigError: no file is named, or a line is no task.
  """
  if path is None:
    raise ConfigError('env.options.tasks is not set: name a file of tasks.')
  try:
    # splitlines() would break lines within texts, at U+2028 and others.
    lines = json_files.read_text(path).split('\n')
  except DataError as error:
    raise ConfigError(f'env.options.tasks={path}: {error}') from error
  tasks = []
  for number, line in enumerate(lines, 1):
    if line.strip():
      try:
        task = json_files.loads(line)
        if not isinstance(task, dict):
          raise ValueError('a task is a JSON object')
        if check is not None:
          check(task)
        if task.get('split', 'train') not in SPLITS:
          raise ValueError(f"'split' is one of {', '.join(SPLITS)}")
      except json_files.BROKEN as error:
        raise ConfigError(f'{path}, line {number}: {error}') from error
      tasks.append(task)
  if not tasks:
    raise ConfigError(f'env.options.tasks={path} has no task.')
  return tuple(tasks)


def check_names(task: Task, known: Sequence[str]) -> None:
  """Raises ValueError for a part of a task that is not known."""
  unknown = [name for name in task if name not in known]
  if unknown:
    raise ValueError(f'unknown {unknown[0]!r}; known: {", ".join(known)}')


def check_expert(calls: Any, *, plain: bool = False) -> None:
  """Raises ValueError for what is no list of actions: calls, or texts if `plain`."""
  words = "'expert' is a list of calls: name, arguments" + ' or texts' * plain
  if not isinstance(calls, list | tuple):
    raise ValueError(words)
  for call in calls:
    if plain and isinstance(call, str):
      continue
    if (
        not isinstance(call, dict)
        or call.keys() != {'name', 'arguments'}
        or not isinstance(call['arguments'], dict)
    ):
      raise ValueError(words)


def action_of(call: Any) -> str:
  """The action that an item of 'expert' is."""
  if isinstance(call, str):
    return call
  return functions_lib.write_call(call['name'], call['arguments'])


def expert_action(task: Task, done: int) -> str:
  """The action of a task's 'expert' after `done` actions.

  Raises:
    EnvError: it has none, or no more.
  """
  calls = task.get('expert')
  if not calls:
    raise EnvError(
        "This task has no expert: give it one in the file's 'expert', or"
        ' train without a warm start.'
    )
  if done >= len(calls):
    raise EnvError('The expert has no plan from here.')
  return action_of(calls[done])


def of_split(split: str, tasks: tuple[Task, ...]) -> list[int]:
  """Ids of a split: a task's own, else of ten one for test and one for dev."""
  usual = {0: 'test', 1: 'dev'}
  return [
      index
      for index, task in enumerate(tasks)
      if (task.get('split') or usual.get(index % 10, 'train')) == split
  ]
