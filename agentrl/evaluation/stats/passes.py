"""Success in k attempts at a task: any of them, all of them."""

import math
from collections.abc import Callable, Hashable, Sequence, Sized
from typing import NamedTuple

from agentrl.evaluation.stats import intervals
from agentrl.evaluation.stats.intervals import Interval


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
          pass_at(k, outcomes, clusters=clusters),
          _over_tasks(pass_hat_k, k, outcomes, clusters),
      )
      for k in range(1, fewest(outcomes) + 1)
  }


def pass_at(
    k: int,
    outcomes: Sequence[Sequence[bool]],
    *,
    clusters: Sequence[Hashable] | None = None,
) -> Interval:
  """pass@k for one k, up to `fewest`; arguments as `by_k` has them."""
  return _over_tasks(pass_at_k, k, outcomes, clusters)


def fewest(outcomes: Sequence[Sized]) -> int:
  """The fewest attempts at a task that has any; 0 where none has."""
  return min((len(task) for task in outcomes if len(task)), default=0)


def pass_at_k(trials: int, successes: int, k: int) -> float:
  """Chance that one of k attempts succeeds (Codex, arXiv:2107.03374 eq. 1).

      1 - C(trials - successes, k) / C(trials, k)

  This is unbiased: the share of all k-subsets of the trials that hold a
  success. Plugging the rate into 1 - (1 - rate)^k is too low on average.

  Args:
    trials: attempts at one task.
    successes: how many of them succeeded.
    k: attempts to draw, from 1 to `trials`.

  Raises:
    ValueError: a count is out of range.
  """
  if not 0 <= successes <= trials or not 1 <= k <= trials:
    raise ValueError(
        f'pass@k needs successes <= trials and k <= trials, got {trials=},'
        f' {successes=}, {k=}.'
    )
  return 1 - math.comb(trials - successes, k) / math.comb(trials, k)


def pass_hat_k(trials: int, successes: int, k: int) -> float:
  """Chance that all of k attempts succeed, pass^k (tau-bench, arXiv:2406.12045).

      C(successes, k) / C(trials, k)

  This is unbiased: the share of all k-subsets of the trials without a failure.
  Plugging the rate into rate^k is too high on average.

  Args:
    trials: attempts at one task.
    successes: how many of them succeeded.
    k: attempts to draw, from 1 to `trials`.

  Raises:
    ValueError: a count is out of range.
  """
  if not 0 <= successes <= trials or not 1 <= k <= trials:
    raise ValueError(
        f'pass^k needs successes <= trials and k <= trials, got {trials=},'
        f' {successes=}, {k=}.'
    )
  return math.comb(successes, k) / math.comb(trials, k)


def _over_tasks(
    estimate: Callable[[int, int, int], float],
    k: int,
    outcomes: Sequence[Sequence[bool]],
    clusters: Sequence[Hashable] | None,
) -> Interval:
  # One attempt is the success itself, with all of its samples.
  values: Sequence[Sequence[float]] = outcomes
  if k > 1:
    values = [
        [estimate(len(task), sum(task), k)] if len(task) else []
        for task in outcomes
    ]
  return intervals.mean_interval(values, clusters=clusters, bounds=(0, 1))
