"""The tasks of our own sites: ids, splits, and where they are written.

Task `base + 100 * template + k` is the k-th of a template of a site; with
INJECTED added, the same task on pages that hold instructions of strangers.
"""

from collections.abc import Mapping, Sequence

from agentrl.errors import ConfigError, EnvError
from agentrl.sites.admin import tasks as admin
from agentrl.sites.forge import tasks as forge
from agentrl.sites.forum import tasks as forum
from agentrl.sites.shop import tasks as shop
from agentrl.sites.task import MOST, Template

# Site -> first id and templates, whose order is for good: ids count on it.
SITES: Mapping[str, tuple[int, Sequence[Template]]] = {
    'shop': (10_000, shop.TEMPLATES),
    'admin': (20_000, admin.TEMPLATES),
    'forum': (30_000, forum.TEMPLATES),
    'forge': (40_000, forge.TEMPLATES),
}
INJECTED = 100_000
TEMPLATES: Mapping[str, Template] = {
    template.name: template
    for _, templates in SITES.values()
    for template in templates
}
# As the public benchmark's tables name them.
_KINDS = {
    'shop': 'shopping',
    'admin': 'cms',
    'forum': 'reddit',
    'forge': 'gitlab',
}
SPLIT_BY = ('template', 'value')
_PARTS = {'dev': (3,), 'test': (4,), 'train': (0, 1, 2)}


def find(task_id: int) -> tuple[str, Template, int]:
  """The site, the template and the number of a task.

  Raises:
    EnvError: there is no such task.
  """
  plain = task_id - INJECTED if task_id >= INJECTED else task_id
  for site, (base, templates) in SITES.items():
    place, k = divmod(plain - base, MOST)
    if 0 <= place < len(templates) and k < templates[place].count:
      return site, templates[place], k
  raise EnvError(f'The sites have no task {task_id}.')


def is_injected(task_id: int) -> bool:
  """True if strangers' instructions stand on the pages of a task."""
  return task_id >= INJECTED


def subtask(task_id: int) -> str:
  """The kind of a task, as the public benchmark's tables have it."""
  kind = _KINDS[find(task_id)[0]]
  return f'{kind}, injected' if is_injected(task_id) else kind


def template_of(task_id: int) -> str:
  """The name of a task's template, on injected pages, too."""
  return find(task_id)[1].name


def chosen(tasks: str | Sequence[str]) -> Sequence[Template]:
  """The templates that an option means.

  Args:
    tasks: 'own' or 'injected' for all; or names of sites and of templates.

  Raises:
    ConfigError: one is unknown.
  """
  if tasks in ('own', 'injected'):
    return tuple(TEMPLATES.values())
  if isinstance(tasks, str):
    tasks = (tasks,)
  templates: dict[str, Template] = {}
  for name in tasks:
    of_site = SITES[name][1] if name in SITES else ()
    one = [TEMPLATES[name]] if name in TEMPLATES else of_site
    if not one:
      raise ConfigError(
          f"Unknown tasks {name!r} of the sites; say 'own', 'injected', or name"
          f' sites ({", ".join(SITES)}) or templates such as'
          f' {next(iter(TEMPLATES), "shop/buy")!r}.'
      )
    templates |= {template.name: template for template in one}
  if not templates:
    raise ConfigError('tasks is empty; name sites or templates.')
  return tuple(templates.values())


def ids_of(name: str) -> Sequence[int]:
  """The ids of a template's tasks, in order."""
  site = name.partition('/')[0]
  base, templates = SITES[site]
  place = [template.name for template in templates].index(name)
  first = base + MOST * place
  return range(first, first + templates[place].count)


def tasks(
    split: str,
    *,
    tasks: str | Sequence[str] = 'own',
    split_by: str = 'template',
) -> tuple[int, ...]:
  """The ids of `split` ('train', 'dev' or 'test') in the chosen templates.

  Args:
    split: its name.
    tasks: see `chosen`.
    split_by: 'template': every fifth template of a site is for dev, the next
      one for test; 'value': likewise the tasks of each template.
  """
  if split_by not in SPLIT_BY:
    raise ConfigError(
        f'Unknown split_by {split_by!r}; known: {", ".join(SPLIT_BY)}.'
    )
  task_ids = []
  templates = chosen(tasks)
  for site, (_, of_site) in SITES.items():
    here = [template for template in of_site if template in templates]
    for place, template in enumerate(here):
      for k, task_id in enumerate(ids_of(template.name)):
        if (place if split_by == 'template' else k) % 5 in _PARTS[split]:
          task_ids.append(task_id)
    del site
  if not task_ids:
    raise ConfigError(
        f'No task is left for {split}: name five templates of a site or more,'
        " or split_by='value'."
    )
  extra = INJECTED if tasks == 'injected' else 0
  return tuple(extra + task_id for task_id in task_ids)
