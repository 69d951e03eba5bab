"""The 40 levels, in AgentGym's order, and how one is built."""

import copy
import functools
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any

from agentrl.errors import ConfigError, EnvError

NAMES = (
    'GoToRedBallGrey', 'GoToRedBall', 'GoToRedBallNoDists', 'GoToObjS6',
    'GoToLocalS8N7', 'GoToObjMazeS7', 'GoToImpUnlock', 'GoToSeqS5R2',
    'GoToRedBlueBall', 'GoToDoor', 'GoToObjDoor', 'Open', 'OpenRedDoor',
    'OpenDoorLoc', 'OpenRedBlueDoorsDebug', 'OpenDoorsOrderN4Debug', 'Pickup',
    'UnblockPickup', 'PickupLoc', 'PickupDistDebug', 'PickupAbove',
    'PutNextLocalS6N4', 'PutNextS7N4Carrying', 'Unlock', 'UnlockLocalDist',
    'KeyInBox', 'UnlockPickupDist', 'BlockedUnlockPickup', 'UnlockToUnlock',
    'ActionObjDoor', 'FindObjS7', 'KeyCorridorS6R3', 'OneRoomS20',
    'MoveTwoAcrossS8N9', 'SynthS5R2', 'SynthLoc', 'SynthSeq', 'MiniBossLevel',
    'BossLevel', 'BossLevelNoUnlock',
)  # fmt: skip

# Six are rows of AgentGym-RL's table: GoTo, Pickup, AOD, FindObj, OneRoom and
# SynthLoc. The other groups are by what the levels of BabyAI's paper ask for.
_GROUPS = {
    'GoTo': NAMES[:11],
    'Open': NAMES[11:16],
    'Pickup': NAMES[16:21],
    'PutNext': NAMES[21:23],
    'Unlock': NAMES[23:29],
    'AOD': ('ActionObjDoor',),
    'FindObj': ('FindObjS7',),
    'KeyCorridor': ('KeyCorridorS6R3',),
    'OneRoom': ('OneRoomS20',),
    'MoveTwoAcross': ('MoveTwoAcrossS8N9',),
    'SynthLoc': ('SynthLoc',),
    'Synth': ('SynthS5R2', 'SynthSeq'),
    'Boss': NAMES[37:],
}
GROUPS = {name: group for group, names in _GROUPS.items() for name in names}

# minigrid raised the version of this one when it mended its size.
_VERSIONS = {'GoToObjS6': 'v1'}
# Between the seed of a layout that is replaced and that of the next.
_SPARE_SEEDS = 2**24


def level_of(task_id: int) -> str:
  """The level's name of a task: ids count levels first, then seeds.

  Raises:
    EnvError: the id is negative.
  """
  if task_id < 0:
    raise EnvError(f'BabyAI has no task {task_id}; ids start at 0.')
  return NAMES[task_id % len(NAMES)]


def group_of(task_id: int) -> str:
  """The group of a task's level, as published tables name it.

  Raises:
    EnvError: the id is negative.
  """
  return GROUPS[level_of(task_id)]


def subtasks(
    *, levels: Sequence[str] | None = None, **options: Any
) -> Callable[[int], str]:
  """A function from a task to its kind.

  That is a group in `GROUPS`, or the level where `levels` names some. Levels are
  no clusters: every panel has all of them, and what varies are the layouts.
  """
  del options
  return group_of if levels is None else level_of


def seed_of(task_id: int) -> int:
  """The seed of a task within its level."""
  return task_id // len(NAMES)


def check(levels: Sequence[str] | None) -> tuple[str, ...]:
  """`levels`, or all of them for None; refuses unknown names."""
  if levels is None:
    return NAMES
  unknown = [name for name in levels if name not in NAMES]
  if unknown or not levels:
    raise ConfigError(
        f'Unknown BabyAI levels {unknown}; known: {", ".join(NAMES)}.'
        if unknown
        else 'levels is empty; name some or leave it None for all 40.'
    )
  return tuple(levels)


def load() -> Any:
  """Imports minigrid, which takes a second, and returns gymnasium.

  Raises:
    EnvError: minigrid is missing.
  """
  os.environ.setdefault('SDL_VIDEODRIVER', 'dummy')  # pygame without a screen
  try:
    import gymnasium
    import minigrid  # noqa: F401 (registers the levels)
    from minigrid.envs.babyai.core import roomgrid_level
  except ImportError as error:
    raise EnvError(
        f'BabyAI needs minigrid: pip install -r requirements.txt ({error})'
    ) from error
  # It prints each rejected layout, and our stdout is the caller's.
  vars(roomgrid_level)['print'] = lambda *args: None
  return gymnasium


def build(task_id: int) -> Any:
  """A fresh minigrid environment with task `task_id` laid out.

  Built anew for every task: minigrid keeps things between resets. A layout
  without a solution (see repairs.py) is replaced by one of a further seed.

  Raises:
    EnvError: there is no such task.
  """
  name, seed = level_of(task_id), seed_of(task_id)
  gymnasium = load()
  from agentrl.envs.babyai import repairs

  grid = _lay_out(gymnasium, name, seed)
  while name in repairs.KEY_ELSEWHERE and repairs.is_impossible(grid):
    seed += _SPARE_SEEDS
    grid = _lay_out(gymnasium, name, seed)
  if name in repairs.STRICT_ORDER:
    repairs.mend_order(grid)
  if name in repairs.STARTS_CARRYING:
    repairs.mend_hand(grid)
  _lighten(grid)
  return grid


def _lay_out(gymnasium: Any, name: str, seed: int) -> Any:
  from gymnasium.envs.registration import load_env_creator

  from agentrl.envs.babyai.reach import check_objs_reachable

  spec = gymnasium.spec(f'BabyAI-{name}-{_VERSIONS.get(name, "v0")}')
  # gymnasium.make would wrap the environment, only to be unwrapped again.
  make = load_env_creator(spec.entry_point)
  grid: Any = make(**copy.deepcopy(spec.kwargs))
  # The text is made once an action; minigrid would encode its own view after
  # every primitive step, which is most of a step's time.
  grid.gen_obs = dict
  grid.check_objs_reachable = functools.partial(check_objs_reachable, grid)
  grid.reset(seed=seed)
  return grid


def _lighten(grid: Any) -> None:
  """Lets go of what laying out needed and no step reads.

  That is over half of what a live episode would hold: walls, which have nothing
  but a colour, are one object each; of rooms only the place is asked for again,
  and nothing of spaces and the generator.
  """
  cells = grid.grid.grid
  cells[:] = [
      _wall(x.color) if x is not None and x.type == 'wall' else x for x in cells
  ]
  for room in itertools.chain.from_iterable(grid.room_grid):
    room.doors = room.door_pos = room.neighbors = room.objs = ()
  grid.action_space = grid.observation_space = grid.np_random = None


@functools.cache
def _wall(color: str) -> Any:
  from minigrid.core.world_object import Wall

  return Wall(color)
