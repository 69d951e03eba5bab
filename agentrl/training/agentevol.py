"""The loop of AgentEvol: explore, keep what went well, learn it from the base.

As in arXiv:2406.04151, algorithm 1. Round 0 learns from demonstrations alone.
Each later round plays training tasks with the policy of the round before, keeps
the episodes whose return is high enough, adds them to the demonstrations and to
what earlier rounds kept, and trains the base policy anew on all of it.
"""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, Protocol

from agentrl.data.tasks import TaskIterator
from agentrl.training.programs import Metrics
from agentrl.types import Episode, Group


@dataclasses.dataclass(frozen=True)
class LoopState:
  """The host's side of a run between two rounds; JSON values only."""

  step: int  # rounds done, round 0 included
  policy_version: int  # weight pushes so far
  tasks: dict[str, Any]  # cursor of the task iterator


class Hooks(Protocol):
  """The work that the loop leaves to its caller."""

  def explore(
      self,
      number: int,
      tasks: Sequence[tuple[int, int]],
      *,
      policy_version: int,
  ) -> list[Group]:
    """Plays groups of episodes under the current policy; may raise to stop."""

  def learn(self, number: int, kept: Sequence[Episode]) -> tuple[Any, Metrics]:
    """The base policy trained on these episodes and the demonstrations.

    Returns:
      Its parameters, and metrics. May raise to stop.
    """

  def push(self, params: Any, version: int) -> None:
    """Hands parameters to the sampler."""

  def record(
      self,
      number: int,
      values: Metrics,
      groups: Sequence[Group],
      kept: Sequence[Episode],
  ) -> None:
    """Keeps a round: the groups played (none in round 0), all episodes kept."""

  def evaluate(self, number: int, version: int) -> None:
    """Evaluates the policy after a round; the sampler has it."""

  def save(self, params: Any, loop: LoopState) -> None:
    """Writes a checkpoint."""


def train(
    loop: LoopState,
    kept: Sequence[Episode],
    *,
    num_rounds: int,
    tasks_per_round: int,
    tasks: TaskIterator,
    threshold: float,
    hooks: Hooks,
) -> LoopState:
  """Does the rounds that are left.

  Args:
    loop: after the last round done; `tasks` is where it says.
    kept: the policy's own episodes that this round trained on.
    num_rounds: rounds after round 0.
    tasks_per_round: tasks that a round explores.
    tasks: which they are.
    threshold: an episode's return has to lie above it.
    hooks: plays, learns, records, pushes, evaluates and saves.

  Returns:
    The loop state after the last round.
  """
  while loop.step <= num_rounds:
    number, version = loop.step, loop.policy_version + 1
    began = time.perf_counter()
    groups, metrics = [], {}
    if number:
      groups = hooks.explore(
          number,
          tasks.next_tasks(tasks_per_round),
          policy_version=loop.policy_version,
      )
      good = select(groups, threshold)
      kept, counts = merge(kept, good)
      played = sum(e.valid for group in groups for e in group.episodes)
      metrics = {
          'filter/share': len(good) / max(played, 1),
          'filter/selected': float(len(good)),
          **counts,
      }
    explored = time.perf_counter()
    params, learnt = hooks.learn(number, kept)
    metrics |= learnt | {
        'policy/version': float(version),
        'time/explore_s': explored - began,
        'time/learn_s': time.perf_counter() - explored,
    }
    hooks.record(number, metrics, groups, kept)
    loop = LoopState(number + 1, version, tasks.state())
    try:
      hooks.push(params, version)
      hooks.evaluate(number, version)
    finally:
      # The round is done: a resume hands its parameters over, and plays an
      # evaluation that is missing.
      hooks.save(params, loop)
  return loop


def select(groups: Sequence[Group], threshold: float) -> list[Episode]:
  """The valid episodes whose return lies above `threshold`."""
  return [
      episode
      for group in groups
      for episode in group.episodes
      if episode.valid and episode.episode_return > threshold
  ]


def merge(
    earlier: Sequence[Episode], new: Sequence[Episode]
) -> tuple[list[Episode], Metrics]:
  """The best episode of each task; of equal ones, the first.

  Args:
    earlier: one a task.
    new: any number a task.

  Returns:
    The episodes in order of their tasks' first one, and how many there are,
    are of a task that `earlier` has not, and are better than its.
  """
  best = {episode.task_id: episode for episode in earlier}
  num_tasks = len(best)
  for episode in new:
    old = best.setdefault(episode.task_id, episode)
    if episode.episode_return > old.episode_return:
      best[episode.task_id] = episode
  improved = sum(best[e.task_id] is not e for e in earlier)
  return list(best.values()), {
      'filter/kept': float(len(best)),
      'filter/new_tasks': float(len(best) - num_tasks),
      'filter/improved': float(improved),
  }
