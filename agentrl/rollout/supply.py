"""The groups of each step: played when they are needed, or ahead of it."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from agentrl.rollout.sources import Collection, Share, Sources
from agentrl.types import Group


class Supply(Protocol):
  """Gives an rl loop its collections: `InTurns`, `ahead.Ahead`, `recorded.Recorded`.

  Attributes:
    plays_on: True if episodes are played while the policy is updated.
  """

  plays_on: ClassVar[bool] = False

  def collect(
      self,
      step: int,
      horizon: Any,
      stats: Mapping[str, float],
      policy_version: int,
  ) -> tuple[Any, Collection]:
    """The next state of the schedules, and the groups of a step.

    Args:
      step: rl step, from 0; one after the other.
      horizon: state of the schedules.
      stats: what they see.
      policy_version: of the sampler, now.
    """

  def state(self) -> dict[str, Any]:
    """The state for `restore`; JSON values."""

  def restore(self, state: Mapping[str, Any]) -> None:
    """Goes to where `state()` was taken.

    Raises:
      DataError: it was taken with other tasks or another seed.
    """

  def saved(self) -> None:
    """Called when a checkpoint was begun, and once more when the last is done."""
    return None  # most keep nothing for a checkpoint


class InTurns(Supply):
  """Plays the groups of a step while nothing is learnt."""

  def __init__(
      self,
      sources: Sources,
      play: Callable[..., list[list[Group]]],
      *,
      rounds: int,
  ):
    """Keeps the parts.

    Args:
      sources: give tasks and horizons.
      play: `play(step, shares, policy_version=)` gives the groups of each share.
      rounds: see `Sources.collect`.
    """
    self._sources, self._play, self._rounds = sources, play, rounds

  def collect(self, step, horizon, stats, policy_version):
    self._sources.see(step, stats)
    horizon, turns = self._sources.horizons(horizon, step, stats)
    play: Callable[[Sequence[Share]], list[list[Group]]] = functools.partial(
        self._play, step, policy_version=policy_version
    )
    return horizon, self._sources.collect(step, turns, play, self._rounds)

  def state(self):
    return self._sources.cursor()

  def restore(self, state):
    self._sources.restore(state)
