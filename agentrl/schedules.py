"""Schedules of the horizon: the most turns that an episode may take.

ScalingInter-RL (AgentGym-RL, arXiv:2509.08755) lets the horizon grow: short
episodes first, to learn to exploit what is near, longer ones later, to explore
without collapse.

A schedule is a pair of pure functions, as an optimizer is in optax: its state
is checkpointed, so a resume can neither advance twice nor stand still.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Horizon(NamedTuple):
  """`update(state, step, stats) -> (state, turns)` for rl step `step`, from 0.

  `stats` are the metrics of the step before, empty for the first. A state is
  made of JSON values.
  """

  init: Callable[[], Any]
  update: Callable[[Any, int, Mapping[str, float]], tuple[Any, int]]
  name: str  # what a person calls it

  def __repr__(self):
    return self.name


def fixed(turns: int) -> Horizon:
  """The same number of turns at every step."""
  return Horizon(
      init=lambda: None,
      update=lambda state, step, stats: (state, turns),
      name=f'fixed({turns})',
  )


def stepwise(turns: Sequence[int], every: int) -> Horizon:
  """`turns[0]` for `every` steps, then `turns[1]`, ..., then the last for good.

  With every=100: steps 0 to 99 use turns[0], 100 to 199 turns[1]. Needs no
  state: the stage follows from the step alone.
  """
  turns = tuple(turns)
  if every < 1:
    raise ValueError(f'A stage lasts at least 1 step, got every={every}.')
  return Horizon(
      init=lambda: None,
      update=lambda state, step, stats: (
          state,
          turns[min(step // every, len(turns) - 1)],
      ),
      name=f'stepwise({turns}, every={every})',
  )


# By the name that configs use: from stages and the steps of each.
HORIZONS = {
    'fixed': lambda turns, every: fixed(turns[0]),
    'stepwise': stepwise,
}
