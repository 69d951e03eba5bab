"""Intervals over training seeds: for claims about algorithms, not policies.

A panel's interval asks how one policy would fare on other tasks. It says
nothing about another run of the same algorithm, whose seed moves success by
more than the panel does. Here the unit is the run: a score is what one run
reached on the whole panel, and the spread is that between runs.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

_QUANTILES = (0.025, 0.975)
_RESAMPLES = 2_000

Scores = Mapping[str, Sequence[float]]  # environment -> a score a seed


class SeedInterval(NamedTuple):
  """Centre of runs, or a difference of centres, with 95% intervals over seeds.

  The interquartile mean's is a bootstrap, which covered 0.75 with three seeds of
  one environment and 0.91 with five; the mean's is Student's t, which covered
  0.93. Below ten seeds trust the latter. Neither knows of what no seed has shown:
  where one run in ten collapses, t covered 0.67 with five and with ten seeds
  (experiments/2026-11-evaluation).

  The ends of an interval without width are NaN, as where the runs of each side
  are equal: that the spread was not seen makes nothing certain.
  """

  interquartile_mean: float
  low: float
  high: float
  mean: float
  mean_low: float
  mean_high: float
  seeds: int  # fewest of an environment


class PairedGain(NamedTuple):
  """Mean difference of runs that are paired by seed, with its 95% t interval."""

  mean: float
  low: float
  high: float
  p_value: float  # Student's test of no difference


class MeanIntervals(NamedTuple):
  """Means over seeds with their 95% t intervals, all `[...]`.

  The ends are NaN for fewer than two seeds, and where all seeds are equal: that
  the spread was not seen does not make the mean certain.
  """

  mean: np.ndarray  # NaN for no seed
  low: np.ndarray
  high: np.ndarray
  seeds: np.ndarray  # that have a score


def mean_intervals(scores: np.ndarray) -> MeanIntervals:
  """Student's interval of each column of scores, over its seeds.

  Args:
    scores: `[S, ...]`, NaN where a seed has none.
  """
  scores = np.asarray(scores, np.float64)
  known = np.isfinite(scores)
  seeds = known.sum(0)
  mean = np.where(known, scores, 0.0).sum(0) / np.where(seeds, seeds, np.nan)
  squares = np.where(known, scores - mean, 0.0) ** 2
  degrees = np.maximum(seeds - 1, 1)
  variance = squares.sum(0) / degrees
  # Equal, but for rounding.
  unknown = (seeds < 2) | (variance <= 1e-24 * np.maximum(1.0, mean**2))
  half = stats.t.ppf(_QUANTILES[1], degrees) * np.sqrt(
      variance / np.maximum(seeds, 1)
  )
  half = np.where(unknown, np.nan, half)
  return MeanIntervals(mean, mean - half, mean + half, seeds)


def paired_gain(gains: Sequence[float]) -> PairedGain | None:
  """The mean gain over seeds, with Student's interval and test.

  Args:
    gains: of each seed, one run's score minus that of the run it is paired with.

  Returns:
    None for fewer than two seeds, and where all gains are equal.
  """
  if not np.isfinite(mean_intervals(np.array(gains, np.float64)).low):
    return None
  found = stats.ttest_1samp(gains, 0.0)
  low, high = found.confidence_interval()
  return PairedGain(
      statistics.fmean(gains), float(low), float(high), float(found.pvalue)
  )


def over_seeds(scores: Scores, *, seed: int) -> SeedInterval:
  """Interquartile mean over environments and seeds, and mean, with intervals.

  The interquartile mean is that of the middle half of all runs' scores; the
  bootstrap draws seeds anew within each environment (stratified; Agarwal et
  al., arXiv:2108.13264, section 4). The mean has one vote an environment.

  Args:
    scores: one score a seed by environment, on one scale. Each is a run of its
      own: scores of one run on several subtasks belong into one mean.
    seed: of the bootstrap.

  Raises:
    ValueError: an environment has fewer than two seeds, or there is none.
  """
  return _summarise([(1.0, _checked(scores))], seed)


def seed_difference(
    first: Scores, second: Scores, *, seed: int
) -> SeedInterval:
  """Difference of two algorithms, first minus second, with intervals over seeds.

  Runs of two algorithms share nothing, whatever their seeds are: unpaired.

  Args:
    first: one score a seed by environment.
    second: of the same environments; other numbers of seeds will do.
    seed: of the bootstrap.

  Raises:
    ValueError: the environments differ, or one has fewer than two seeds.
  """
  if first.keys() != second.keys():
    raise ValueError(
        f'Different environments: {sorted(first)} and {sorted(second)}.'
    )
  signed = [(1.0, _checked(first)), (-1.0, _checked(second))]
  return _summarise(signed, seed)


def _checked(scores: Scores) -> list[np.ndarray]:
  runs = [np.asarray(values, np.float64) for values in scores.values()]
  fewest = min((len(values) for values in runs), default=0)
  if fewest < 2:
    raise ValueError(f'Needs two seeds of each environment, got {fewest}.')
  return runs


def _summarise(
    signed: list[tuple[float, list[np.ndarray]]], seed: int
) -> SeedInterval:
  rng = np.random.default_rng(seed)
  centre, draws, mean, parts, degrees = 0.0, 0.0, 0.0, [], []
  for sign, runs in signed:
    centre += sign * stats.trim_mean(np.concatenate(runs), 0.25)
    drawn = [
        values[rng.integers(len(values), size=(_RESAMPLES, len(values)))]
        for values in runs
    ]
    draws += sign * stats.trim_mean(np.concatenate(drawn, 1), 0.25, axis=1)
    mean += sign * np.mean([values.mean() for values in runs])
    parts += [v.var(ddof=1) / len(v) / len(runs) ** 2 for v in runs]
    degrees += [len(values) - 1 for values in runs]
  low, high = np.quantile(draws, _QUANTILES)
  # Welch and Satterthwaite: degrees of freedom of a sum of variances.
  variance = sum(parts)
  weight = sum(part**2 / df for part, df in zip(parts, degrees, strict=True))
  df = variance**2 / weight if variance else min(degrees)
  half = stats.t.ppf(_QUANTILES[1], df) * np.sqrt(variance)
  low, high = _known(low, high)
  mean_low, mean_high = _known(mean - half, mean + half)
  return SeedInterval(
      interquartile_mean=float(centre),
      low=low,
      high=high,
      mean=float(mean),
      mean_low=mean_low,
      mean_high=mean_high,
      seeds=min(degrees) + 1,
  )


def _known(low: float, high: float) -> tuple[float, float]:
  """The ends of an interval; NaN without a width, but for rounding."""
  if high - low <= 1e-12 * max(1.0, abs(low)):
    return np.nan, np.nan
  return float(low), float(high)
