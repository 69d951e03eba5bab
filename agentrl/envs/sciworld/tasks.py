"""The 30 tasks of ScienceWorld, their variations, ids and splits.

A task id counts variations, task by task. The first 4,639 are the ids of
AgentGym, which leaves seven tasks out; those follow after them, so that an id
means the same everywhere. Splits are the simulator's own: of n variations the
first half trains, the next quarter is for development, the rest for the test.
AgentGym-RL publishes other lists (2,120 train and 200 test ids) with its data.
"""

import bisect
from collections.abc import Callable, Sequence
from typing import Any

from agentrl.envs import base
from agentrl.errors import ConfigError

_AGENTGYM = (
    ('boil', 30),
    ('melt', 30),
    ('freeze', 30),
    ('change-the-state-of-matter-of', 30),
    ('use-thermometer', 540),
    ('measure-melting-point-known-substance', 436),
    ('measure-melting-point-unknown-substance', 300),
    ('power-component', 20),
    ('power-component-renewable-vs-nonrenewable-energy', 20),
    ('test-conductivity', 900),
    ('test-conductivity-of-unknown-substances', 600),
    ('find-living-thing', 300),
    ('find-non-living-thing', 300),
    ('find-plant', 300),
    ('find-animal', 300),
    ('chemistry-mix', 32),
    ('chemistry-mix-paint-secondary-color', 36),
    ('chemistry-mix-paint-tertiary-color', 36),
    ('lifespan-longest-lived', 125),
    ('lifespan-shortest-lived', 125),
    ('lifespan-longest-lived-then-shortest-lived', 125),
    ('identify-life-stages-1', 14),
    ('identify-life-stages-2', 10),
)
_OTHERS = (
    ('grow-plant', 126),
    ('grow-fruit', 126),
    ('inclined-plane-determine-angle', 168),
    ('inclined-plane-friction-named-surfaces', 1386),
    ('inclined-plane-friction-unnamed-surfaces', 162),
    ('mendelian-genetics-known-plant', 120),
    ('mendelian-genetics-unknown-plant', 480),
)

VARIATIONS = dict(_AGENTGYM + _OTHERS)
NAMES = tuple(VARIATIONS)
# Task k has the ids from FIRST_ID[k] up to, not including, FIRST_ID[k + 1].
FIRST_ID = tuple(
    sum(list(VARIATIONS.values())[:k]) for k in range(len(NAMES) + 1)
)
NUM_TASKS = FIRST_ID[-1]
NUM_AGENTGYM = FIRST_ID[len(_AGENTGYM)]

# The rows of tables, by ScienceWorld's topics: eight of AgentGym's tasks, as many
# as AgentGym-RL's table has, whose lists are not published, and three more.
_ROWS = {
    'Change-State': NAMES[:4],
    'Measure': NAMES[4:7],
    'Power': NAMES[7:9],
    'Test-Cond': NAMES[9:11],
    'Find': NAMES[11:15],
    'Chem-Mix': NAMES[15:18],
    'Lifespan': NAMES[18:21],
    'Life-Stages': NAMES[21:23],
    'Grow': NAMES[23:25],
    'Incline': NAMES[25:28],
    'Genetics': NAMES[28:],
}
ROWS = {name: row for row, names in _ROWS.items() for name in names}

GROUPS = {
    'agentgym': NAMES[: len(_AGENTGYM)],
    'all': NAMES,
}


def task_of(task_id: int) -> str:
  """The name of a task.

  Raises:
    EnvError: there is no such task.
  """
  base.check_task('SciWorld', task_id, NUM_TASKS)
  return NAMES[bisect.bisect_right(FIRST_ID, task_id) - 1]


def subtasks(
    *, tasks: str | Sequence[str] = 'agentgym', **options: Any
) -> Callable[[int], str]:
  """A function from a task to its kind.

  That is a row in `ROWS`, or the task's name where `tasks` names some. Tasks are
  no clusters: every split has variations of all of them, so results speak of
  further variations of these tasks, not of further tasks.
  """
  del options
  if isinstance(tasks, str):
    return lambda task_id: ROWS[task_of(task_id)]
  return task_of


def variation_of(task_id: int) -> int:
  """The number of a variation within its task."""
  return task_id - FIRST_ID[NAMES.index(task_of(task_id))]


def id_of(task: str, variation: int) -> int:
  """The id of a variation of a task."""
  return FIRST_ID[NAMES.index(task)] + variation


def variations(task: str, split: str) -> range:
  """The variations of `task` in 'train', 'dev' or 'test'."""
  count = VARIATIONS[task]
  quarter = count // 4
  return {
      'train': range(2 * quarter),
      'dev': range(2 * quarter, 3 * quarter),
      'test': range(3 * quarter, count),
  }[split]


def check(tasks: str | Sequence[str]) -> tuple[str, ...]:
  """The names that an option means; refuses unknown ones."""
  if isinstance(tasks, str):
    if tasks not in GROUPS:
      raise ConfigError(
          f'Unknown SciWorld tasks {tasks!r}; known: {", ".join(GROUPS)}, or a'
          ' list of names.'
      )
    return GROUPS[tasks]
  unknown = [name for name in tasks if name not in NAMES]
  if unknown or not tasks:
    raise ConfigError(
        f'Unknown SciWorld tasks {unknown}; known: {", ".join(NAMES)}.'
        if unknown
        else "tasks is empty; name some, or say 'agentgym' or 'all'."
    )
  return tuple(dict.fromkeys(tasks))


def tasks(
    split: str, *, tasks: str | Sequence[str] = 'agentgym'
) -> tuple[int, ...]:
  """The ids of `split` ('train', 'dev' or 'test') in the chosen tasks.

  Variation by variation, so that a prefix of the list has every task equally
  often, until the small ones are used up.
  """
  chosen = {name: variations(name, split) for name in check(tasks)}
  longest = max(map(len, chosen.values()))
  return tuple(
      id_of(name, numbers[k])
      for k in range(longest)
      for name, numbers in chosen.items()
      if k < len(numbers)
  )
