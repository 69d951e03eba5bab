"""The fixed lists of TextCraft: train 374, dev 70 and test 100 of 544 goals.

Task ids count the goals by `(depth, name)`, so a depth is a range of ids. The
test list has the sizes of the original's and its reported mix of depths (31,
41, 25 and 3); the dev list has the mix of what is left. Both were drawn once,
without replacement, and are written out here so that nothing can move them.

Task `w * NUM_TASKS + i` is goal i in world w: world 0 is Minecraft's, in the others
the items have exchanged their names (recipes.renamed). Training and held-out tasks
share no other world.
"""

import collections
import functools
from collections.abc import Callable, Sequence
from typing import Any

from agentrl.envs import base
from agentrl.envs.textcraft import recipes
from agentrl.errors import ConfigError, EnvError

# Depth d has the ids from FIRST_ID[d - 1] up to, not including, FIRST_ID[d].
FIRST_ID = (0, 125, 416, 533, 544)
NUM_TASKS = FIRST_ID[-1]
MAX_WORLDS = 1000

TEST = (
    2, 4, 5, 17, 19, 20, 21, 22, 23, 24, 29, 34, 41, 49, 60, 63, 66, 67, 69,
    77, 84, 92, 95, 97, 105, 107, 112, 115, 117, 118, 124, 127, 129, 134, 135,
    149, 150, 153, 171, 176, 178, 181, 185, 187, 188, 190, 191, 200, 201, 217,
    241, 245, 253, 262, 263, 266, 268, 282, 291, 294, 298, 300, 304, 305, 308,
    311, 340, 344, 365, 366, 392, 396, 421, 422, 424, 429, 431, 436, 440, 443,
    452, 457, 458, 467, 473, 474, 480, 488, 495, 496, 497, 502, 505, 519, 525,
    527, 528, 536, 541, 543,
)  # fmt: skip

DEV = (
    6, 8, 42, 52, 61, 72, 74, 81, 89, 90, 94, 101, 102, 119, 122, 140, 144,
    147, 151, 161, 179, 186, 189, 206, 214, 220, 222, 232, 235, 239, 247, 256,
    267, 285, 292, 293, 306, 315, 319, 324, 333, 336, 337, 343, 362, 367, 376,
    381, 387, 391, 393, 395, 408, 410, 416, 426, 435, 442, 450, 453, 455, 460,
    462, 472, 478, 479, 513, 514, 524, 533,
)  # fmt: skip

SPLITS = {
    'train': tuple(x for x in range(NUM_TASKS) if x not in {*TEST, *DEV}),
    'dev': DEV,
    'test': TEST,
}


def split_id(task_id: int, worlds: int = 1) -> tuple[int, int]:
  """The world of a task, and the number of its goal.

  Args:
    task_id: of any split.
    worlds: as for `tasks`.

  Raises:
    EnvError: there is no such task.
  """
  most = 1 if worlds == 1 else MAX_WORLDS
  base.check_task('TextCraft', task_id, most * NUM_TASKS)
  world, goal = divmod(task_id, NUM_TASKS)
  # The first worlds are for training, the last for what is held out.
  if worlds <= world <= MAX_WORLDS - worlds:
    raise EnvError(
        f'TextCraft task {task_id} is of world {world}, which is none of'
        f' worlds={worlds}; choose another or raise worlds.'
    )
  return world, goal


def world_of(task_id: int) -> int:
  """The world of a task, which may be none."""
  return task_id // NUM_TASKS


def goal_of(task_id: int) -> str:
  """The number of a task's goal, in whatever world, as a text."""
  return str(task_id % NUM_TASKS)


def depth_of(task_id: int, worlds: int = 1) -> int:
  """The depth of a task's goal, 1 to 4.

  Raises:
    EnvError: there is no such task.
  """
  _, goal = split_id(task_id, worlds)
  return next(d for d, first in enumerate(FIRST_ID) if goal < first)


def subtasks(*, worlds: int = 1, **options: Any) -> Callable[[int], str]:
  """A function from a task to its kind, the depth of its goal."""
  del options
  return lambda task_id: f'depth {depth_of(task_id, worlds)}'


def ingredients_of(number: int) -> int:
  """The kinds of things that the simplest recipe of a goal takes.

  Raises:
    EnvError: the recipes are missing.
  """
  book = recipes.load()
  return min(len(x.inputs) for x in book.recipes[book.goals[number]])


def clusters(*, worlds: int = 1, **options: Any) -> Callable[[int], str]:
  """A function from a task to the family of its goal.

  Beds of sixteen colours or doors of eight woods have one recipe but for the
  material: who can craft one can craft most. So 100 test goals are 71 families.

  Raises:
    EnvError: the recipes are missing.
  """
  del options
  return lambda task_id: _family_of(split_id(task_id, worlds)[1])


def family_size(number: int) -> int:
  """The training goals in the family of a goal.

  Raises:
    EnvError: the recipes are missing.
  """
  return _family_sizes()[_family_of(number)]


@functools.cache
def _family_sizes() -> collections.Counter[str]:
  return collections.Counter(map(_family_of, SPLITS['train']))


def _family_of(number: int) -> str:
  book = recipes.load()
  goal = book.goals[number]
  return recipes.plain_name(book.recipes[goal][0].tag or goal)


def tasks(
    split: str,
    *,
    min_depth: int = 1,
    max_depth: int | None = None,
    max_ingredients: int | None = None,
    min_family: int = 0,
    worlds: int = 1,
) -> tuple[int, ...]:
  """The ids of `split` ('train', 'dev' or 'test'), shallow ones first.

  Args:
    split: of the goals.
    min_depth: of a goal, at least.
    max_depth: of a goal, at most; None: any.
    max_ingredients: kinds of things that a goal's simplest recipe takes, at
      most; None: any.
    min_family: training goals in the family of a goal, at least, see `clusters`.
    worlds: in which the goals are listed, one after the other: Minecraft's and
      then the first ones, for a held-out split the last ones.
  """
  check_depths(min_depth, max_depth)
  check_max_ingredients(max_ingredients)
  check_min_family(min_family)
  check_worlds(worlds)
  first = FIRST_ID[min_depth - 1]
  last = NUM_TASKS if max_depth is None else FIRST_ID[max_depth]
  goals = [x for x in SPLITS[split] if first <= x < last]
  if max_ingredients is not None:
    goals = [x for x in goals if ingredients_of(x) <= max_ingredients]
  if min_family:
    goals = [x for x in goals if family_size(x) >= min_family]
  chosen: Sequence[int] = range(worlds)
  if split != 'train':
    chosen = (0, *range(MAX_WORLDS - worlds + 1, MAX_WORLDS))
  return tuple(world * NUM_TASKS + x for world in chosen for x in goals)


def check_worlds(worlds: int) -> None:
  """Refuses what is no number of worlds."""
  most = MAX_WORLDS // 2
  if type(worlds) is not int or not 1 <= worlds <= most:
    raise ConfigError(f'worlds must be 1 to {most}, got {worlds!r}.')


def check_depths(min_depth: int, max_depth: int | None) -> None:
  """Refuses what are no least and greatest depth."""
  deepest = len(FIRST_ID) - 1
  if max_depth is not None and max_depth not in range(1, deepest + 1):
    raise ConfigError(
        f'max_depth must be 1 to {deepest} or None, got {max_depth!r}.'
    )
  most = max_depth or deepest
  if min_depth not in range(1, most + 1):
    raise ConfigError(
        f'min_depth must be 1 to {most}, the greatest depth, got {min_depth!r}.'
    )


def check_min_family(min_family: int) -> None:
  """Refuses what is no number of goals, or more than any family has."""
  if min_family == 0:
    return  # listing all tasks needs no recipes
  largest = max(_family_sizes().values())
  if min_family not in range(largest + 1):
    raise ConfigError(
        f'min_family must be 0 to {largest}, the training goals of the largest'
        f' family, got {min_family!r}.'
    )


def check_max_ingredients(max_ingredients: int | None) -> None:
  """Refuses what is neither a number of ingredients nor None."""
  if max_ingredients is not None and max_ingredients not in range(1, 10):
    raise ConfigError(
        'max_ingredients must be 1 to 9, the fields of a crafting table, or'
        f' None, got {max_ingredients!r}.'
    )
