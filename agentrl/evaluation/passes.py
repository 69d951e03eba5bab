"""Success in k attempts at a task: any of them, all of them."""

from collections.abc import Hashable, Sequence
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
  played = [i for i, task in enumerate(outcomes) if len(task)]
  counts = [(len(outcomes[i]), sum(outcomes[i])) for i in played]
  labels = None if clusters is None else [clusters[i] for i in played]
  fewest = min((trials for trials, _ in counts), default=0)

  def over_tasks(estimate, k):
    values = [[estimate(trials, wins, k)] for trials, wins in counts]
    return intervals.mean_interval(values, clusters=labels, bounds=(0, 1))

  return {
      k: Passes(
          over_tasks(statistics.pass_at_k, k),
          over_tasks(statistics.pass_hat_k, k),
      )
      for k in range(1, fewest + 1)
  }
