"""Gymnasium's environments in words: those with discrete or text actions.

`env.options.id` names one of its registry, also of a package that registers its own.
FrozenLake, Taxi and CartPole are described; any other is by its numbers, or by a `Told`
of yours (`env.options.told=FILE.py:NAME`). A task is a seed of `reset`.
"""

import dataclasses
import functools
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentrl import plugins
from agentrl.envs import base
from agentrl.envs.adapters import seeds
from agentrl.envs.dialect import Dialect
from agentrl.envs.functions import Function, Functions
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec, is_set
from agentrl.errors import ConfigError, EnvError, one_line
from agentrl.types import StepResult

_GAMMA = 0.99  # of the expert where dynamics are tables
_SWEEPS = 500


def _rewarded(total: float, reward: float, terminated: bool) -> bool:
  del total
  return terminated and reward > 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Told:
  """The words for an environment.

  Attributes:
    goal: what it is about, with its rules.
    actions: its actions by the words for them; empty: `action N` of discrete ones, and
      any text where actions are texts.
    observe: an observation in words, from the environment and what it gave.
    success: of an ended episode, from its return, its last reward and whether it
      terminated.
    arguments: further ones of `gymnasium.make`, from the seed of a task and the option
      `kwargs`, which win; a different world for each.
    expert: a number of an action from the environment and its observation; None: one is
      found by value iteration where the environment has its dynamics as a table `P`.
  """

  goal: str
  actions: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  observe: Callable[[Any, Any], str] = lambda env, seen: _plain(seen)
  success: Callable[[float, float, bool], bool] = _rewarded
  arguments: Callable[[int, Mapping[str, Any]], Mapping[str, Any]] = (
      lambda seed, kwargs: {}
  )
  expert: Callable[[Any, Any], Any] | None = None


def _plain(seen: Any) -> str:
  """An observation by its numbers."""
  if isinstance(seen, str):
    return seen
  if isinstance(seen, Mapping):
    return '; '.join(f'{name}: {_plain(x)}' for name, x in seen.items())
  if isinstance(seen, tuple):
    return ', '.join(map(_plain, seen))
  values = seen.tolist() if hasattr(seen, 'tolist') else seen
  if isinstance(values, list):
    return f'[{", ".join(map(_plain, values))}]'
  return f'{values:.3g}' if isinstance(values, float) else str(values)


def _lake_map(seed: int, kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
  """A lake of its own for each task, as large as the map that `map_name` names.

  Raises:
    ConfigError: there is no such map.
  """
  from gymnasium.envs.toy_text import frozen_lake

  name = kwargs.get('map_name') or '4x4'
  if name not in frozen_lake.MAPS:
    raise ConfigError(
        f'env.options.kwargs: map_name={name!r} is no map of FrozenLake; known:'
        f' {", ".join(frozen_lake.MAPS)}. A lake of your own is desc.'
    )
  size = len(frozen_lake.MAPS[name])
  return {'desc': frozen_lake.generate_random_map(size, seed=seed)}


_BESIDE = {'left': (0, -1), 'down': (1, 0), 'right': (0, 1), 'up': (-1, 0)}


def _lake(env: Any, seen: Any) -> str:
  lake = env.unwrapped
  row, column = divmod(int(seen), lake.ncol)
  lines = [[cell.decode() for cell in line] for line in lake.desc]

  def cell(down: int, right: int) -> str:
    inside = 0 <= row + down < lake.nrow and 0 <= column + right < lake.ncol
    return lines[row + down][column + right] if inside else 'edge'

  # A small policy learns what is beside it from words, from the map hardly.
  beside = ', '.join(f'{name} {cell(*to)}' for name, to in _BESIDE.items())
  lines[row][column] = 'Y'
  return '\n'.join([*(' '.join(line) for line in lines), beside])


_PLACES = ('red', 'green', 'yellow', 'blue')


def _taxi(env: Any, seen: Any) -> str:
  taxi = env.unwrapped
  row, column, passenger, goal = taxi.decode(int(seen))
  where = lambda place: (
      f'{_PLACES[place]} at {taxi.locs[place][0]} {taxi.locs[place][1]}'
  )
  rider = 'in the taxi' if passenger == len(_PLACES) else where(passenger)
  return f'Taxi at {row} {column}. Passenger {rider}. To {where(goal)}.'


def _pole(env: Any, seen: Any) -> str:
  del env
  place, speed, tilt, turn = (float(x) for x in seen)
  return (
      f'Cart at {place:.2f}, speed {speed:.2f}. Pole at {tilt:.3f}, speed'
      f' {turn:.2f}.'
  )


def _balance(env: Any, seen: Any) -> int:
  del env
  place, speed, tilt, turn = (float(x) for x in seen)
  return int(0.05 * place + 0.1 * speed + tilt + 0.3 * turn > 0)


TOLD = {
    'FrozenLake-v1': Told(
        goal=(
            'Cross a frozen lake from S to G over F, and do not fall into H. Y'
            ' is where you stand, the last line says what is beside you. Moves:'
            ' left, down, right, up.'
        ),
        actions={'left': 0, 'down': 1, 'right': 2, 'up': 3},
        observe=_lake,
        arguments=_lake_map,
    ),
    'Taxi-v4': Told(
        goal=(
            'Drive a taxi on a grid of 5 rows and 5 columns with some walls: go'
            ' to the passenger, pick up, go to the goal, drop off. Places are'
            ' row and column. Moves: south, north, east, west, pick up, drop'
            ' off.'
        ),
        actions={
            'south': 0,
            'north': 1,
            'east': 2,
            'west': 3,
            'pick up': 4,
            'drop off': 5,
        },
        observe=_taxi,
    ),
    'CartPole-v1': Told(
        goal='Keep the pole on the cart upright. Push the cart left or right.',
        actions={'left': 0, 'right': 1},
        observe=_pole,
        success=lambda total, reward, terminated: not terminated,
        expert=_balance,
    ),
}


def told_of(id: str, told: str | None) -> Told:
  """The words for an environment of the registry.

  Args:
    id: of the registry.
    told: one's own, `module:NAME` or `FILE.py:NAME`; None: ours, or by its numbers.

  Raises:
    ConfigError: there is no such `Told`.
  """
  if told is not None:
    return plugins.get(told, {}, Told, 'env.options.told=')
  other = Told(goal=f'You act in {id}. You earn reward, and more is better.')
  return TOLD.get(id, other)


class Gym:
  """One environment at a time; see `base.Env`."""

  def __init__(
      self,
      id: str,
      kwargs: Mapping[str, Any] | None,
      max_steps: int | None,
      told: str | None,
  ):
    self._id, self._kwargs, self._max_steps = id, dict(kwargs or {}), max_steps
    self._told = told_of(id, told)
    self._env: Any = None

  def reset(self, task_id: int, seed: int) -> str:
    from gymnasium.utils import seeding

    base.check_task('gymnasium', task_id, seeds.COUNT)
    self.close()
    # The task is the world with its start, and the seed what chance does later.
    world = zlib.crc32(f'{self._id}/{task_id}'.encode())
    self._env = make(
        self._id,
        {**self._told.arguments(world, self._kwargs), **self._kwargs},
        self._max_steps,
    )
    self._actions = self._words_of_actions()
    self._seen, _ = self._env.reset(seed=world)
    chance = zlib.crc32(f'{task_id}/{seed}'.encode())
    self._env.unwrapped.np_random = seeding.np_random(chance)[0]
    self._total = 0.0
    return self._told.observe(self._env, self._seen)

  def _words_of_actions(self) -> Mapping[str, Any] | None:
    """The actions by their words; None: any text is one."""
    if self._told.actions:
      return self._told.actions
    space = self._env.action_space
    if hasattr(space, 'n'):
      start = int(getattr(space, 'start', 0))
      return {f'action {i}': i for i in range(start, start + int(space.n))}
    if type(space).__name__ == 'Text':
      return None
    raise EnvError(
        f'{self._id} has actions of {space}: only discrete ones and texts have'
        ' words. Name a Told of yours with env.options.told.'
    )

  def step(self, action: str) -> StepResult:
    move: Any = action
    if self._actions is not None:
      word = action.strip().lower()
      if word not in self._actions:
        return self._refuse(f'There are: {", ".join(self._actions)}.')
      move = self._actions[word]
    elif not self._env.action_space.contains(action):
      return self._refuse('It must be one of its texts.')
    self._seen, reward, terminated, truncated, _ = self._env.step(move)
    self._total += float(reward)
    success = None
    if terminated or truncated:
      success = self._told.success(self._total, float(reward), bool(terminated))
    return StepResult(
        self._told.observe(self._env, self._seen),
        float(reward),
        bool(terminated),
        truncated=bool(truncated and not terminated),
        success=success,
    )

  def _refuse(self, known: str) -> StepResult:
    """An answer to what is no action: nothing happens."""
    shown = self._told.observe(self._env, self._seen)
    return StepResult(f'This is no action. {known}\n{shown}', 0.0, False)

  def available_actions(self) -> list[str]:
    return ['{text}'] if self._actions is None else list(self._actions)

  def expert_action(self) -> str:
    if self._told.expert is not None:
      move = self._told.expert(self._env, self._seen)
    elif hasattr(self._env.unwrapped, 'P'):
      move = _plan(self._env.unwrapped)[int(self._seen)]
    else:
      raise EnvError(
          f'{self._id} has no expert: give it one in a Told of yours'
          ' (env.options.told), or train without a warm start.'
      )
    if self._actions is None:
      return str(move)
    return next(word for word, x in self._actions.items() if x == move)

  def close(self) -> None:
    if self._env is not None:
      self._env.close()
      self._env = None


def make(id: str, kwargs: Mapping[str, Any], max_steps: int | None) -> Any:
  """`gymnasium.make`, whose refusals are ours.

  Raises:
    ConfigError: there is no such environment, or it takes no such arguments.
  """
  import gymnasium

  try:
    return gymnasium.make(id, max_episode_steps=max_steps, **kwargs)
  except (gymnasium.error.Error, TypeError, ImportError) as error:
    raise ConfigError(f'env.options.id={id!r}: {one_line(error)}') from error


def _plan(table: Any) -> Sequence[int]:
  """The best action of each state where dynamics are a table (value iteration)."""
  key = tuple(
      (state, action, tuple(outcomes))
      for state, actions in table.P.items()
      for action, outcomes in actions.items()
  )
  return _best(key)


@functools.lru_cache(maxsize=256)
def _best(table: Sequence[tuple[int, int, tuple]]) -> Sequence[int]:
  values: dict[int, float] = {}
  worths: dict[int, dict[int, float]] = {}
  for _ in range(_SWEEPS):
    worths = {}
    for state, action, outcomes in table:
      worths.setdefault(state, {})[action] = sum(
          p * (r + (0.0 if over else _GAMMA * values.get(after, 0.0)))
          for p, after, r, over in outcomes
      )
    new = {state: max(found.values()) for state, found in worths.items()}
    still = all(abs(new[s] - values.get(s, 0.0)) < 1e-9 for s in new)
    values = new
    if still:
      break
  return [max(worths[s], key=worths[s].__getitem__) for s in sorted(worths)]


def _specialise(
    id: str, kwargs: Any, max_steps: int | None, told: str | None
) -> dict[str, Any]:
  del kwargs, max_steps
  found = told_of(id, told)
  functions: Functions = tuple(
      Function(word.replace(' ', '_'), (word,)) for word in found.actions
  )
  functions = functions or SPEC.functions
  return {'words': Words(full=found.goal, compact=id), 'functions': functions}


def _names_something(kwargs: Any) -> bool:
  """True unless all arguments are numbers, which name no file and no module."""
  plain = isinstance(kwargs, Mapping) and all(
      isinstance(value, int | float) for value in kwargs.values()
  )
  return bool(kwargs) and not plain


def _open(**options: Any) -> base.EnvFactory:
  kwargs = options['kwargs'] or {}
  first = told_of(options['id'], options['told']).arguments(0, kwargs)
  make(options['id'], {**first, **kwargs}, options['max_steps']).close()
  # The steps of those that are described take microseconds; others may hang.
  known = options['id'] in TOLD and options['told'] is None
  return base.independent(Gym, options, inline=('step',) if known else ())


SPEC = EnvSpec(
    name='gymnasium',
    data_version=2,
    dialect=Dialect(success=lambda total: total > 0),
    words=Words(full='You act in an environment.', compact='Act.'),
    functions=(Function('act', ('{action}',)),),
    specialise=_specialise,
    options={
        'id': 'FrozenLake-v1',
        'kwargs': None,
        'max_steps': None,
        'told': None,
    },
    meanings={
        'id': "name in Gymnasium's registry, also module:NAME-v0",
        'kwargs': 'arguments of gymnasium.make, a dict',
        'max_steps': (
            "steps of an episode, at most; None: the environment's own"
        ),
        'told': 'a Told of your own, module:NAME or FILE.py:NAME',
    },
    unsafe_options={
        'id': lambda value: ':' in value,
        'kwargs': _names_something,
        'told': is_set,
    },
    open_factory=_open,
    list_tasks=lambda split, **of_ids: seeds.SPLITS[split],
    task_options=('id', 'kwargs', 'told'),
    success=(
        'The environment ended with a reward, or, of CartPole, was survived.'
    ),
)
