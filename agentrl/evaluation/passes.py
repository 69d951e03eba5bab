"""Success in k attempts at a task: any of them, all of them."""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from agentrl.evaluation import intervals, statistics
from agentrl.evaluation.intervals import Interval


class Passes(NamedTuple):
  """Means over tasks with their intervals, clustered."""

  pass_at_k: Interval  # any of k attempts succeeds
  pass_hat_k: Interval  # all of them do


def by_k(
    outcomes: Sequence[Sequence[bool]],
    *,
    clusters: Sequence[Hashable] | None = None,
) -> dict[int, Passes]:
  """pass@k and pass^k, unbiased, up to the fewest attempts at a task.

  At k = 1 both are the mean success, avg@k: the mean over tasks of the share of
  all attempts that succeed, which needs no choice of k.

  Args:
    outcomes: success of each valid attempt at each task; a task without any is
      left out.
    clusters: the template of each task; without, each task is a cluster.
  """
  return {
      k: Passes(
          pass_at_k(outcomes, k, clusters=clusters),
          _over_tasks(statistics.pass_hat_k, outcomes, k, clusters),
      )
      for k in range(1, fewest(outcomes) + 1)
  }


def pass_at_k(
    outcomes: Sequence[Sequence[bool]],
    k: int,
    *,
    clusters: Sequence[Hashable] | None = None,
) -> Interval:
  """pass@k for one k, up to `fewest(outcomes)`; arguments as `by_k` has them."""
  return _over_tasks(statistics.pass_at_k, outcomes, k, clusters)


def fewest(outcomes: Sequence[Sequence[bool]]) -> int:
  """The fewest attempts at a task that has any; 0 where none has."""
  return min((len(task) for task in outcomes if len(task)), default=0)


def _over_tasks(
    estimate: Callable[[int, int, int], float],
    outcomes: Sequence[Sequence[bool]],
    k: int,
    clusters: Sequence[Hashable] | None,
) -> Interval:
  values = [
      [estimate(len(task), sum(task), k)] if len(task) else []
      for task in outcomes
  ]
  return intervals.mean_interval(values, clusters=clusters, bounds=(0, 1))
