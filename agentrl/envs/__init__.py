"""Environments, by the name that configs use.

To add one, write its package with an `Env` and its task lists, its line in
`wire.WIRES`, its words in `prompts`, its functions in `functions`, and its entry
here.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from agentrl.envs import wire
from agentrl.envs.babyai import levels as babyai_levels, tasks as babyai_tasks
from agentrl.envs.base import Separate, World
from agentrl.envs.sciworld import tasks as sciworld_tasks
from agentrl.envs.searchqa import tasks as searchqa_tasks
from agentrl.envs.textcraft import tasks as textcraft_tasks
from agentrl.errors import ConfigError

SPLITS = ('train', 'dev', 'test')


@dataclasses.dataclass(frozen=True)
class EnvSpec:
  """What the rest of agentrl knows of an environment.

  Attributes:
    name: its name.
    wire: how its server is spoken to.
    options: names and defaults of its options.
    subtask: the kind of a task by its id, for tables by kind.
  """

  name: str
  wire: wire.Wire
  options: Mapping[str, Any]
  subtask: Callable[[int], str]
  _open: Callable[..., World]
  _tasks: Callable[..., tuple[int, ...]]
  _task_options: tuple[str, ...]  # those that choose tasks
  # What `subtask` is under options that give ids another meaning.
  _subtasks: Callable[..., Callable[[int], str]] | None = None

  def open(self, **options: Any) -> World:
    """What makes its episodes. Imports what it needs only now.

    Raises:
      ConfigError: an option is unknown or wrong.
      EnvError: a package that it needs is missing.
    """
    return self._open(**self.check_options(options))

  def tasks(self, split: str, **options: Any) -> tuple[int, ...]:
    """The fixed ids of 'train', 'dev' or 'test' under these options.

    Raises:
      ConfigError: an option or the split is unknown or wrong.
    """
    if split not in SPLITS:
      raise ConfigError(f'Unknown split {split!r}; known: {", ".join(SPLITS)}.')
    checked = self.check_options(options)
    return self._tasks(split, **{x: checked[x] for x in self._task_options})

  def subtasks(self, **options: Any) -> Callable[[int], str]:
    """The kind of a task by its id, under these options.

    Raises:
      ConfigError: an option is unknown or wrong.
    """
    checked = self.check_options(options)
    return self._subtasks(**checked) if self._subtasks else self.subtask

  def check_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
    """`options` over the defaults; refuses unknown names."""
    unknown = [name for name in options if name not in self.options]
    if unknown:
      raise ConfigError(
          f'{self.name} has no option {", ".join(unknown)};'
          f' known: {", ".join(self.options)}.'
      )
    return {**self.options, **options}


def _open_textcraft(**options: Any) -> World:
  from agentrl.envs.textcraft.env import TextCraft

  return _separate(TextCraft, options, inline=('reset', 'step'))


def _open_babyai(**options: Any) -> World:
  from agentrl.envs.babyai.env import BabyAI

  return _separate(BabyAI, options, inline=('step',))


def _open_sciworld(**options: Any) -> World:
  from agentrl.envs.sciworld.env import SciWorlds

  return SciWorlds(**options)


def _open_searchqa(**options: Any) -> World:
  from agentrl.envs.searchqa.env import SearchWorld

  return SearchWorld(**options)


def _separate(
    cls: Callable[..., Any], options: dict[str, Any], **world: Any
) -> World:
  make = functools.partial(cls, **options)
  make().close()  # wrong options are an error now, not at the first request
  return Separate(make, **world)


ENVS = {
    'textcraft': EnvSpec(
        name='textcraft',
        wire=wire.TEXTCRAFT,
        options={'max_depth': None},
        subtask=lambda task_id: f'depth {textcraft_tasks.depth_of(task_id)}',
        _open=_open_textcraft,
        _tasks=textcraft_tasks.tasks,
        _task_options=('max_depth',),
    ),
    'babyai': EnvSpec(
        name='babyai',
        wire=wire.BABYAI,
        options={'levels': None, 'style': 'full', 'expert_macros': True},
        subtask=babyai_levels.level_of,
        _open=_open_babyai,
        _tasks=babyai_tasks.tasks,
        _task_options=('levels',),
    ),
    'sciworld': EnvSpec(
        name='sciworld',
        wire=wire.SCIWORLD,
        options={
            'tasks': 'agentgym',
            'simplifications': (),
            'max_moves': 100,
            'simulators': None,
            'simulator_episodes': 500,
            'simulator_bytes': 600 * 2**20,
        },
        subtask=sciworld_tasks.task_of,
        _open=_open_sciworld,
        _tasks=sciworld_tasks.tasks,
        _task_options=('tasks',),
    ),
    'searchqa': EnvSpec(
        name='searchqa',
        wire=wire.SEARCHQA,
        options={
            'questions': None,
            'retriever_url': None,
            'retriever_timeout_s': 30.0,
            'topk': 3,
            'scoring': 'em',
            'retry': False,
        },
        subtask=searchqa_tasks.subtask,
        _open=_open_searchqa,
        _tasks=searchqa_tasks.tasks,
        _task_options=('questions',),
        _subtasks=searchqa_tasks.subtasks,
    ),
}


def get(name: str) -> EnvSpec:
  """The environment called `name`."""
  if name not in ENVS:
    raise ConfigError(
        f'Unknown environment {name!r}; known: {", ".join(ENVS)}.'
    )
  return ENVS[name]
