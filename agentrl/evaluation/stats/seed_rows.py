"""Rows about algorithms: intervals over training seeds, not over tasks."""

import math
from collections.abc import Sequence

import msgspec

from agentrl.errors import PanelError
from agentrl.evaluation.compare import pairing
from agentrl.evaluation.compare.sides import Side
from agentrl.evaluation.results import ALL
from agentrl.evaluation.stats import training_seeds
from agentrl.evaluation.stats.training_seeds import SeedInterval

DIFFERENCE = 'difference'  # the side of a row: a minus b


class SeedRow(msgspec.Struct, frozen=True, kw_only=True):
  """One metric of an algorithm, or of the difference of two, over its runs.

  Attributes:
    env: name of the environment, or `results.ALL`.
    metric: as `pairing.METRICS`.
    side: label of the algorithm, or `DIFFERENCE`.
    scores: of each run by environment; empty for a difference.
    interquartile_mean: see `training_seeds.SeedInterval`.
    low: of its 95% interval over training seeds; None: not known, as where
      the runs of each side are equal.
    high: likewise.
    mean: over environments and runs.
    mean_low: of its 95% interval over training seeds; None: likewise.
    mean_high: likewise.
    seeds: runs of the side that has fewer.
    unit: what the intervals are about: other training runs.
    a: label of the first side of the pair.
    b: label of the second.
  """

  env: str
  metric: str
  side: str
  scores: dict[str, tuple[float, ...]]
  interquartile_mean: float
  low: float | None
  high: float | None
  mean: float
  mean_low: float | None
  mean_high: float | None
  seeds: int
  unit: str = 'training seed'
  a: str = 'a'
  b: str = 'b'


def compare_algorithms(
    a: Side,
    b: Side,
    envs: Sequence[str],
    *,
    seed: int,
    metrics: Sequence[str] = pairing.METRICS,
) -> list[SeedRow]:
  """Rows of each environment, then of all together, for each metric.

  Returns have a scale of their own in each environment, and so no row of all.

  Args:
    a: the runs of the first algorithm.
    b: those of the second.
    envs: environments that all runs were evaluated on.
    seed: of the bootstrap.
    metrics: that are compared.

  Raises:
    PanelError: a run has no valid episode in an environment.
    ValueError: a side has fewer than two runs.
  """
  rows, pair = [], (a.label, b.label)
  for metric in metrics:
    scores = [_scores(side, envs, metric) for side in (a, b)]
    shared = [env for env in envs if all(env in by_env for by_env in scores)]
    parts = {env: [env] for env in shared}
    if len(shared) > 1 and pairing.bounds(metric) is not None:
      parts[ALL] = shared
    for name, part in parts.items():
      first, second = ({env: x[env] for env in part} for x in scores)
      difference = training_seeds.seed_difference(first, second, seed=seed)
      over_a = training_seeds.over_seeds(first, seed=seed)
      over_b = training_seeds.over_seeds(second, seed=seed)
      rows += [
          _row(pair, name, metric, a.label, first, over_a),
          _row(pair, name, metric, b.label, second, over_b),
          _row(pair, name, metric, DIFFERENCE, {}, difference),
      ]
  return rows


def _scores(
    side: Side, envs: Sequence[str], metric: str
) -> dict[str, tuple[float, ...]]:
  """A score a run by environment, without those that report no progress."""
  by_env = {}
  for env in envs:
    scores = [pairing.score(run, env, metric) for run in side.runs]
    valid = tuple(score for score in scores if score is not None)
    if len(valid) == len(scores):
      by_env[env] = valid
    elif metric != 'progress':
      run = side.runs[scores.index(None)]
      raise PanelError(
          f'{run.policy.name!r} of {run.directory} has no valid episode in'
          f' {env}, and so no score: evaluate it again.'
      )
  return by_env


def _row(
    pair: tuple[str, str],
    env: str,
    metric: str,
    side: str,
    scores: dict[str, tuple[float, ...]],
    interval: SeedInterval,
) -> SeedRow:
  known = lambda end: end if math.isfinite(end) else None
  return SeedRow(
      env=env,
      metric=metric,
      side=side,
      scores=scores,
      a=pair[0],
      b=pair[1],
      interquartile_mean=interval.interquartile_mean,
      low=known(interval.low),
      high=known(interval.high),
      mean=interval.mean,
      mean_low=known(interval.mean_low),
      mean_high=known(interval.mean_high),
      seeds=interval.seeds,
  )
