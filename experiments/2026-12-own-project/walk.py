"""A walk through a park of 5 x 5 places, to one that is told."""

import random

from agentrl.envs.base import Independent
from agentrl.envs.dialect import Dialect
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec
from agentrl.types import StepResult

PLACES = [(x, y) for x in range(5) for y in range(5)]
MOVES = {'west': (-1, 0), 'east': (1, 0), 'south': (0, -1), 'north': (0, 1)}
TASKS = {'train': range(600, 4000), 'dev': range(300), 'test': range(300, 600)}


class Walk:
  """Begins somewhere and ends at the goal."""

  def reset(self, task_id, seed):
    chance = random.Random(f'{task_id}/{seed}')
    self._place, self._goal = chance.sample(PLACES, 2)
    return self.observation()

  def observation(self):
    x, y = (b - a for a, b in zip(self._place, self._goal, strict=True))
    east, north = ('east' if x > 0 else 'west'), ('north' if y > 0 else 'south')
    return f'The goal is {abs(x)} {east} and {abs(y)} {north}.'

  def step(self, action):
    if action in MOVES:
      moved = zip(self._place, MOVES[action], strict=True)
      self._place = tuple(min(max(a + b, 0), 4) for a, b in moved)
    there = self._place == self._goal
    return StepResult(self.observation(), float(there), there, success=there)

  def available_actions(self):
    return list(MOVES)

  def expert_action(self):
    (x, y), (goal_x, goal_y) = self._place, self._goal
    if x != goal_x:
      return 'east' if x < goal_x else 'west'
    return 'north' if y < goal_y else 'south'

  def close(self):
    pass


SPEC = EnvSpec(
    name='walk',
    dialect=Dialect(success=lambda total: total >= 1.0),
    words=Words(full='Walk to the goal.', compact='Walk.'),
    open_factory=lambda: Independent(Walk),
    list_tasks=lambda split: TASKS[split],
)
