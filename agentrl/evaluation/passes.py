"""Success in k attempts at a task: any of them, all of them."""

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from agentrl.evaluation import intervals
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
  played = [i for i, task in enumerate(outcomes) if len(task)]
  counts = [(len(outcomes[i]), sum(outcomes[i])) for i in played]
  labels = None if clusters is None else [clusters[i] for i in played]
  fewest = min((trials for trials, _ in counts), default=0)

  def over_tasks(estimate, k):
    values = [[estimate(trials, wins, k)] for trials, wins in counts]
    return intervals.mean_interval(values, clusters=labels, bounds=(0, 1))

  return {
      k: Passes(
          over_tasks(pass_at_k, k),
          over_tasks(pass_hat_k, k),
      )
      for k in range(1, fewest + 1)
  }


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
