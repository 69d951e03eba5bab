"""Schedules of the horizon: the most turns that an episode may take.

ScalingInter-RL (AgentGym-RL, arXiv:2509.08755) lets the horizon grow: short
episodes first, to learn to exploit what is near, longer ones later, to explore
without collapse.

A schedule is a pair of pure functions, as an optimizer is in optax: its state
is checkpointed, so a resume can neither advance twice nor stand still.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from agentrl import own
from agentrl.errors import ConfigError


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


# By the name that configs use: from the fields of `config.horizon`.
HORIZONS: dict[str, Callable[[Any], Horizon]] = {
    'fixed': lambda o: fixed(o.turns[0]),
    'stepwise': lambda o: stepwise(o.turns, o.every),
}


def make(options: Any) -> Horizon:
  """The schedule that `config.horizon` describes.

  Args:
    options: its fields; `kind` is a key of HORIZONS, or `module:NAME` of a
      function like theirs.

  Raises:
    ConfigError: there is no such schedule, or it is none.
  """
  kind = options.kind
  made = own.get(kind, HORIZONS, Callable, 'horizon.kind=')(options)
  if not isinstance(made, Horizon):
    raise ConfigError(
        f'{kind} gave a {type(made).__name__}: a schedule is a function from'
        ' config.horizon to an agentrl.schedules.Horizon.'
    )
  return made._replace(update=_checked(made.update, kind))


def _checked(update: Callable, kind: str) -> Callable:
  """`update`, which refuses turns that are no number of turns."""

  def checked(state, step, stats):
    state, turns = update(state, step, stats)
    if not isinstance(turns, int) or turns < 1:
      raise ConfigError(
          f'{kind} allows {turns!r} turns at step {step}: a horizon is a whole'
          ' number of at least 1.'
      )
    return state, turns

  return checked
