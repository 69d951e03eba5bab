"""Collections of a run that plays on while its policy is updated.

Groups are admitted, finish, and are trained on by the rule of `pipeline`. What an
episode is, its task, its horizon and its seed, is fixed when its group is
admitted, so that a resumed run plays the same.

In a run of several processes each holds the same pipeline and plays its share of
the groups. While a step waits for its batch, they tell each other several times a
second which groups have ended; who plays a slow one keeps no other from admitting
and playing.
"""

import asyncio
import concurrent.futures
import dataclasses
import functools
import pathlib
import statistics
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from agentrl.errors import AgentrlError
from agentrl.rollout import collect as collect_lib, pipeline as pipeline_lib
from agentrl.rollout.collector import Alone, Ranks
from agentrl.rollout.group_files import GroupFiles
from agentrl.rollout.pipeline import Pipeline
from agentrl.rollout.sources import Collection, Share, Sources
from agentrl.rollout.supply import Supply
from agentrl.runtime.event_loop import EventLoop, Interrupted
from agentrl.types import Group, Turns

# Longest time between two exchanges of processes, while a step waits.
_EXCHANGE_S = 0.1
# Finished groups that no step has trained on yet, in the workdir.
FOLDER = pathlib.Path('episodes', 'ahead')


class Admission(NamedTuple):
  """A group that is to be played.

  Attributes:
    number: in the order of admission, over all sources.
    round: the collection that its task was drawn for, from 0; seeds it.
    name: of its source.
    ordinal: of its task in that source's order.
    task_id: its task.
    horizon: turns of an episode, at most; of `Turns` each draws its own.
    policy_version: at its admission; later turns are sampled by later ones.
  """

  number: int
  round: int
  name: str
  ordinal: int
  task_id: int
  horizon: int | Turns
  policy_version: int


Play = Callable[[Admission], Coroutine[Any, Any, Group]]


@dataclasses.dataclass(frozen=True)
class Settings:
  """Limits of playing ahead of the learner.

  Attributes:
    depth: collections that are admitted ahead.
    bound: versions that a group may be old when it is trained on.
    groups: of a collection.
    episodes: of a collection.
    rounds: collections of the whole run.
    replaced: groups of equal returns of a collection that another task replaces,
      at most. They leave with the next batch, besides its groups.
    max_failed_share: of the episodes of a batch, and of those that are admitted
      and not used, see `rollout.collect`.
  """

  depth: int
  bound: int
  groups: int
  episodes: int
  rounds: int
  max_failed_share: float
  replaced: int = 0


class Ahead(Supply):
  """Groups of a run between their admission and their use."""

  plays_on = True

  def __init__(
      self,
      sources: Sources,
      play: Play,
      loop: EventLoop,
      settings: Settings,
      workdir: pathlib.Path | None,
      ranks: Ranks | None = None,
  ):
    """Starts with nothing admitted.

    Args:
      sources: give tasks and horizons.
      play: plays a group; no more episodes at a time than it allows.
      loop: in which groups are played, whenever it runs.
      settings: of the run.
      workdir: keeps finished groups for a resume; None: another process does.
      ranks: the processes that share the groups, and make the same calls; None:
        there are no others.
    """
    self._sources, self._play, self._loop = sources, play, loop
    self._settings, self._ranks = settings, ranks or Alone()
    self._exchange_s = _EXCHANGE_S if ranks else None
    self._files = None if workdir is None else GroupFiles(workdir / FOLDER)
    self._pipeline = Pipeline()
    self._rounds = 0  # admitted
    self._admitted: dict[int, Admission] = {}
    self._groups: dict[int, Group] = {}  # finished
    self._replaced: list[int] = []  # of these: they wait for the next batch
    self._tasks: dict[int, asyncio.Task[Group]] = {}
    self._idle_s = 0.0
    self._idle_since: float | None = None  # the last time that none was played

  def collect(
      self,
      step: int,
      horizon: Any,
      stats: Mapping[str, float],
      policy_version: int,
  ) -> tuple[Any, Collection]:
    """The next state of the schedules, and the groups of a step.

    Schedules see what the last step trained on. The horizon that follows is that
    of the groups which are admitted now, most of them trained on `depth` steps
    later: so much later does each stage begin than in a run that waits.

    Raises:
      AgentrlError: too many episodes failed.
      Interrupted: the user asked to stop.
    """
    assert step == self._pipeline.version
    settings = self._settings
    self._sources.see(step, stats)
    free = pipeline_lib.vacancies(
        self._pipeline, depth=settings.depth, per_batch=settings.groups
    )
    end = self._rounds + free // settings.groups  # whole collections, as it is
    rounds = range(self._rounds, min(end, settings.rounds))
    horizon, turns = self._sources.horizons(horizon, step, stats, rounds)
    for number in rounds:
      for share in self._sources.draw(number, turns):
        self._admit(number, share, policy_version)
    # Beyond `settings.rounds` after a resume of a run that is shorter now.
    self._rounds = max(self._rounds, rounds.stop)
    chosen = self._next_batch(policy_version)
    self._pipeline = pipeline_lib.consume(self._pipeline, chosen)
    leaving, self._replaced = sorted((*chosen, *self._replaced)), []
    used = [
        (self._admitted.pop(number), self._groups.pop(number))
        for number in leaving
    ]
    return horizon, self._sources.collection(
        [(x.name, x.horizon, group) for x, group in used],
        self._metrics([policy_version - x.policy_version for x, _ in used])
        | token_staleness([group for _, group in used], policy_version),
    )

  def state(self) -> dict[str, Any]:
    """The state for `restore`; JSON values. Writes the groups that ended."""
    self._take(self._ended)
    written = [] if self._files is None else self._files.write(self._groups)
    return {
        'tasks': self._sources.cursor(),
        'rounds': self._rounds,
        'pipeline': self._pipeline.state(),
        'replaced': self._replaced,
        'admitted': [list(self._admitted[n]) for n in sorted(self._admitted)],
        'written': written,
    }

  def restore(self, state: Mapping[str, Any]) -> None:
    """Goes to where `state()` was taken.

    Finished groups come from their files. Others, those whose file is not as it
    was written, and those that the infrastructure failed are played again from
    their seeds, as if admitted when they were.

    Raises:
      DataError: it was taken with other tasks or another seed.
    """
    self._sources.restore(state['tasks'])
    self._rounds = state['rounds']
    self._pipeline = pipeline_lib.restore(state['pipeline'])
    for number, *rest in state['admitted']:
      *start, turns, version = rest
      horizon = Turns(*turns) if isinstance(turns, list) else turns
      self._admitted[number] = Admission._make(
          [number, *start, horizon, version]
      )
    finished = [*self._pipeline.done, *state['replaced']]
    # Runs of earlier versions have no sums.
    sums = dict(state.get('written', ()))
    files = self._files
    found = self._ranks.gather(
        lambda: [] if files is None else files.load(finished, sums)
    )
    for number, episodes in found:
      admission = self._admitted[number]
      self._groups[number] = Group(
          admission.task_id, admission.ordinal, episodes
      )
    # They teach nothing: one that is not loaded is not played again.
    self._replaced = [n for n in state['replaced'] if n in self._groups]
    done = {n: s for n, s in self._pipeline.done.items() if n in self._groups}
    running = {
        n: s for n, s in self._pipeline.unconsumed.items() if n not in done
    }
    self._pipeline = dataclasses.replace(
        self._pipeline, running=running, done=done
    )

  def saved(self) -> None:
    """Removes files that no checkpoint needs; called when one was begun.

    At the end of a run it is called once more: the last is complete then.
    """
    if self._files is not None:
      self._files.retire()

  def close(self) -> None:
    """Ends the episodes that are played, also after a signal."""
    self._loop.cancel(self._tasks.values())

  def _admit(self, round_: int, share: Share, policy_version: int) -> None:
    """Admits the tasks of a share."""
    first = self._pipeline.next_number
    numbers = range(first, first + len(share.tasks))
    for number, (ordinal, task_id) in zip(numbers, share.tasks, strict=True):
      self._admitted[number] = Admission(
          *(number, round_, share.name, ordinal, task_id, share.horizon),
          policy_version,
      )
    self._pipeline = pipeline_lib.admit(self._pipeline, len(numbers))

  def _next_batch(self, policy_version: int) -> tuple[int, ...]:
    """Plays what is admitted until a batch is ready.

    Raises:
      AgentrlError: too many episodes of the batch or of all unused groups
        failed, or playing one raised.
      Interrupted: the user asked to stop.
    """
    if self._idle_since is not None and self._is_idle():
      now = time.monotonic()
      self._idle_s += now - self._idle_since
      self._idle_since = now  # where nothing is left to play, from here on
    settings = self._settings
    limit_s: float | None = 0.0
    while True:
      self._start()
      self._take(functools.partial(self._played, limit_s))
      self._replace_ties(policy_version)
      self._check_failures(self._groups, collections=settings.depth + 1)
      chosen = pipeline_lib.ready(
          self._pipeline, bound=settings.bound, per_batch=settings.groups
      )
      if chosen is not None:
        # A dead environment fails batch after batch: each would leave before
        # the failures of several collections have come together.
        self._check_failures(chosen, collections=1)
        self._start()  # those that have replaced others
        return chosen
      limit_s = self._exchange_s

  def _check_failures(
      self, numbers: Iterable[int], *, collections: int
  ) -> None:
    """Refuses finished groups of so many collections if too many have failed.

    Raises:
      AgentrlError: as `rollout.collect`.
    """
    collect_lib.check_failures(
        [e for number in numbers for e in self._groups[number].episodes],
        self._settings.episodes * collections,
        self._settings.max_failed_share,
    )

  def _start(self) -> None:
    """Lets what is admitted be played whenever the event loop runs."""
    for number in sorted(self._pipeline.running.keys() - self._tasks.keys()):
      if number in self._ranks.own(range(number + 1)):
        task = self._loop.start(self._play(self._admitted[number]))
        task.add_done_callback(self._note_idle)
        self._tasks[number] = task

  async def _play_on(self, limit_s: float | None) -> list[tuple[int, Group]]:
    """The groups of this process that have ended; waits for one.

    A group ends by its deadlines at the latest, with episodes or an error.

    Args:
      limit_s: seconds of waiting, at most.
    """
    if self._tasks:
      await asyncio.wait(
          self._tasks.values(),
          timeout=limit_s,
          return_when=asyncio.FIRST_COMPLETED,
      )
    else:
      assert limit_s is not None  # others play what is waited for
      await asyncio.sleep(limit_s)
    for failed in filter(asyncio.Task.done, self._tasks.values()):
      failed.result()  # raises
    return self._ended()

  def _played(self, limit_s: float | None) -> list[tuple[int, Group]]:
    return self._loop.run(self._play_on(limit_s))

  def _ended(self) -> list[tuple[int, Group]]:
    """The groups of this process that have ended; errors are left."""
    ended = [
        (number, task.result())
        for number, task in self._tasks.items()
        if task.done() and not task.cancelled() and task.exception() is None
    ]
    for number, _ in ended:
      del self._tasks[number]
    return ended

  def _take(self, ended: Callable[[], list[tuple[int, Group]]]) -> None:
    """Takes what has ended, in all processes.

    Raises:
      AgentrlError: as the first process that failed; it is raised in all.
      Interrupted: one of them was asked to stop.
    """
    own: concurrent.futures.Future[list[tuple[int, Group]]] = (
        concurrent.futures.Future()
    )
    try:
      own.set_result(ended())
    except (AgentrlError, Interrupted) as error:
      own.set_exception(error)
    # Episodes are played while processes wait for each other.
    gathered = self._loop.beside(lambda: self._ranks.gather(own.result))
    for number, group in sorted(gathered, key=lambda pair: pair[0]):
      self._groups[number] = group
      self._pipeline = pipeline_lib.finish(self._pipeline, number)

  def _replace_ties(self, policy_version: int) -> None:
    """Admits another task of its source for each group of equal returns."""
    for number in sorted(self._pipeline.done):
      if len(self._replaced) >= self._settings.replaced:
        return
      if collect_lib.is_tied(self._groups[number]):
        tied = self._admitted[number]
        self._pipeline = pipeline_lib.release(self._pipeline, number)
        self._replaced.append(number)
        share = self._sources.draw_one(tied.name, tied.horizon)
        self._admit(tied.round, share, policy_version)

  def _is_idle(self) -> bool:
    return all(task.done() for task in self._tasks.values())

  def _note_idle(self, task: asyncio.Task[Group]) -> None:
    del task
    if self._is_idle():
      self._idle_since = time.monotonic()

  def _metrics(self, staleness: Sequence[int]) -> dict[str, float]:
    idle_s, self._idle_s = self._idle_s, 0.0
    waiting = [e for group in self._groups.values() for e in group.episodes]
    return {
        'rollout/staleness_mean': float(statistics.fmean(staleness)),
        'rollout/staleness_max': float(max(staleness)),
        'rollout/ahead_running': float(len(self._pipeline.running)),
        'rollout/ahead_done': float(len(self._groups)),
        'rollout/ahead_tokens': float(
            sum(sum(episode.completion_mask) for episode in waiting)
        ),
        'time/sampler_idle_s': idle_s,
    }


def token_staleness(
    groups: Sequence[Group], policy_version: int
) -> dict[str, float]:
  """Versions by which the sampled tokens are older than the policy, on average.

  Args:
    groups: that are trained on.
    policy_version: that is about to be updated.
  """
  ages: list[tuple[int, int]] = []  # versions, tokens
  for group in groups:
    for episode in filter(lambda episode: episode.valid, group.episodes):
      for turn in episode.turns:
        for version, count in turn.sampled_by:
          ages.append((policy_version - int(version), count))
  total = sum(count for _, count in ages)
  if not total:
    return {}
  return {
      'rollout/token_staleness_mean': sum(a * n for a, n in ages) / total,
      'rollout/token_staleness_max': float(max(a for a, n in ages if n)),
  }
