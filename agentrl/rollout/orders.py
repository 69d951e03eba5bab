"""The order of an environment's tasks, from `config.tasks`."""

from collections.abc import Sequence
from typing import Any

from agentrl.data.tasks import StagedTasks, TaskIterator, Tasks
from agentrl.errors import ConfigError
from agentrl.rollout.task_lists import TaskLists


def make(
    options: Any, tasks: Sequence[int], lists: TaskLists, *, seed: int
) -> Tasks:
  """The order that `config.tasks` describes.

  Args:
    options: its fields.
    tasks: to train on.
    lists: of their environment.
    seed: of the order.

  Raises:
    ConfigError: a stage names a kind that no task is of.
  """
  version = lists.spec.data_version
  if options.order == 'shuffled':
    return TaskIterator(tasks, seed=seed, data_version=version)
  kind_of = lists.subtasks()
  by_kind: dict[str, list[int]] = {}
  for task_id in tasks:
    by_kind.setdefault(kind_of(task_id), []).append(task_id)
  stages = options.stages or [(kind,) for kind in by_kind]
  if unknown := [k for stage in stages for k in stage if k not in by_kind]:
    raise ConfigError(
        f'tasks.stages name {unknown[0]!r}, and no task of {lists.name} to'
        f' train on is of that kind; there are {", ".join(by_kind)}.'
    )
  return StagedTasks(
      [[x for kind in stage for x in by_kind[kind]] for stage in stages],
      seed=seed,
      threshold=options.threshold,
      window=options.window,
      data_version=version,
  )
