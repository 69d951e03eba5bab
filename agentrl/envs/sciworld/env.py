"""SciWorld: one episode of a ScienceWorld task.

Tasks, commands and observations are the simulator's, as AgentGym serves them,
and so is the end: the task is done, or lost by focusing on a wrong object, or
more than `max_moves` ticks have passed.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from agentrl.envs import base
from agentrl.envs.sciworld import (
    simulator as simulator_lib,
    tasks as task_table,
)
from agentrl.envs.sciworld.pool import Pool
from agentrl.envs.sciworld.simulator import Simulator
from agentrl.errors import ConfigError, EnvError
from agentrl.types import StepResult

SIMPLIFICATIONS = (
    'easy',  # a choice of the others that depends on the task
    'teleportAction',
    'selfWateringFlowerPots',
    'openContainers',
    'openDoors',
    'noElectricalAction',
)
_LOOK = 'look around'
# They show something and change nothing, so a plan stays valid.
_FREE = (_LOOK, 'inventory', 'task', 'help', 'objects')
_UNKNOWN = 'No known action matches that input.'
_AMBIGUOUS = 'Ambiguous request'
_MOVED = ('You move to ', 'You teleport to ')
_MOST_MOVES = 11  # of one action, which is "wait"
_LONGEST = 500  # characters of an action that are read
_MOST_BACK = 4  # actions that the expert repeats to get on its way again
_SCORINGS = ('score', 'success')

MAX_SIMULATORS = 8


class SciWorld:
  """Do an experiment in a house with rooms, things and substances.

  The reward is what an action adds to the share of the task that is done, so
  that the sum over an episode is the simulator's final score / 100. A wrong
  focus, which the simulator scores -100, ends the episode and takes back what
  was earned: the sum is 0. A failure is worth no more than idleness, and
  outside the scale of 0 to 1 it would outweigh whole episodes in a group. With
  scoring='success' the reward is 1 for the action that completes the task and 0
  for any other: where half of the score is for getting there, a policy that has
  got there is paid as well for doing nothing as for a guess that is right every
  second time.

  Progress is the score / 100, too, and so 0 after a wrong focus: nothing but
  that takes it back.

  An episode holds a simulator of the pool from its reset to its end.

  Args:
    pool: of simulators.
    tasks: names of the tasks that may be played, 'agentgym' for the 23 of the
      original, or 'all' for all 30.
    simplifications: of the world, names in SIMPLIFICATIONS; the original has
      none.
    max_moves: ticks after which the episode is truncated, as in the original;
      None: no limit. An action takes one tick or none, a wait eleven.
    scoring: 'score' or 'success', the reward.
    look: whether an action that leads to another room shows it, as `look around`
      would; the original names the room alone.
  """

  def __init__(
      self,
      pool: Pool,
      *,
      tasks: str | Sequence[str] = 'agentgym',
      simplifications: Sequence[str] = (),
      max_moves: int | None = 100,
      scoring: str = 'score',
      look: bool = False,
  ):
    self._pool = pool
    self._tasks = task_table.check(tasks)
    self._simplifications = check_simplifications(simplifications)
    if max_moves is not None and (
        not isinstance(max_moves, int) or max_moves < 1
    ):
      raise ConfigError(
          f'max_moves must be at least 1 or None, got {max_moves!r}.'
      )
    if scoring not in _SCORINGS:
      raise ConfigError(
          f'Unknown scoring {scoring!r}; known: {", ".join(_SCORINGS)}.'
      )
    if not isinstance(look, bool):
      raise ConfigError(f'look must be True or False, got {look!r}.')
    self._max_moves, self._scoring, self._look = max_moves, scoring, look
    self._lock = threading.Lock()  # of the next three
    self._simulator: Simulator | None = None
    self._busy = False
    self._closed = False
    self._task_id = -1
    self._description = ''
    self._observation = ''
    self._path: list[str] | None = None  # the expert's, once it is asked
    # Actions taken, and the place on that path that they led to.
    self._known_place = 0, 0
    self._begin()

  def reset(self, task_id: int, seed: int) -> str:
    del seed  # the variation leaves nothing to chance
    task = task_table.task_of(task_id)
    if task not in self._tasks:
      raise EnvError(
          f'SciWorld task {task_id} is {task}; this server has only'
          f' {", ".join(self._tasks)}.'
      )
    if 'noElectricalAction' in self._simplifications and (
        'power-component' in task or 'conductivity' in task
    ):
      raise EnvError(
          f'SciWorld task {task_id} is {task}, which cannot be done with'
          ' noElectricalAction; leave it out or choose another task.'
      )
    self._hold()
    self._task_id = task_id
    self._begin()
    with self._playing() as simulator:
      self._load(simulator)
      self._description = simulator.description()
      self._observation = simulator.step(_LOOK)
    return f'{self._description}\n{self._observation}'

  def details(self) -> dict[str, Any]:
    """AgentGym's further fields: score and reward are in points, 0 to 100."""
    if not self._description:
      return {}  # nothing was played yet
    before, now = self._paid()
    return {
        'task_name': task_table.task_of(self._task_id),
        'var_num': task_table.variation_of(self._task_id),
        'task_description': self._description,
        'observation': self._observation,
        'reward': now - before,
        'score': now,
    }

  def step(self, action: str) -> StepResult:
    action = _one_line(action)
    asked_back = self._observation.startswith(_AMBIGUOUS)
    with self._playing() as simulator:
      self._observation = self._act(simulator, action)
      harmless = not asked_back and (
          action in _FREE or self._observation == _UNKNOWN
      )
      self._taken.append((action, harmless))
      self._look_up_score(simulator)
      truncated = not self._over and self._out_of_moves(simulator)
    success = self._over and self._points >= 100
    before, now = self._paid()
    reward = (max(now, 0) - max(before, 0)) / 100
    if self._over or truncated:
      self._let_go()
    return StepResult(
        observation=self._observation,
        reward=reward,
        terminated=self._over,
        truncated=truncated,
        success=success,
        # Points are rounded: 99.6 are not yet all.
        progress=1.0 if success else min(max(self._points, 0), 99) / 100,
    )

  def _paid(self) -> tuple[int, int]:
    """Points paid before the last action and now."""
    before, now = self._points_before, self._points
    if self._scoring == 'success':
      return 100 * (before >= 100), 100 * (now >= 100)
    return before, now

  def available_actions(self) -> list[str]:
    with self._playing() as simulator:
      return simulator.valid_actions()

  def query(self, name: str) -> Any:
    with self._playing() as simulator:
      if name == 'goals':
        return {'goals': simulator.goals()}
      return simulator.hints()

  def expert_action(self) -> str:
    if self._path is None:
      self._path = self._plan()
    known, followed = self._known_place
    left = None
    for action, harmless in self._taken[known:]:
      if self._path[followed : followed + 1] == [action]:
        followed += 1
      elif not harmless:
        left = left or f'{action!r:.80} left after {followed}'
    if left is not None:
      place = self._way_on(self._path, followed)
      if place is None:
        raise EnvError(
            f'The expert of SciWorld task {self._task_id} knows one way, which'
            f' {left} of its actions.'
        )
      followed = place
      self._known_place = len(self._taken), place
    if followed == len(self._path):
      raise EnvError(
          f'The expert of SciWorld task {self._task_id} knows no way on after'
          f' its {followed} actions.'
      )
    return self._path[followed]

  def close(self) -> None:
    with self._lock:
      self._closed = True
      simulator, self._simulator = self._simulator, None
      busy = self._busy
    if simulator is None:
      return
    if busy:  # it would never answer
      self._pool.discard(simulator)
    else:
      self._pool.give_back(simulator)

  def _begin(self) -> None:
    """Forgets the episode before."""
    # Actions since the reset, and whether each is known to change nothing.
    self._taken: list[tuple[str, bool]] = []
    self._score = 0.0  # the simulator's, -1 or 0 to 1
    self._points = self._points_before = 0
    self._over = False
    self._moves = 0  # after _moves_known actions
    self._moves_known = 0
    self._path = None
    self._known_place = 0, 0

  def _act(self, simulator: Simulator, action: str) -> str:
    """The observation after an action."""
    seen = simulator.step(action)
    if self._look and seen.startswith(_MOVED):
      seen = f'{seen}\n{simulator.step(_LOOK)}'
    return seen

  def _look_up_score(self, simulator: Simulator) -> None:
    """Sets the points, and whether they end the episode."""
    self._points_before = self._points
    score = simulator.score()
    if score == self._score:
      return  # and so the task has not ended
    self._score, self._points = score, round(100 * score)
    if score < 0:
      crash = simulator.crash()
      if crash is not None:
        raise EnvError(
            f'The simulator broke in SciWorld task {self._task_id} before'
            f' {self._taken[-1][0]!r:.80}: {crash:.200}'
        )
    self._over = score < 0 or simulator.completed()

  def _out_of_moves(self, simulator: Simulator) -> bool:
    if self._max_moves is None:
      return False
    # To ask takes as long as a short step: only when it may be so.
    unknown = len(self._taken) - self._moves_known
    if self._moves + unknown * _MOST_MOVES > self._max_moves:
      self._moves, self._moves_known = simulator.moves(), len(self._taken)
    return self._moves > self._max_moves

  def _plan(self) -> list[str]:
    """The gold path, the episode being where it was afterwards.

    The simulator makes it only while it loads a task, from the task's start and
    in the one world that it has. The same actions lead to the same place again.
    """
    with self._playing() as simulator:
      self._load(simulator, gold_path=True)
      path = [_one_line(action) for action in simulator.gold_path()]
      self._return(simulator)
    return path

  def _way_on(self, path: list[str], followed: int) -> int | None:
    """The place on a path from which its rest still does the task; None: none.

    An action off the path may have changed nothing that matters to it, or have
    led back to an earlier place. Found by trial, the episode being where it was
    afterwards.

    Args:
      path: it.
      followed: actions of it that were taken.
    """
    found = None
    with self._playing() as simulator:
      for place in range(followed, max(followed - _MOST_BACK, 0) - 1, -1):
        self._load(simulator)
        self._return(simulator)
        for action in path[place:]:
          simulator.step(action)
        if simulator.score() >= 1:
          found = place
          break
      self._load(simulator)
      self._return(simulator)
    return found

  def _return(self, simulator: Simulator) -> None:
    """Takes the actions of the episode again, in the task that was loaded.

    Raises:
      EnvError: they led elsewhere.
    """
    observation = simulator.step(_LOOK)
    for action, _ in self._taken:
      observation = self._act(simulator, action)
    if observation != self._observation:
      raise EnvError(
          f'SciWorld task {self._task_id} did not come back to where it was'
          f' after {len(self._taken)} actions: {observation!r:.200}'
      )

  def _load(self, simulator: Simulator, *, gold_path: bool = False) -> None:
    simulator.load(
        task_table.task_of(self._task_id),
        task_table.variation_of(self._task_id),
        self._simplifications,
        gold_path=gold_path,
    )

  def _hold(self) -> None:
    """Takes a simulator, unless the episode before has left one."""
    with self._lock:
      held = self._simulator is not None or self._closed
    simulator = None if held else self._pool.take()  # may take seconds
    with self._lock:
      if simulator is not None and not self._closed:
        self._simulator, simulator = simulator, None
    if simulator is not None:  # closed meanwhile
      self._pool.give_back(simulator)

  def _let_go(self) -> None:
    with self._lock:
      simulator, self._simulator = self._simulator, None
    if simulator is not None:
      self._pool.give_back(simulator)

  @contextlib.contextmanager
  def _playing(self) -> Iterator[Simulator]:
    """The simulator for some calls; after one that fails, it is replaced.

    Raises:
      EnvError: the episode does not run.
    """
    with self._lock:
      simulator = self._simulator
      self._busy = simulator is not None
    if simulator is None:
      raise EnvError('The SciWorld episode is not running; reset it first.')
    try:
      yield simulator
    except BaseException:
      with self._lock:
        self._simulator = None
      self._pool.discard(simulator)
      raise
    finally:
      with self._lock:
        self._busy = False


def open_factory(
    *,
    simulators: int | None = None,
    simulator_episodes: int = 500,
    simulator_bytes: int = 600 * 2**20,
    **options: Any,
) -> base.Independent:
  """The factory of `SciWorld`: they share simulators.

  Args:
    simulators: most at a time, each a process of up to 600 MB; None: two for
      each processor, at most 8. So many episodes play at a time.
    simulator_episodes: tasks after which a simulator is replaced.
    simulator_bytes: or when it holds more memory at the end of an episode.
    **options: of every episode, see `SciWorld`.
  """
  if simulators is None:
    simulators = min(2 * (os.cpu_count() or 1), MAX_SIMULATORS)
  for name, value in (
      ('simulators', simulators),
      ('simulator_episodes', simulator_episodes),
      ('simulator_bytes', simulator_bytes),
  ):
    if not isinstance(value, int) or value < 1:
      raise ConfigError(f'{name} must be at least 1, got {value!r}.')
  simulator_lib.load()  # what is missing is missed now
  pool = Pool(
      simulators, max_episodes=simulator_episodes, max_bytes=simulator_bytes
  )
  make = functools.partial(SciWorld, pool, **options)
  make()  # so are wrong options
  return base.Independent(
      make,
      slots=simulators,
      threads=simulators,
      gauges=pool.gauges,
      close=pool.close,
  )


def check_simplifications(names: Sequence[str]) -> str:
  """The simulator's word for `names`; refuses unknown ones."""
  if isinstance(names, str):
    raise ConfigError(f'simplifications must be a list, got {names!r}.')
  if 'easy' in names and len(names) > 1:
    raise ConfigError(f"'easy' stands alone, got simplifications {names!r}.")
  unknown = [name for name in names if name not in SIMPLIFICATIONS]
  if unknown:
    raise ConfigError(
        f'Unknown simplifications {unknown}; known:'
        f' {", ".join(SIMPLIFICATIONS)}.'
    )
  return ','.join(names)


def _one_line(action: str) -> str:
  """`action` as the simulator can read it."""
  # Half a character, which JSON can say, would not go over the wire.
  return ' '.join(action[:_LONGEST].encode(errors='replace').decode().split())
