"""Confidence intervals of success rates, pass@k and pass^k."""

import math
import statistics
from collections.abc import Sequence

import numpy as np

_CONFIDENCE = 0.95  # share of intervals that hold the true rate
_RESAMPLES = 2000  # draws of n values with replacement


def wilson_interval(successes: int, trials: int) -> tuple[float, float]:
  """95% interval of a success rate from independent trials (Wilson 1927, eq. 1).

  It solves `|p - rate| = z sqrt(p (1 - p) / trials)` for p, so it stays within
  [0, 1] and has a width even at rates of 0 and 1, where the usual
  `rate ± z sqrt(rate (1 - rate) / trials)` claims to be certain.

  Args:
    successes: how many trials succeeded.
    trials: how many there were; none gives (0, 1), which says nothing.

  Returns:
    Low and high end.

  Raises:
    ValueError: more successes than trials, or a negative count.
  """
  if not 0 <= successes <= trials:
    raise ValueError(f'Cannot have {successes} successes in {trials} trials.')
  if trials == 0:
    return 0.0, 1.0
  z2 = statistics.NormalDist().inv_cdf((1 + _CONFIDENCE) / 2) ** 2
  rate = successes / trials
  centre = rate + z2 / (2 * trials)
  half = math.sqrt(z2 * (rate * (1 - rate) + z2 / (4 * trials)) / trials)
  scale = 1 + z2 / trials
  # Exact at the extremes, where rounding would leave the rate outside.
  low = 0.0 if successes == 0 else (centre - half) / scale
  high = 1.0 if successes == trials else (centre + half) / scale
  return low, high


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
  _check_draw('pass@k', trials, successes, k)
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
  _check_draw('pass^k', trials, successes, k)
  return math.comb(successes, k) / math.comb(trials, k)


def _check_draw(name: str, trials: int, successes: int, k: int) -> None:
  if not 0 <= successes <= trials or not 1 <= k <= trials:
    raise ValueError(
        f'{name} needs successes <= trials and k <= trials, got {trials=},'
        f' {successes=}, {k=}.'
    )


def bootstrap_interval(
    values: Sequence[float],
    *,
    seed: int,
) -> tuple[float, float]:
  """95% percentile interval of a mean, by drawing the values anew.

  The values have to be independent: one a task (its mean over attempts), since
  attempts at one task resemble each other.

  Args:
    values: `[n]`, at least one.
    seed: of the draws; the same seed gives the same interval.

  Returns:
    Low and high end.

  Raises:
    ValueError: there is no value.
  """
  if not values:
    raise ValueError('Cannot bootstrap the mean of no values.')
  rng = np.random.default_rng(seed)
  array = np.asarray(values, dtype=np.float64)
  means = [rng.choice(array, size=len(array)).mean() for _ in range(_RESAMPLES)]
  tail = (1 - _CONFIDENCE) / 2
  low, high = np.quantile(means, [tail, 1 - tail])
  return float(low), float(high)
