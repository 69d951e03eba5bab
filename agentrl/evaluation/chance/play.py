"""Plays random actions and the expert on a panel, some tasks at a time."""

import collections
import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence

from agentrl import types
from agentrl.evaluation import journal
from agentrl.evaluation.chance import level as level_lib
from agentrl.evaluation.chance.level import EXPERT, RANDOM, Outcome, outcome_of
from agentrl.evaluation.evaluate import seeded
from agentrl.evaluation.results import Panel
from agentrl.rollout import collect as collect_lib, play as play_lib
from agentrl.rollout.acting import ActingPolicy
from agentrl.rollout.collect import Assignment, Play
from agentrl.rollout.environment import Environment
from agentrl.rollout.expert import Expert
from agentrl.rollout.options import (
    FULL_CONTEXT,
    NO_PLAN,
    ONE_ATTEMPT,
    AgentOptions,
    Limits,
)
from agentrl.rollout.random_policy import RandomPolicy
from agentrl.rollout.text_agent import make_text_agent
from agentrl.runtime.event_loop import EventLoop
from agentrl.types import Episode

# Episodes that are played before the clock is looked at: at first, and at most;
# twice as many as before where those were quick.
_FEWEST, _MOST = 8, 64
_QUICK_S = 1.0
_ACTING: dict[str, type[ActingPolicy]] = {
    RANDOM: RandomPolicy,
    EXPERT: Expert,
}


class Budget:
  """Seconds that may pass; what is begun is ended.

  The first part is played whatever it takes, so that a level comes to its end
  over several evaluations of any length.
  """

  def __init__(self, seconds: float):
    self._began, self._seconds = time.monotonic(), seconds
    self._rate: float | None = None  # seconds of an episode

  def allows(self, episodes: int) -> bool:
    """True if so many more are likely to fit."""
    if self._rate is None:
      return True
    passed = time.monotonic() - self._began
    return passed + self._rate * episodes <= self._seconds

  def spend(self, seconds: float, episodes: int) -> None:
    """Counts a part that took so long."""
    self._rate = seconds / episodes


@dataclasses.dataclass(frozen=True)
class Reference:
  """Plays panels without a model.

  Attributes:
    loop: runs the episodes.
    environment: whose servers offer the expert, where that is played.
    agent: the way of talking of the policy that is evaluated there.
    limits: of its episodes.
  """

  loop: EventLoop
  environment: Environment
  agent: AgentOptions
  limits: Limits

  def play(
      self,
      kind: str,
      panel: Panel,
      kept: Sequence[Outcome],
      budget: Budget,
      keep: Callable[[Sequence[Outcome]], None],
  ) -> tuple[Outcome, ...] | None:
    """Outcomes so far, in the panel's order; None: there is no such policy.

    There is none if no episode of the first part, whose tasks are from all over
    the panel, came to a first action.

    Args:
      kind: 'random' or 'expert'.
      panel: which tasks, how often.
      kept: outcomes that were played before.
      budget: when to stop.
      keep: called with the outcomes after each part.

    Raises:
      Interrupted: the user asked to stop; `keep` has what was played.
    """
    found = {outcome.key: outcome for outcome in kept}
    play = self._make_play(kind, panel)
    of_task = panel.samples * panel.attempts
    played_before = collections.Counter(task for task, _, _ in found)
    missing = [
        task
        for task in _spread(panel, -(-_FEWEST // of_task))
        if played_before[task] < of_task
    ]
    size = _FEWEST
    while missing:
      count = max(size // of_task, 1)
      tasks, missing = missing[:count], missing[count:]
      if not budget.allows(of_task * len(tasks)):
        break
      began = time.monotonic()
      played = self._episodes(play, panel, tasks)
      if failed := sorted({x.task_id for x in played if not x.valid}):
        # Without a wait between: an expert that knows no way says so at once.
        again = self._episodes(play, panel, failed)
        played = [x for x in played if x.task_id not in failed] + again
      seconds = time.monotonic() - began
      budget.spend(seconds, len(played))
      if seconds < _QUICK_S:
        size = min(2 * size, _MOST)
      if not found and all(map(_is_refused, played)):
        return None
      found |= {journal.key(x): outcome_of(x) for x in played}
      keep(_in_order(panel, found.values()))
    return _in_order(panel, found.values())

  def _make_play(self, kind: str, panel: Panel) -> Play:
    options = dataclasses.replace(
        self.agent,
        # Whatever a policy over tokens is told, these need not be.
        format=(
            'function_calling'
            if self.agent.format == 'tools'
            else self.agent.format
        ),
        template=None,
        context=FULL_CONTEXT,
        plan=NO_PLAN,
        reflect=ONE_ATTEMPT,
    )
    play = play_lib.make_play(
        self.environment,
        make_text_agent(self.environment.spec, options),
        None,
        dataclasses.replace(self.limits, save_views=False),
        acting=_ACTING[kind],
        name=kind,
        split=panel.split,
        horizon=panel.horizon,
        policy_version=0,
    )

    async def alone(assignment: Assignment) -> Episode:
      # Neither has anything to learn from the attempt before.
      return await play(assignment._replace(previous=None))

    return seeded(alone, panel.seed)

  def _episodes(
      self, play: Play, panel: Panel, tasks: Sequence[int]
  ) -> list[Episode]:
    groups = self.loop.run(
        collect_lib.collect(
            list(enumerate(tasks)),
            panel.samples,
            play,
            seed=panel.seed,
            concurrency=self.limits.concurrency,
            attempts=1,
            chain=panel.attempts,
            max_failed_share=1.0,
        )
    )
    return [episode for group in groups for episode in group.episodes]


def _spread(panel: Panel, size: int) -> list[int]:
  """The tasks of a panel, so that the first `size` are from all over it."""
  count = -(-len(panel.task_ids) // size)
  return [
      task for first in range(count) for task in panel.task_ids[first::count]
  ]


def _in_order(panel: Panel, outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
  by_place = {outcome.key: outcome for outcome in outcomes}
  return tuple(by_place[x] for x in level_lib.places(panel) if x in by_place)


def _is_refused(episode: Episode) -> bool:
  """True where the environment failed before the first action."""
  return episode.stop_reason == types.ENV_ERROR and not episode.acts
