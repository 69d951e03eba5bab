"""The environment's options: own sites or public tasks, and what each takes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from agentrl.envs.base import EnvFactory
from agentrl.errors import ConfigError
from agentrl.sites import table as own

PUBLIC = ('raw', 'verified', 'hard')  # names of `tasks`
_SHARED = {
    'tasks': 'own',
    'observe': 'page',
    'style': 'full',
    'navigation': 'always',
    'most_chars': 16_000,
    'episodes': 32,
    'har': None,
    'chromium': None,
}
_OF_OWN = {
    'split_by': 'template',
    'slow': 0.0,
    'errors': 0.0,
    'session': 0,
}
_OF_PUBLIC = {
    'task_file': None,
    'judge': None,
    'storage_state': None,
    'accounts': None,
}
DEFAULTS: Mapping[str, Any] = {**_SHARED, **_OF_OWN, **_OF_PUBLIC}
# Of those, what chooses tasks.
OF_TASKS = ('tasks', 'split_by', 'task_file', 'judge')


def is_public(tasks: str | Sequence[str]) -> TypeGuard[str]:
  """True if an option `tasks` means public ones."""
  return isinstance(tasks, str) and tasks in PUBLIC


def open_factory(**options: Any) -> EnvFactory:
  """The factory for these options.

  Raises:
    ConfigError: one has no effect beside the others.
  """
  public = is_public(options['tasks'])
  taken, others = (_OF_PUBLIC, _OF_OWN) if public else (_OF_OWN, _OF_PUBLIC)
  for name, default in others.items():
    if options[name] != default:
      sort = 'public' if public else 'own'
      raise ConfigError(
          f'WebArena option {name} has no effect on {sort} tasks.'
      )
  if options['judge'] is not None and options['tasks'] != 'raw':
    raise ConfigError(
        "WebArena option judge has an effect on tasks='raw' alone: the"
        ' verified ones are graded without one.'
    )
  options = {name: options[name] for name in (*_SHARED, *taken)}
  if public:
    from agentrl.envs.webarena.public.env import PublicFactory

    return PublicFactory(**options)
  from agentrl.envs.webarena.env import WebArenaFactory

  return WebArenaFactory(**options)


def list_tasks(
    split: str,
    *,
    tasks: str | Sequence[str] = 'own',
    split_by: str = 'template',
    task_file: str | None = None,
    judge: str | None = None,
) -> tuple[int, ...]:
  """The ids of a split; see `tasks.tasks` and `public.tasks.ids`."""
  if not is_public(tasks):
    return own.tasks(split, tasks=tasks, split_by=split_by)
  from agentrl.envs.webarena.public import env, tasks as public

  table = public.load(tasks, task_file or '')
  task_ids = tuple(
      task_id
      for task_id in env.choose(tasks, task_file, judge)
      if public.split_of(table[task_id].template_id) == split
  )
  if not task_ids:
    raise ConfigError(
        f'No task of {tasks!r} that can be played is for {split}.'
    )
  return task_ids


def subtasks_of(
    *,
    tasks: str | Sequence[str] = 'own',
    task_file: str | None = None,
    **others: Any,
) -> Callable[[int], str]:
  """Gives the kind of a task, as the public benchmark's tables name it."""
  del others
  if not is_public(tasks):
    return own.subtask
  from agentrl.envs.webarena.public import tasks as public

  table = public.load(tasks, task_file or '')
  names = {'shopping_admin': 'cms', 'map': 'maps'}
  return lambda task_id: ' and '.join(
      sorted(names.get(site, site) for site in table[task_id].sites)
  )


def clusters_of(
    *,
    tasks: str | Sequence[str] = 'own',
    task_file: str | None = None,
    **others: Any,
) -> Callable[[int], str]:
  """Gives the template of a task: its tasks differ in values alone.

  That holds under every `split_by`: there are hundreds of templates, with a few
  tasks each.
  """
  del others
  if not is_public(tasks):
    return own.template_of
  from agentrl.envs.webarena.public import tasks as public

  table = public.load(tasks, task_file or '')
  return lambda task_id: str(table[task_id].template_id)
