"""From the episodes of a policy on a panel to the figures of each subtask."""

import statistics
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from agentrl.evaluation.results import ALL, Attempt, Figure, Panel, Row
from agentrl.evaluation.stats import intervals, passes
from agentrl.types import CONTEXT, Episode, Group

# What the episodes cost, in the currency of the prices; None: not known.
Price = Callable[[Sequence[Episode]], float | None]

_SHARE = (0.0, 1.0)  # bounds of success and progress


def of_panel(
    policy: str,
    panel: Panel,
    groups: Sequence[Group],
    *,
    price: Price = lambda episodes: None,
) -> list[Row]:
  """A row for each subtask, by name, and one for the whole panel.

  Args:
    policy: name of the policy.
    panel: what was played.
    groups: its episodes, in the order of the panel's tasks.
    price: cost of episodes.

  Raises:
    ValueError: the groups are those of other tasks.
  """
  if tuple(group.task_id for group in groups) != panel.task_ids:
    raise ValueError(f'Groups of other tasks than those of {panel.env}.')

  def row(subtask: str, indexes: Sequence[int]) -> Row:
    clusters = panel.clusters_of(indexes)
    return _Part([groups[i] for i in indexes], clusters).row(
        env=panel.env,
        subtask=subtask,
        policy=policy,
        price=price,
    )

  rows = [
      row(name, [i for i, kind in enumerate(panel.subtasks) if kind == name])
      for name in sorted(set(panel.subtasks))
  ]
  return [*rows, row(ALL, range(len(groups)))]


class _Part:
  """Some tasks of a panel, with their episodes and clusters."""

  def __init__(
      self, groups: Sequence[Group], clusters: Sequence[str] | None
  ) -> None:
    self._all = [group.episodes for group in groups]
    self._valid = [[e for e in task if e.valid] for task in self._all]
    self._clusters = clusters

  def row(self, *, price: Price, env: str, subtask: str, policy: str) -> Row:
    every = [e for task in self._all for e in task]
    valid = [e for task in self._valid for e in task]
    reports = any(e.progress is not None for e in valid)
    success = self._figure(lambda e: e.success, _SHARE)
    attempts = {e.attempt for e in every}
    by_k = {}
    if len(attempts) == 1:  # others are no samples: they learn from each other
      by_k = passes.by_k(
          [[e.success for e in task] for task in self._valid],
          clusters=self._clusters,
      )
    return Row(
        env=env,
        subtask=subtask,
        policy=policy,
        n=len(valid),
        tasks=sum(bool(task) for task in self._valid),
        not_played=self._not_played(),
        errors=len(every) - len(valid),
        success=success,
        success_errors_fail=self._figure(
            lambda e: e.valid and e.success, _SHARE, self._all
        )
        if valid
        else None,
        ret=self._figure(lambda e: e.episode_return),
        # An episode without a report, where others have one, did nothing.
        progress=self._figure(lambda e: e.progress or 0.0, _SHARE)
        if reports
        else None,
        pass_at_k={str(k): Figure.of(x.pass_at_k) for k, x in by_k.items()},
        pass_hat_k={str(k): Figure.of(x.pass_hat_k) for k, x in by_k.items()},
        attempts=self._attempts(attempts),
        turns=self._mean(lambda e: len(e.acts)),
        prompt_tokens=self._tokens('prompt_tokens'),
        completion_tokens=self._tokens('completion_tokens'),
        cost=price(every),
        stop_reasons=dict(
            sorted(Counter(e.stop_reason for e in every).items())
        ),
        detectable=None if success is None else _detectable(success),
    )

  def _not_played(self) -> dict[str, int]:
    """Tasks without a valid episode, by why."""
    reasons = (
        [e.stop_reason for e in episodes]
        for episodes, valid in zip(self._all, self._valid, strict=True)
        if not valid
    )
    # Another try mends the other reasons, not this one.
    why = lambda stops: CONTEXT if CONTEXT in stops else stops[0]
    return dict(sorted(Counter(map(why, reasons)).items()))

  def _attempts(self, numbers: Collection[int]) -> dict[str, Attempt]:
    """Figures by attempt, of several; those without a valid episode lack."""
    attempts = {}
    for number in sorted(numbers) if len(numbers) > 1 else ():
      tasks = [[e for e in x if e.attempt == number] for x in self._valid]
      success = self._figure(lambda e: e.success, _SHARE, tasks)
      ret = self._figure(lambda e: e.episode_return, None, tasks)
      if success is not None and ret is not None:
        attempts[str(number + 1)] = Attempt(success=success, ret=ret)
    return attempts

  def _figure(
      self,
      value: Callable[[Episode], float],
      bounds: tuple[float, float] | None = None,
      tasks: Sequence[Sequence[Episode]] | None = None,
  ) -> Figure | None:
    """The mean over tasks with its interval; None without an episode."""
    tasks = self._valid if tasks is None else tasks
    samples = [[float(value(e)) for e in task] for task in tasks]
    if not any(samples):
      return None
    interval = intervals.mean_interval(
        samples, clusters=self._clusters, bounds=bounds
    )
    return Figure.of(interval)

  def _mean(self, value: Callable[[Episode], float]) -> float | None:
    """The mean over tasks of each task's mean."""
    means = [
        statistics.fmean(value(e) for e in task) for task in self._valid if task
    ]
    return statistics.fmean(means) if means else None

  def _tokens(self, name: str) -> float | None:
    """Mean tokens of an episode; None where a turn has no count."""
    every = [e.turns for task in self._valid for e in task]
    if any(getattr(turn, name) is None for turns in every for turn in turns):
      return None
    return self._mean(lambda e: sum(getattr(turn, name) for turn in e.turns))


def _detectable(success: Figure) -> float:
  """The smallest difference to another policy that such a panel shows."""
  assert success.low is not None and success.high is not None  # it is a share
  interval = intervals.Interval(
      success.mean, success.low, success.high, success.method
  )
  return intervals.detectable_difference(interval, paired=False)
