"""The tasks of an environment: lists of splits, panels, item files."""

from collections.abc import Callable

from agentrl import envs
from agentrl.envs import items, options
from agentrl.errors import ConfigError, DataError, EnvError
from agentrl.rollout import panel


class TaskLists:
  """The tasks of an environment, which need none of its servers."""

  def __init__(self, env: options.EnvOptions, task_file: str | None = None):
    """Finds the environment.

    Args:
      env: which environment, and its options.
      task_file: an item file of tasks to train on; None: the train list.

    Raises:
      ConfigError: there is no such environment.
    """
    self.spec = envs.get(env.name).under(**env.options)
    self.name = self.spec.name
    self._env = env
    self._task_file = task_file

  def tasks(self, split: str) -> tuple[int, ...]:
    """The fixed task list of a split, or the config's own training tasks."""
    if split == 'train' and self._task_file:
      return self._items(self._task_file)
    return self.spec.tasks(split, **self._env.options)

  def subtasks(self) -> Callable[[int], str]:
    """A function from a task to its kind."""
    return self.spec.subtasks(**self._env.options)

  def clusters(self) -> Callable[[int], str] | None:
    """A function from a task to its template; None: each stands alone.

    Raises:
      EnvError: a package that tells is missing.
    """
    return self.spec.clusters(**self._env.options)

  def panel(
      self, split: str, count: int, task_file: str | None = None
  ) -> tuple[int, ...]:
    """`count` tasks of a split, or of an item file, spread over their kinds.

    Those of a smaller count are among them, see `panel.spread`.

    Raises:
      ConfigError: there are fewer.
      DataError: the item file cannot be read, or names an unknown task.
    """
    if task_file:
      tasks, source = self._items(task_file), task_file
    else:
      tasks = self.tasks(split)
      source = f'the {split} split of {self.name}'
    if count > len(tasks):
      raise ConfigError(
          f'eval.num_tasks={count}, but {source} has {len(tasks)} tasks.'
      )
    kind_of, stratum_of = self.subtasks(), self.spec.stratum
    return panel.spread(
        tasks,
        count,
        lambda task: (kind_of(task), stratum_of and stratum_of(task)),
    )

  def _items(self, path: str) -> tuple[int, ...]:
    task_ids = items.read(path, self.name)
    kind_of = self.subtasks()
    for index, task_id in enumerate(task_ids):
      try:
        kind_of(task_id)
      except EnvError as error:
        raise DataError(f'Item {index} of {path}: {error}') from error
    return task_ids
