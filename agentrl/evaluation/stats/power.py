"""Sample sizes: what a comparison of two policies can detect, before and after.

Two policies play the same tasks. `icc`, the intraclass correlation, is the share
of the variance of success that lies between tasks: 0 where every task is equally
hard, 1 where all samples of a task agree. `agreement` is the correlation between
the two policies' chances over tasks: 1 where what is hard for one is as hard for
the other.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from agentrl.evaluation.stats.intervals import POWER

_LEVEL = 0.05  # of the two-sided test
_MOST_TASKS = 1_000_000


class Plan(NamedTuple):
  """Tasks to play, each `samples` times by both policies."""

  tasks: int
  samples: int
  episodes: int  # of each policy


def plan(
    rate: float,
    difference: float,
    *,
    samples: Sequence[int] = (1, 2, 4, 8),
    icc: float = 0.0,
    agreement: float = 1.0,
    power: float = POWER,
) -> list[Plan]:
  """Fewest tasks that detect a difference in success, for each k.

  Without `icc` the tasks are as good as independent trials: most tasks for
  k = 1, and too few for more.

  Args:
    rate: success of the weaker policy.
    difference: how much better the other is.
    samples: k, samples a task.
    icc: share of the variance between tasks, see `intraclass_correlation`.
    agreement: correlation of the policies' chances over tasks.
    power: chance to detect the difference.

  Raises:
    ValueError: a number is out of range, or no number of tasks is enough.
  """
  plans = []
  for k in samples:
    chance = lambda n, k=k: detection(
        rate, difference, tasks=n, samples=k, icc=icc, agreement=agreement
    )
    most = 2
    while chance(most) < power:
      most *= 2
      if most > _MOST_TASKS:
        raise ValueError(
            f'{_MOST_TASKS} tasks do not detect a difference of {difference}.'
        )
    fewest = most // 2  # too few, or 1
    while most - fewest > 1:
      middle = (fewest + most) // 2
      fewest, most = (
          (fewest, middle) if chance(middle) >= power else (middle, most)
      )
    plans.append(Plan(tasks=most, samples=k, episodes=most * k))
  return plans


def detection(
    rate: float,
    difference: float,
    *,
    tasks: int,
    samples: int = 1,
    icc: float = 0.0,
    agreement: float = 1.0,
) -> float:
  """Chance that the comparison finds a difference at the 5% level, its power.

  For one sample a task it is that of McNemar's exact test: the sum over the
  number of discordant pairs, binomial, of the chance of its critical region.
  For more it is that of a paired t test on task means (noncentral t; Miller,
  arXiv:2411.00640, section 5), as the permutation test has it: sums move in
  steps of one success, and ties count against a difference, so half a step of
  it is lost. Where fewer than ten tasks are expected to be lost, plans for 0.8
  detected 0.77 to 0.90: too many tasks where success is rare.

  Args:
    rate: success of the weaker policy.
    difference: how much better the other is.
    tasks: n.
    samples: k, samples a task.
    icc: share of the variance between tasks.
    agreement: correlation of the policies' chances over tasks.

  Raises:
    ValueError: a number is out of range.
  """
  better = rate + difference
  if not (0 <= rate < better <= 1 and 0 <= icc <= 1 and -1 <= agreement <= 1):
    raise ValueError(
        f'Needs rates 0 <= {rate} < {better} <= 1, {icc=} within [0, 1] and'
        f' {agreement=} within [-1, 1].'
    )
  if tasks < 2 or samples < 1:
    raise ValueError(
        f'Needs two tasks and one sample, got {tasks=} {samples=}.'
    )
  variances = rate * (1 - rate), better * (1 - better)
  covariance = icc * agreement * math.sqrt(variances[0] * variances[1])
  if samples == 1:
    both = rate * better + covariance
    return _mcnemar_power(max(better - both, 0), max(rate - both, 0), tasks)
  between = icc * sum(variances) - 2 * covariance
  variance = between + (1 - icc) * sum(variances) / samples
  if variance <= 0:
    return 1.0
  shift = max(difference - 1 / (2 * samples * tasks), 0)
  shift /= math.sqrt(variance / tasks)
  critical = stats.t.ppf(1 - _LEVEL / 2, tasks - 1)
  return float(
      stats.nct.sf(critical, tasks - 1, shift)
      + stats.nct.cdf(-critical, tasks - 1, shift)
  )


def intraclass_correlation(samples: Sequence[Sequence[float]]) -> float:
  """Share of the variance that lies between tasks, at least 0.

  The estimate by one-way analysis of variance (Donner and Koval, Biometrics 36,
  1980): mean squares between and within tasks.

  Args:
    samples: the samples of each task; some task needs two.

  Raises:
    ValueError: no task has two samples, or there are not two tasks.
  """
  tasks = [np.asarray(task, np.float64) for task in samples if len(task)]
  sizes = np.array([len(task) for task in tasks])
  total, groups = int(sizes.sum()), len(tasks)
  if groups < 2 or total == groups:
    raise ValueError('Needs two tasks, and one with two samples.')
  overall = np.concatenate(tasks).mean()
  means = np.array([task.mean() for task in tasks])
  between = (sizes * (means - overall) ** 2).sum() / (groups - 1)
  within = sum(((task - task.mean()) ** 2).sum() for task in tasks)
  within /= total - groups
  size = (total - (sizes**2).sum() / total) / (groups - 1)
  variance = between + (size - 1) * within
  return float(max((between - within) / variance, 0.0)) if variance else 0.0


def _mcnemar_power(won: float, lost: float, tasks: int) -> float:
  discordant = won + lost
  spread = 8 * math.sqrt(tasks * discordant * (1 - discordant)) + 8
  centre = tasks * discordant
  counts = np.arange(
      max(int(centre - spread), 0), min(int(centre + spread), tasks) + 1
  )
  # The largest count of the rarer kind that the test rejects; -1: none.
  critical = stats.binom.ppf(_LEVEL / 2, counts, 0.5)
  tail = stats.binom.cdf(critical, counts, 0.5)
  critical = np.where(tail > _LEVEL / 2, critical - 1, critical)
  share = won / discordant
  rejected = stats.binom.cdf(critical, counts, share)
  rejected += stats.binom.cdf(critical, counts, 1 - share)
  chance = stats.binom.pmf(counts, tasks, discordant)
  return float((chance * np.where(critical >= 0, rejected, 0)).sum())
