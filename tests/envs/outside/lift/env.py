"""The lift: floors from 0, a goal, and doors that end the episode."""

from agentrl.errors import EnvError
from agentrl.types import StepResult


class Lift:

  def __init__(self, floors):
    self._floors = floors

  def reset(self, task_id, seed):
    if not 0 <= task_id < 400:
      raise EnvError(f'lift has no task {task_id}; ids are 0 to 399.')
    self._goal = task_id % self._floors
    self._floor = (task_id // self._floors + seed) % self._floors
    return f'Go to floor {self._goal}. {self._here()}'

  def step(self, action):
    over = action == 'open'
    if action in ('up', 'down'):
      floor = self._floor + (1 if action == 'up' else -1)
      self._floor = min(max(floor, 0), self._floors - 1)
      text = self._here()
    elif over:
      text = f'The doors open on floor {self._floor}.'
    elif action == 'look':
      text = f'Seen from here: floor {self._floor}.'
    else:
      text = 'Say up, down or open.'
    right = over and self._floor == self._goal
    return StepResult(
        text, float(right), over, success=right, progress=float(right)
    )

  def available_actions(self):
    return ['up', 'down', 'open', 'look']

  def expert_action(self):
    if self._floor == self._goal:
      return 'open'
    return 'up' if self._floor < self._goal else 'down'

  def close(self):
    pass

  def _here(self):
    return f'You are on floor {self._floor}.'
