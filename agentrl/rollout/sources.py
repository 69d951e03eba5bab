"""The environments of a run as its loop sees them: tasks, quotas, horizons.

A run of one environment is a mixture of one source without a name: there is one
path. Its cursor, its horizon and its metrics stand by themselves; those of
several sources stand under their names.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from agentrl.data.quotas import Quotas
from agentrl.data.tasks import Tasks
from agentrl.rollout import collect
from agentrl.rollout.collect import is_tied
from agentrl.schedules import Horizon
from agentrl.types import Group, Turns

_PLAYED = 'rollout/episodes'  # a metric of each source that played


class Share(NamedTuple):
  """The part of a collection that one source plays.

  Attributes:
    name: of the source.
    tasks: (ordinal, task id) of each group.
    horizon: turns of an episode, at most; of `Turns` each draws its own.
  """

  name: str
  tasks: list[tuple[int, int]]
  horizon: int | Turns


PlayShares = Callable[[Sequence[Share]], list[list[Group]]]


@dataclasses.dataclass(frozen=True)
class Source:
  """An environment's tasks and their horizon.

  Attributes:
    tasks: in an order that a cursor resumes.
    schedule: gives the horizon of each step.
    name: '' where the run has no other.
    weight: of its tasks among those of all sources.
  """

  tasks: Tasks
  schedule: Horizon
  name: str = ''
  weight: float = 1.0


class Sources:
  """All environments of a run."""

  def __init__(
      self,
      sources: Sequence[Source],
      tasks_per_step: int,
      *,
      in_turns: bool = True,
  ):
    """Starts at the first task of each.

    Args:
      sources: of distinct names; '' names the only one.
      tasks_per_step: groups of a step, of all sources.
      in_turns: True where each step trains on the tasks that it draws: a
        source's schedule and order see its metrics when it plays again. False
        where groups are played ahead: other sources may be trained on than
        drawn, and all see the metrics of a step at the next one.
    """
    self._in_turns = in_turns
    self._sources = {source.name: source for source in sources}
    self._quotas = Quotas([s.weight for s in sources], tasks_per_step)

  def cursor(self) -> dict[str, Any]:
    """The state for `restore`; JSON values."""
    return self._state({k: s.tasks.state() for k, s in self._sources.items()})

  def restore(self, cursor: Mapping[str, Any]) -> None:
    """Goes to where `cursor()` was taken.

    Raises:
      DataError: it was taken with other tasks or another seed.
    """
    cursors = self._states(cursor)
    for name, source in self._sources.items():
      source.tasks.restore(cursors[name])

  def see(self, step: int, stats: Mapping[str, float]) -> None:
    """Lets the orders of tasks see the metrics that the schedules see.

    Args:
      step: rl step, from 0; called once for each, before `collect`.
      stats: from `remember`.
    """
    names = self._drawn([step]) if self._in_turns else {*self._sources}
    for name in names:
      self._sources[name].tasks.see(_own_stats(name, stats))

  def first_horizon(self) -> Any:
    """The state of the schedules before the first step; JSON values."""
    return self._state({k: s.schedule.init() for k, s in self._sources.items()})

  def horizons(
      self,
      state: Any,
      step: int,
      stats: Mapping[str, float],
      rounds: Sequence[int] | None = None,
  ) -> tuple[Any, dict[str, int | Turns]]:
    """The next state of the schedules, and the turns of the sources that play.

    A schedule sees the metrics of each of its source's collections once. In turns
    it stands still at a step that has no task of its source.

    Args:
      state: of the schedules.
      step: rl step, from 0.
      stats: from `remember`.
      rounds: whose tasks are drawn at this step; None: its own.
    """
    states, turns = self._states(state), {}
    drawn = self._drawn([step] if rounds is None else rounds)
    for name, source in self._sources.items():
      if name in drawn or not self._in_turns:
        own = _of_stage(source.schedule, states[name], _own_stats(name, stats))
        states[name], most = source.schedule.update(states[name], step, own)
        if name in drawn:
          turns[name] = most
    return self._state(states), turns

  def draw(self, number: int, turns: Mapping[str, int | Turns]) -> list[Share]:
    """The tasks of a round: those that a step has where no group is replaced.

    Args:
      number: of the round, from 0; one after the other.
      turns: of each source that plays, at most.
    """
    return self._draw(self._quotas_at(number), turns)

  def draw_one(self, name: str, turns: int | Turns) -> Share:
    """The next task of a source, in place of another one.

    Args:
      name: of the source.
      turns: of an episode, at most.
    """
    return Share(name, self._sources[name].tasks.next_tasks(1), turns)

  def collection(
      self,
      groups: Sequence[tuple[str, int | Turns, Group]],
      metrics: Mapping[str, float],
  ) -> 'Collection':
    """The groups of a step that were played in several rounds.

    Args:
      groups: with their sources and their horizons.
      metrics: of their playing.
    """
    by_source: dict[str, list[Group]] = {name: [] for name in self._sources}
    turns: dict[str, int | Turns] = {}
    for name, horizon, group in groups:
      by_source[name].append(group)
      if name not in turns or _most(horizon) > _most(turns[name]):
        turns[name] = horizon
    quotas = {name: len(played) for name, played in by_source.items()}
    return Collection(
        quotas, turns, by_source, {**self._order_metrics(by_source), **metrics}
    )

  def collect(
      self,
      step: int,
      turns: Mapping[str, int | Turns],
      play: PlayShares,
      rounds: int,
  ) -> 'Collection':
    """The groups of a step; more than its quotas where ties are replaced.

    Args:
      step: rl step, from 0.
      turns: of each source that plays, at most.
      play: plays groups for the tasks of each share.
      rounds: collections at most; after the first, tasks of a source replace
        groups of equal returns of the same source.
    """
    quotas = self._quotas_at(step)
    groups: dict[str, list[Group]] = {name: [] for name in quotas}
    for _ in range(rounds):
      missing = {
          name: quotas[name] - sum(not is_tied(group) for group in of_source)
          for name, of_source in groups.items()
      }
      shares = self._draw(missing, turns)
      if not shares:
        break
      for share, played in zip(shares, play(shares), strict=True):
        groups[share.name] += played
    return Collection(quotas, dict(turns), groups, self._order_metrics(groups))

  def remember(
      self, stats: Mapping[str, float], metrics: Mapping[str, float]
  ) -> dict[str, float]:
    """Metrics for the schedules: of each source those that it has not seen.

    Args:
      stats: what they saw, those that stood still excepted.
      metrics: of the step since then.
    """
    if not self._in_turns:
      return dict(metrics)
    idle = {
        name for name in self._sources if f'{name}/{_PLAYED}' not in metrics
    }
    old = {k: v for k, v in stats.items() if k.partition('/')[0] in idle}
    return old | dict(metrics)

  def _draw(
      self, counts: Mapping[str, int], turns: Mapping[str, int | Turns]
  ) -> list[Share]:
    """The next tasks of the sources of which some are wanted."""
    return [
        Share(name, self._sources[name].tasks.next_tasks(count), turns[name])
        for name, count in counts.items()
        if count > 0
    ]

  def _order_metrics(
      self, by_source: Mapping[str, Sequence[Group]]
  ) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for name, groups in by_source.items():
      if groups:
        ordinals = [group.ordinal for group in groups]
        own = self._sources[name].tasks.metrics(ordinals)
        metrics |= {f'{name}/{k}' if name else k: v for k, v in own.items()}
    return metrics

  def _drawn(self, rounds: Iterable[int]) -> set[str]:
    """The sources of which tasks are drawn in one of these rounds."""
    return {
        name
        for number in rounds
        for name, quota in self._quotas_at(number).items()
        if quota
    }

  def _quotas_at(self, step: int) -> dict[str, int]:
    return dict(zip(self._sources, self._quotas.at(step), strict=True))

  def _state(self, states: dict[str, Any]) -> Any:
    return states[''] if '' in states else states

  def _states(self, state: Any) -> dict[str, Any]:
    return {'': state} if '' in self._sources else dict(state)


@dataclasses.dataclass(frozen=True)
class Collection:
  """The groups of a step, by source.

  Attributes:
    quotas: tasks that the step has of each source.
    turns: that an episode of each could take.
    by_source: groups that were played, by name.
    further: metrics of the orders of tasks, and of playing ahead.
  """

  quotas: dict[str, int]
  turns: dict[str, int | Turns]
  by_source: dict[str, list[Group]]
  further: dict[str, float]

  @property
  def groups(self) -> list[Group]:
    """All groups, source after source."""
    return [group for groups in self.by_source.values() for group in groups]

  def metrics(self) -> dict[str, float]:
    """`rollout/...` of all groups; of each named source also `NAME/...`.

    Where horizons differ, `rollout/horizon` is the largest that was allowed.
    """
    most = {name: _most(turns) for name, turns in self.turns.items()}
    played = [name for name, groups in self.by_source.items() if groups]
    metrics = collect.rollout_metrics(
        self.groups, max(most[name] for name in played)
    )
    metrics |= self.further
    for name in filter(None, self.by_source):
      metrics[f'{name}/quota'] = float(self.quotas[name])
    for name in filter(None, played):
      own = collect.rollout_metrics(self.by_source[name], most[name])
      metrics |= {f'{name}/{key}': value for key, value in own.items()}
    return metrics


def _most(turns: int | Turns) -> int:
  return turns if isinstance(turns, int) else turns.high


def _own_stats(name: str, stats: Mapping[str, float]) -> dict[str, float]:
  """Metrics as they would be in a run of this source alone."""
  if not name:
    return dict(stats)
  start = f'{name}/'
  rest = {k: v for k, v in stats.items() if not k.startswith('rollout/')}
  own = {k: v for k, v in stats.items() if k.startswith(start)}
  return rest | {k.removeprefix(start): v for k, v in own.items()}


def _of_stage(
    schedule: Horizon, state: Any, stats: Mapping[str, float]
) -> Mapping[str, float]:
  """The metrics that a schedule is given, see `Horizon.present`."""
  if schedule.present is None:
    return stats
  turns = schedule.present(state)
  # The largest of a collection, and the mean over its episodes.
  horizons = {
      stats.get(f'rollout/horizon{end}', turns) for end in ('', '_mean')
  }
  if horizons == {turns}:
    return stats
  return {k: v for k, v in stats.items() if not k.startswith('rollout/')}
