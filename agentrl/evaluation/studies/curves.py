"""The curve of an arm: a mean over its seeds at each step, with intervals."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from agentrl.evaluation.stats import training_seeds
from agentrl.evaluation.workdirs import series
from agentrl.evaluation.workdirs.metric_lines import MetricLines
from agentrl.evaluation.workdirs.series import Curve

# Statistic of an arm's curve -> its name with the interval that it has.
STATISTICS = {
    'mean': 'mean, 95% t interval over training seeds',
    'iqm': 'interquartile mean, 95% bootstrap interval over training seeds',
}
_SEED = 0  # of the bootstrap


class ArmCurve(NamedTuple):
  """A metric of the runs of an arm, at most as many points as were asked for.

  Attributes:
    x: `[N]` on the axis of the runs' curves: of each step the mean over runs.
    step: `[N]` integers, of each point.
    seeds: `[N]` runs that have a value there.
    y: `[N]` mean or interquartile mean over them.
    low: `[N]` end of its 95% interval over training seeds; NaN: not known, as
      for a single run.
    high: `[N]` likewise.
    runs_x: `[M]` as `x`, of the single runs' points: as many as N, or fewer.
    runs: the values `[M]` of each run, NaN where it has none.
    total: points before decimation.
  """

  x: np.ndarray
  step: np.ndarray
  seeds: np.ndarray
  y: np.ndarray
  low: np.ndarray
  high: np.ndarray
  runs_x: np.ndarray
  runs: Mapping[str, np.ndarray]
  total: int


def of_arm(
    lines: Mapping[str, MetricLines],
    metric: str,
    *,
    axis: str = 'step',
    smoothing: float = 0.0,
    limit: int,
    runs_limit: int | None = None,
    statistic: str = 'mean',
) -> ArmCurve | None:
  """The curve of a metric over the runs that have it; None: none has.

  Args:
    lines: of each run of the arm.
    metric: its name.
    axis: one of `series.AXES`.
    smoothing: weight of the past in each run's exponential mean.
    limit: as `over_seeds` has it, and the next ones.
    runs_limit: likewise.
    statistic: likewise.
  """
  own = {
      run: series.curve(
          each, metric, axis=axis, smoothing=smoothing, limit=2**62
      )
      for run, each in lines.items()
  }
  own = {run: each for run, each in own.items() if len(each.x)}
  if not own:
    return None
  return over_seeds(
      own, limit=limit, runs_limit=runs_limit, statistic=statistic
  )


def over_seeds(
    curves: Mapping[str, Curve],
    *,
    limit: int,
    runs_limit: int | None = None,
    statistic: str = 'mean',
) -> ArmCurve:
  """The curve of an arm from those of its runs, step by step.

  Where there are more steps than points, each point is of a bucket of
  neighbouring steps: first each run's mean in it, then those over runs. On another
  axis than steps a point has the same value, at the mean of where its runs were
  then: the runs of an arm are compared at equal steps.

  Args:
    curves: of each run, all on one axis and not decimated.
    limit: points at most.
    runs_limit: points of a single run at most; None: as many.
    statistic: a key of `STATISTICS`.
  """
  none = np.zeros(0, np.int64)
  steps = np.unique(np.concatenate([none, *(x.step for x in curves.values())]))
  table, places = np.full((2, len(curves), len(steps)), np.nan)
  for row, place, each in zip(table, places, curves.values(), strict=True):
    at = np.searchsorted(steps, each.step)
    row[at], place[at] = each.y, each.x
  table[~np.isfinite(table)] = np.nan
  x = _mean_place(steps, places)
  total = len(steps)
  runs_x, runs_table = x, table
  if total > (fewer := min(limit, runs_limit or limit)):
    runs_x, _, runs_table = _buckets(x, steps, table, fewer)
  if total > limit:
    x, steps, table = _buckets(x, steps, table, limit)
  if statistic == 'mean':
    y, low, high, seeds = training_seeds.mean_intervals(table)
  else:
    y, low, high, seeds = _interquartile(table)
  runs = dict(zip(curves, runs_table, strict=True))
  return ArmCurve(x, steps, seeds, y, low, high, runs_x, runs, total)


def as_json(curve: ArmCurve) -> dict[str, Any]:
  """Lists for a page."""
  values: dict[str, Any] = {
      name: getattr(curve, name).tolist()
      for name in ('x', 'step', 'seeds', 'y', 'low', 'high', 'runs_x')
  }
  return values | {
      'runs': {run: y.tolist() for run, y in curve.runs.items()},
      'total': curve.total,
  }


def _mean_place(steps: np.ndarray, places: np.ndarray) -> np.ndarray:
  """Where an arm is at each step `[N]`, from its runs' `[S, N]`, NaN: none.

  From step to step it goes as far as the runs that made that step went on average:
  it does not go back where a run ends before the others.
  """
  if not len(steps):
    return np.zeros(0)
  whole = np.full_like(places, np.nan)
  for row, place in zip(whole, places, strict=True):
    (has,) = np.nonzero(np.isfinite(place))
    if len(has):  # a step that a run lacks lies between its neighbours
      inner = slice(has[0], has[-1] + 1)
      row[inner] = np.interp(steps[inner], steps[has], place[has])
  moves = _mean(np.diff(whole, axis=1))
  # No run made the step: those that follow begin elsewhere.
  jumps = np.maximum(np.diff(_mean(whole)), 0.0)
  moves = np.where(np.isfinite(moves), moves, jumps)
  return _mean(whole[:, :1]) + np.append(0.0, np.cumsum(moves))


def _mean(values: np.ndarray) -> np.ndarray:
  """Means `[N]` of the finite values of `[S, N]`; NaN: there is none."""
  known = np.isfinite(values)
  counts = known.sum(axis=0)
  sums = np.where(known, values, 0.0).sum(axis=0)
  return sums / np.where(counts, counts, np.nan)


def _buckets(
    x: np.ndarray, steps: np.ndarray, table: np.ndarray, limit: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Means `[S, limit]` of each run in buckets of steps, after their middles."""
  starts = np.arange(limit) * len(x) // limit
  sizes = np.diff(np.append(starts, len(x)))
  known = np.isfinite(table)
  counts = np.add.reduceat(known, starts, axis=1, dtype=np.int64)
  sums = np.add.reduceat(np.where(known, table, 0.0), starts, axis=1)
  middle = starts + sizes // 2
  return x[middle], steps[middle], sums / np.where(counts, counts, np.nan)


def _interquartile(
    table: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Interquartile mean, its interval and the seeds of each column."""
  mean, _, _, seeds = training_seeds.mean_intervals(table)
  y, low, high = mean.copy(), *np.full((2, len(mean)), np.nan)
  for i in np.flatnonzero(seeds > 1):
    values = table[:, i][np.isfinite(table[:, i])]
    found = training_seeds.over_seeds({'': values}, seed=_SEED)
    y[i], low[i], high[i] = found.interquartile_mean, found.low, found.high
  return y, low, high, seeds
