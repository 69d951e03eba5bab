"""One policy on one panel; what an earlier process has played is not repeated."""

import dataclasses
from collections.abc import Callable, Mapping

import rich.console

from agentrl.errors import of_member
from agentrl.evaluation import journal as journal_lib
from agentrl.evaluation.evaluate import seeded
from agentrl.evaluation.journal import Journal, Key
from agentrl.evaluation.progress import Progress
from agentrl.evaluation.results import Panel
from agentrl.rollout import collect as collect_lib, seeds
from agentrl.rollout.collect import Assignment, Play
from agentrl.rollout.collector import Alone, Ranks
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
    member: of a mixture, which errors name; '': there is none.
    ranks: the processes that share the tasks; all get all groups.
  """

  loop: EventLoop
  console: rich.console.Console
  limits: Limits
  member: str = ''
  ranks: Ranks = Alone()

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
        was played is kept. As the first process that failed, in all.
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
    # The first process reads for all: none adds to a file before that is done.
    kept = dict(
        self.ranks.gather(
            lambda: list(
                journal.open(wanted, data_version=panel.data_version).items()
            )
        )
    )
    if kept:
      self.console.print(
          f'{title}: {len(kept)} of {len(wanted)} episodes were played before',
          highlight=False,
          markup=False,
          soft_wrap=True,
      )
    if len(kept) == len(wanted):
      return _in_order(panel, kept)
    groups = self.ranks.gather(
        lambda: self._play_own(panel, open_play, journal, kept, title)
    )
    groups = sorted(groups, key=lambda group: group.ordinal)
    journal.finish([e for group in groups for e in group.episodes])
    return groups

  def _play_own(
      self,
      panel: Panel,
      open_play: Callable[[], Play],
      journal: Journal,
      kept: Mapping[Key, Episode],
      title: str,
  ) -> list[Group]:
    """The groups of the tasks that this process plays."""
    tasks = self.ranks.own(list(enumerate(panel.task_ids)))
    own = {task for _, task in tasks}
    play = seeded(open_play(), panel.seed)

    async def play_missing(assignment: Assignment) -> Episode:
      key = assignment.task_id, assignment.replica, assignment.attempt
      episode = kept.get(key)
      return episode or await play(assignment)

    total = len(tasks) * panel.samples * panel.attempts
    done = sum(task in own for task, _, _ in kept)
    with Progress(self.console, title, total, done=done) as progress:

      def on_episode(episode: Episode) -> None:
        if journal_lib.key(episode) not in kept:
          journal.add(episode)
          progress.advance()

      with of_member(self.member):
        return self.loop.run(
            collect_lib.collect(
                tasks,
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
