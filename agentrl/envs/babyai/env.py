"""BabyAI: one episode of a minigrid level, in words.

The actions and rules are those of AgentGym's BabyAI, less its defects: an
episode ends at its first success or at minigrid's own step limit and cannot be
rewarded twice, "pick up" works as its prompt says, and the tasks that minigrid
lays out so that nobody can do them can be done (see repairs.py).
"""

from collections.abc import Sequence
from typing import Any

from agentrl.envs.babyai import (
    levels as level_table,
    picture,
    progress as progress_lib,
    text,
    view,
)
from agentrl.errors import ConfigError, EnvError
from agentrl.types import StepResult

CHECK = 'check available actions'
_SHOWN = 80  # characters of an action that an error repeats


class BabyAI:
  """Follow an instruction in a grid of rooms, seen from where one stands.

  A macro action ("go to red ball 1") runs primitive steps along a shortest walk
  over the cells in view. The reward is minigrid's, at success: 1 - 0.9 * share
  of the step limit used, where every primitive step counts.

  Progress is the share of the instruction's parts that are done (progress.py).

  Args:
    levels: names of the levels that tasks may be of; None allows all 40.
    style: 'full' or 'compact' observations (see text.py).
    expert_macros: whether the expert says "go to X" and the like where it can,
      or primitive actions only.
  """

  def __init__(
      self,
      *,
      levels: Sequence[str] | None = None,
      style: str = 'full',
      expert_macros: bool = True,
  ):
    if style not in text.STYLES:
      raise ConfigError(
          f'Unknown style {style!r}; known: {", ".join(text.STYLES)}.'
      )
    self._levels = level_table.check(levels)
    level_table.load()  # now, not within the first reset
    self._style = style
    self._expert_macros = expert_macros
    self._grid: Any = None
    self._task_id = -1
    self._taken: list[int] = []  # primitives since the reset
    self._actions: dict[str, tuple[int, ...]] = {}
    self._expert: Any = None

  def reset(self, task_id: int, seed: int) -> str:
    del seed  # the task's own seed leaves nothing to chance
    level = level_table.level_of(task_id)
    if level not in self._levels:
      raise EnvError(
          f'BabyAI task {task_id} is of level {level}; this server has only'
          f' {", ".join(self._levels)}.'
      )
    self._grid = level_table.build(task_id)
    self._task_id = task_id
    self._taken = []
    self._expert = None
    return text.goal(self._grid.mission, self._style) + self._look()

  def step(self, action: str) -> StepResult:
    if action not in self._actions:
      action = text.normalise(action)
    primitives = self._actions.get(action)
    if primitives is None:
      return StepResult(
          self._explain(action),
          0.0,
          False,
          success=False,
          progress=progress_lib.share_done(self._grid.instrs),
      )
    reward, terminated, truncated = 0.0, False, False
    for primitive in primitives:
      _, reward, terminated, truncated, _ = self._grid.step(primitive)
      self._taken.append(primitive)
      if terminated or truncated:
        break
    success = terminated and reward > 0
    return StepResult(
        observation=self._look(),
        reward=float(reward) if success else 0.0,
        terminated=terminated,
        # A success on the very last step is a success.
        truncated=truncated and not terminated,
        success=success,
        progress=(
            1.0 if success else progress_lib.share_done(self._grid.instrs)
        ),
    )

  def available_actions(self) -> list[str]:
    return [*self._actions, CHECK]

  def picture(self) -> bytes:
    """The whole grid, the agent's view lit, as a PNG file."""
    return picture.png(self._grid)

  def expert_action(self) -> str:
    if self._expert is None:
      from agentrl.envs.babyai.expert import BabyAIExpert

      self._expert = BabyAIExpert(self._task_id, macros=self._expert_macros)
    return self._expert.action(self._taken)

  def close(self) -> None:
    self._grid = None
    self._expert = None

  def _look(self) -> str:
    seen = view.look(self._grid)
    self._actions = view.actions(seen)
    return text.describe(seen, self._style) + self._choices()

  def _explain(self, action: str) -> str:
    """The answer to an action that does nothing."""
    if 'check' in action:
      return f'You can: {", ".join(self.available_actions())}.'
    return f'You cannot do {action[:_SHOWN]!r} now.{self._choices()}'

  def _choices(self) -> str:
    if self._style == 'compact':
      return ''
    return text.action_list(self.available_actions())
