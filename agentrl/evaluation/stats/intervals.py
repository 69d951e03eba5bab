"""Confidence intervals of means over tasks whose samples resemble each other.

k samples of a task are not k independent trials: a task that one sample solves
is solved by most. So the unit is the cluster, a task or the template that made
it, and the interval is as wide as the spread of clusters asks for.
"""

import math
import statistics
from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from scipy import special

_CONFIDENCE = 0.95  # share of intervals that hold the true mean
_TAIL = (1 - _CONFIDENCE) / 2
POWER = 0.8  # chance that a study finds the difference that it is made for
_Z = statistics.NormalDist().inv_cdf(1 - _TAIL)
# Clusters off each bound below which their spread is not estimated: where three
# tasks of a hundred succeed at times, intervals from the spread covered 0.87.
# With ten in place of six they cover more than 0.97 where 0.95 is possible.
_FEW = 6

Template = TypeVar('Template', bound=Hashable)


class Interval(NamedTuple):
  """A mean with its 95% interval.

  `method` is `'wilson'` for one success or failure a cluster, `'clustered'`
  for several samples a cluster or values in between, `'t'` without bounds, and
  `'conservative'` where fewer than six clusters are above the least value, fewer
  than six below the greatest, or all equal: too little shows how alike the
  samples of a cluster are, so a cluster counts as a single trial.
  """

  mean: float
  low: float
  high: float
  method: str


class Ends(NamedTuple):
  """Ends of intervals, `[...]`, and which of them are conservative."""

  low: np.ndarray
  high: np.ndarray
  conservative: np.ndarray


def clusters_of(templates: Sequence[Template]) -> Sequence[Template] | None:
  """The cluster of each task by its template; None: each task is a cluster.

  Tasks of a single template are clusters, too: figures of them speak of that
  one.
  """
  return templates if len(set(templates)) > 1 else None


def mean_interval(
    samples: Sequence[Sequence[float]],
    *,
    clusters: Sequence[Hashable] | None = None,
    bounds: tuple[float, float] | None = None,
) -> Interval:
  """Mean over tasks of each task's mean sample, with its 95% interval.

  Each task has one vote, however many of its samples are valid; a task without
  any has none.

  Args:
    samples: the samples of each task; of unequal lengths where some failed.
    clusters: the template of each task; without, each task is a cluster.
    bounds: least and greatest possible value; (0, 1) for success.

  Raises:
    ValueError: there is no sample, one is out of bounds, or `clusters` is of
      another length.
  """
  if clusters is None:
    clusters = range(len(samples))
  if len(clusters) != len(samples):
    raise ValueError(f'{len(clusters)} clusters for {len(samples)} tasks.')
  played = [i for i, task in enumerate(samples) if len(task)]
  if not played:
    raise ValueError('Cannot take the mean of no samples.')
  flat = np.concatenate([np.asarray(samples[i], np.float64) for i in played])
  if bounds and not ((bounds[0] <= flat) & (flat <= bounds[1])).all():
    raise ValueError(
        f'Samples from {flat.min()} to {flat.max()} are out of {bounds=}.'
    )
  names = {name: i for i, name in enumerate(dict.fromkeys(clusters))}
  labels = np.array([names[clusters[i]] for i in played])
  single = (
      bounds is not None
      and len(flat) == len(np.unique(labels))
      and bool(np.isin(flat, bounds).all())
  )
  means = np.array([np.mean(samples[i]) for i in played])
  ends = interval_ends(means, clusters=labels, bounds=bounds, single=single)
  method = 'wilson' if single else 'clustered' if bounds else 't'
  return Interval(
      mean=float(means.mean()),
      low=float(ends.low),
      high=float(ends.high),
      method='conservative' if ends.conservative else method,
  )


def interval_ends(
    means: np.ndarray,
    *,
    clusters: np.ndarray | None = None,
    bounds: tuple[float, float] | None = None,
    single: bool = False,
) -> Ends:
  """Ends of the 95% intervals of means over tasks.

  Without bounds the interval is `mean ± t se`, where se is the cluster-robust
  standard error (Miller, arXiv:2411.00640, section 2.2) and t has one degree of
  freedom less than there are clusters, unequal ones counted by
  `effective_clusters`.

  With bounds it is Wilson's with an effective sample size, which stays within
  them and is skewed as it should be: for p the mean scaled to [0, 1], n is
  p (1 - p) / se^2 and z is t (Korn and Graubard, Survey Methodology 24, 1998;
  with Wilson's interval in Franco et al., Journal of Survey Statistics and
  Methodology 7, 2019). Here se^2 divides by the number of clusters, not by one
  less, so that n is that number where all samples of a cluster agree. A cluster
  with one success or failure needs no estimate: z is the normal quantile.

  Where fewer than six clusters are off one of the bounds, the interval is
  Clopper's and Pearson's with the number of clusters as n: right if all samples
  of a cluster agree, too wide otherwise.

  Args:
    means: `[..., n]` mean of each task; leading dimensions are other panels.
    clusters: `[n]` integers; without, each task is a cluster.
    bounds: least and greatest possible value.
    single: each cluster has one sample, at one of the bounds.
  """
  means = np.asarray(means, np.float64)
  count = means.shape[-1]
  clusters = np.arange(count) if clusters is None else np.asarray(clusters)
  effective = effective_clusters(clusters)
  mean = means.mean(-1)
  groups = len(np.unique(clusters))
  variance = mean_covariance(means, means, clusters)
  # All clusters equal, but for rounding.
  unknown = variance <= 1e-24 * np.maximum(1.0, mean**2)
  t = special.stdtrit(max(effective - 1, 1.0), 1 - _TAIL)
  if bounds is None:
    error = np.sqrt(variance * groups / max(groups - 1, 1))
    half = np.where(unknown, np.inf, t * error)
    return Ends(mean - half, mean + half, unknown)
  low, high = bounds
  above = (cluster_totals(means > low, clusters) > 0).sum(-1)
  below = (cluster_totals(means < high, clusters) > 0).sum(-1)
  few = (above < _FEW) | (below < _FEW) | (unknown & (not single))
  p = np.clip((mean - low) / (high - low), 0.0, 1.0)
  p = np.where(above == 0, 0.0, np.where(below == 0, 1.0, p))
  spread = np.where(few, 1.0, p * (1 - p))
  # z^2 / n of Wilson's formula.
  noise = variance / (high - low) ** 2
  ratio = _Z**2 / count if single else t**2 * noise / spread
  centre = (p + ratio / 2) / (1 + ratio)
  half = np.sqrt(ratio * spread + ratio**2 / 4) / (1 + ratio)
  least, most = _clopper_pearson(p, effective)
  return Ends(
      low + (high - low) * np.where(few, least, centre - half),
      low + (high - low) * np.where(few, most, centre + half),
      few,
  )


def effective_clusters(clusters: np.ndarray) -> float:
  """Clusters of equal size that would weigh as much (Kish 1965, section 8.2).

  Args:
    clusters: `[n]` integers, the cluster of each task.
  """
  sizes = np.unique(clusters, return_counts=True)[1]
  return float(sizes.sum() ** 2 / (sizes**2).sum())


def cluster_totals(values: np.ndarray, clusters: np.ndarray) -> np.ndarray:
  """Sums `[..., clusters]` of values `[..., n]` over the tasks of a cluster."""
  order = np.argsort(clusters, kind='stable')
  starts = np.unique(clusters[order], return_index=True)[1]
  values = np.asarray(values, np.float64)
  if len(starts) == len(order):
    return values
  return np.add.reduceat(values[..., order], starts, axis=-1)


def mean_covariance(
    first: np.ndarray, second: np.ndarray, clusters: np.ndarray
) -> np.ndarray:
  """Cluster-robust covariance of two means over tasks.

  The sum over clusters is divided by their number, not by one less.

  Args:
    first: `[..., n]`.
    second: `[..., n]`, of the same tasks.
    clusters: `[n]` integers.
  """
  centred = lambda x: cluster_totals(x - x.mean(-1, keepdims=True), clusters)
  return (centred(first) * centred(second)).sum(-1) / first.shape[-1] ** 2


def detectable_difference(interval: Interval, *, paired: bool) -> float:
  """Smallest true difference that such a study detects in 80% of repetitions.

  Half the interval's width is z(0.975) standard errors; a difference of
  z(0.975) + z(0.8) of them is detected.

  Args:
    interval: of the difference of a finished comparison if `paired`, else of
      one evaluation's mean. Then it is the difference to another evaluation of
      the same size and spread if nothing cancels in pairs: an upper bound where
      both find the same tasks hard.
    paired: whether the interval is that of a paired difference.
  """
  z = special.ndtri([1 - _TAIL, POWER])
  scale = 1.0 if paired else math.sqrt(2)
  return float((interval.high - interval.low) / 2 * scale * z.sum() / z[0])


def _clopper_pearson(p: np.ndarray, n: float) -> tuple[np.ndarray, np.ndarray]:
  """Exact binomial interval, for counts p n that need not be whole."""
  successes, failures = p * n, (1 - p) * n
  low = special.betaincinv(np.where(p > 0, successes, 1.0), failures + 1, _TAIL)
  high = special.betaincinv(
      successes + 1, np.where(p < 1, failures, 1.0), 1 - _TAIL
  )
  return np.where(p > 0, low, 0.0), np.where(p < 1, high, 1.0)
