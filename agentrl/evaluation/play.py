"""One policy on one panel; what an earlier process has played is not repeated."""

import dataclasses
from collections.abc import Callable, Mapping

import rich.console

from agentrl.evaluation import journal as journal_lib
from agentrl.evaluation.evaluate import seeded
from agentrl.evaluation.journal import Journal, Key
from agentrl.evaluation.progress import Progress
from agentrl.evaluation.results import Panel
from agentrl.rollout import collect as collect_lib, seeds
from agentrl.rollout.collect import Assignment, Play
from agentrl.rollout.options import Limits
from agentrl.runtime.event_loop import EventLoop
from agentrl.types import Episode, Group


@dataclasses.dataclass(frozen=True)
class Player:
  """Plays panels.

  Attributes:
    loop: runs the episodes.
    console: shows the progress.
    limits: of episodes at a time, of tries and of failures.
  """

  loop: EventLoop
  console: rich.console.Console
  limits: Limits

  def play(
      self,
      panel: Panel,
      open_play: Callable[[], Play],
      journal: Journal,
      *,
      title: str,
  ) -> list[Group]:
    """Groups in the panel's order, which `journal` then has in this order.

    Args:
      panel: which tasks, how often.
      open_play: gives what plays an episode; called if one is missing.
      journal: of this policy on this panel.
      title: of the progress.

    Raises:
      AgentrlError: too many episodes fail, or a file cannot be written; what
        was played is kept.
      Interrupted: the user asked to stop; likewise.
    """
    wanted = {
        (task, sample, attempt): seeds.of_attempt(
            panel.seed, task, sample, attempt=attempt
        )
        for task in panel.task_ids
        for attempt in range(panel.attempts)
        for sample in range(panel.samples)
    }
    kept = journal.open(wanted, data_version=panel.data_version)
    if len(kept) == len(wanted):
      return _in_order(panel, kept)
    play = seeded(open_play(), panel.seed)

    async def play_missing(assignment: Assignment) -> Episode:
      key = assignment.task_id, assignment.replica, assignment.attempt
      found = kept.get(key)
      return found or await play(assignment)

    with Progress(self.console, title, len(wanted), done=len(kept)) as progress:

      def on_episode(episode: Episode) -> None:
        if journal_lib.key(episode) not in kept:
          journal.add(episode)
          progress.advance()

      groups = self.loop.run(
          collect_lib.collect(
              list(enumerate(panel.task_ids)),
              panel.samples,
              play_missing,
              seed=panel.seed,
              concurrency=self.limits.concurrency,
              attempts=self.limits.attempts,
              chain=panel.attempts,
              max_failed_share=self.limits.max_failed_share,
              on_episode=on_episode,
          )
      )
    journal.finish([e for group in groups for e in group.episodes])
    return groups


def _in_order(panel: Panel, episodes: Mapping[Key, Episode]) -> list[Group]:
  return [
      Group(
          task,
          i,
          tuple(
              episodes[task, sample, attempt]
              for attempt in range(panel.attempts)
              for sample in range(panel.samples)
          ),
      )
      for i, task in enumerate(panel.task_ids)
  ]
