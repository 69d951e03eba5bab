"""Comparison of two evaluations on one panel, paired by (task, sample).

Pairs meet the same task under the same seed, so that how hard a task is cancels
in their difference.
"""

import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from scipy import stats

from agentrl.errors import PanelError
from agentrl.evaluation.stats import intervals
from agentrl.evaluation.stats.intervals import Interval

_RESAMPLES = 9_999  # draws of signs; up to 13 clusters are enumerated instead
# Where few draws are as extreme as what was seen, more of them: up to this many.
_MOST_RESAMPLES = 999_999
_EXTREME = 20  # draws that show one digit of a p-value: their error is 22%
_BLOCK = 1 << 22  # signs held at a time

Task = TypeVar('Task', bound=Hashable)
Key = tuple[Task, int]  # task and sample
Values = Mapping[Key[Task], float | None]  # None: no valid episode


class Outcomes(NamedTuple, Generic[Task]):
  """Pairs by who succeeded; pairs without two valid episodes are `missing`."""

  won: list[Key[Task]]  # the first only
  lost: list[Key[Task]]  # the second only
  both: list[Key[Task]]
  neither: list[Key[Task]]
  missing: list[Key[Task]]


class Comparison(NamedTuple):
  """Difference first minus second, and the test of none.

  `test` is `'mcnemar'` for one success or failure a cluster, else
  `'permutation'`; `mid_p_value` belongs to the former.
  """

  difference: Interval
  p_value: float
  mid_p_value: float | None
  test: str
  pairs: int
  tasks: int


def outcomes(first: Values[Task], second: Values[Task]) -> Outcomes[Task]:
  """Pairs of successes and failures by outcome, in the first one's order.

  Args:
    first: success of each (task, sample), None where no episode is valid.
    second: the same keys.

  Raises:
    PanelError: the keys differ.
  """
  _check_panels(first, second)
  sorted_out: Outcomes[Task] = Outcomes([], [], [], [], [])
  for key, a in first.items():
    b = second[key]
    if a is None or b is None:
      sorted_out.missing.append(key)
    elif a and b:
      sorted_out.both.append(key)
    elif a or b:
      (sorted_out.won if a else sorted_out.lost).append(key)
    else:
      sorted_out.neither.append(key)
  return sorted_out


def compare(
    first: Values[Task],
    second: Values[Task],
    *,
    seed: int,
    clusters: Mapping[Task, Hashable] | None = None,
    bounds: tuple[float, float] | None = None,
) -> Comparison:
  """Compares means over tasks; pairs with a missing episode are left out.

  To count missing episodes as failures, give 0 in place of None.

  Args:
    first: success or return of each (task, sample).
    second: the same keys.
    seed: of the permutation test's draws.
    clusters: the template of each task; without, each task is a cluster.
    bounds: least and greatest possible value; (0, 1) for success.

  Raises:
    PanelError: the keys differ.
    ValueError: no pair has two valid episodes.
  """
  _check_panels(first, second)
  by_task: dict[Task, list[tuple[float, float]]] = {}
  for (task, sample), a in first.items():
    b = second[task, sample]
    if a is not None and b is not None:
      by_task.setdefault(task, []).append((float(a), float(b)))
  if not by_task:
    raise ValueError('Cannot compare: no pair has two valid episodes.')
  names = [clusters[task] if clusters else task for task in by_task]
  labels = {name: i for i, name in enumerate(dict.fromkeys(names))}
  groups = np.array([labels[name] for name in names])
  pairs = np.concatenate([np.array(task) for task in by_task.values()])
  single = (
      bounds is not None
      and len(pairs) == len(labels)
      and bool(np.isin(pairs, bounds).all())
  )
  means = np.array([
      np.mean([a for a, _ in task]) - np.mean([b for _, b in task])
      for task in by_task.values()
  ])
  ends = difference_ends(means, clusters=groups, bounds=bounds, single=single)
  method = 'wilson' if single else 'clustered' if bounds else 't'
  if single:
    p_value, mid_p_value = mcnemar((means > 0).sum(), (means < 0).sum())
  else:
    totals = intervals.cluster_totals(means, groups)
    p_value, mid_p_value = sign_flips(totals, seed=seed), None
  return Comparison(
      difference=Interval(
          mean=float(means.mean()),
          low=float(ends.low),
          high=float(ends.high),
          method='conservative' if ends.conservative else method,
      ),
      p_value=float(p_value),
      mid_p_value=None if mid_p_value is None else float(mid_p_value),
      test='mcnemar' if single else 'permutation',
      pairs=len(pairs),
      tasks=len(by_task),
  )


def difference_ends(
    differences: np.ndarray,
    *,
    clusters: np.ndarray | None = None,
    bounds: tuple[float, float] | None = None,
    single: bool = False,
) -> intervals.Ends:
  """Ends of the 95% intervals of mean differences over tasks.

  Without bounds this is the paired t interval. With them, the difference is the
  mean of its positive parts minus that of its negative parts, whose intervals
  `interval_ends` has and whose correlation is known: MOVER (Zou and Donner,
  Statistics in Medicine 27, 2008; Newcombe's method for proportions). It is
  conservative where either of the two is.

  Args:
    differences: `[..., n]` difference of each task; leading dimensions are
      other comparisons.
    clusters: `[n]` integers; without, each task is a cluster.
    bounds: least and greatest value of what is compared.
    single: each cluster has one pair, both at one of the bounds.
  """
  differences = np.asarray(differences, np.float64)
  if bounds is None:
    return intervals.interval_ends(differences, clusters=clusters)
  if clusters is None:
    clusters = np.arange(differences.shape[-1])
  gains, losses = np.maximum(differences, 0), np.maximum(-differences, 0)
  parts = [gains, losses]
  span = (0.0, bounds[1] - bounds[0])
  gain, loss = (
      intervals.interval_ends(
          part, clusters=clusters, bounds=span, single=single
      )
      for part in parts
  )
  cross = intervals.mean_covariance(gains, losses, clusters)
  scale = np.sqrt(
      intervals.mean_covariance(gains, gains, clusters)
      * intervals.mean_covariance(losses, losses, clusters)
  )
  positive = scale > 0
  correlation = np.where(positive, cross / np.where(positive, scale, 1.0), 0.0)
  gained, lost = gains.mean(-1), losses.mean(-1)
  distance = lambda a, b: np.sqrt(
      np.maximum(a**2 + b**2 - 2 * correlation * a * b, 0.0)
  )
  mean = gained - lost
  low = mean - distance(gained - gain.low, loss.high - lost)
  high = mean + distance(gain.high - gained, lost - loss.low)
  return intervals.Ends(
      np.maximum(low, -span[1]),
      np.minimum(high, span[1]),
      gain.conservative | loss.conservative,
  )


def mcnemar(
    won: np.ndarray | int, lost: np.ndarray | int
) -> tuple[np.ndarray, np.ndarray]:
  """Two-sided p-values of McNemar's test, exact and mid-p.

  Without a difference, each discordant pair is won with chance 1/2. The exact
  test errs at most as often as it says, often far less; mid-p counts half the
  chance of what was seen, and errs about as often as it says (Fagerland,
  Lydersen and Laake, BMC Medical Research Methodology 13:91, 2013).

  Args:
    won: pairs in which only the first succeeded.
    lost: pairs in which only the second did.
  """
  fewer, discordant = np.minimum(won, lost), np.add(won, lost)
  tail = stats.binom.cdf(fewer, discordant, 0.5)
  seen = stats.binom.pmf(fewer, discordant, 0.5)
  return np.minimum(2 * tail, 1.0), np.minimum(2 * tail - seen, 1.0)


def sign_flips(
    totals: np.ndarray,
    *,
    seed: int,
    resamples: int = _RESAMPLES,
    most: int = _MOST_RESAMPLES,
) -> np.ndarray:
  """Two-sided p-values of the paired permutation test over clusters.

  Without a difference, exchanging the two policies on a cluster changes nothing
  but the sign of its total. All sign vectors are enumerated where they are no
  more than the draws; else the observed one counts as a draw (Phipson and
  Smyth, arXiv:1603.05766), so that p is never 0.

  Where fewer than 20 draws are as extreme, more are drawn, until 20 are or there
  are `most`. The test stays exact: it can only report p or less after some
  number of draws if that number alone shows p or less.

  Args:
    totals: `[..., clusters]` sums of differences; leading dimensions are other
      comparisons, which share the signs.
    seed: of the draws.
    resamples: number of draws at first.
    most: number of draws at most.
  """
  totals = np.asarray(totals, np.float64)
  totals = totals[..., (totals != 0).reshape(-1, totals.shape[-1]).any(0)]
  clusters = totals.shape[-1]
  observed = np.abs(totals.sum(-1))[..., None]
  # Sums that differ by rounding alone are ties.
  observed = observed - 1e-9 * np.abs(totals).sum(-1, keepdims=True)
  exact = clusters < 60 and 2**clusters <= resamples + 1
  if exact:
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=clusters)))
    null = np.abs(totals @ signs.reshape(2**clusters, clusters).T)
    return (null >= observed).mean(-1)
  rng = np.random.default_rng(seed)
  count = np.ones(totals.shape[:-1])
  block = max(_BLOCK // clusters, 1)
  for start in range(0, resamples, block):
    shape = (clusters, min(block, resamples - start))
    signs = rng.integers(0, 2, shape) * 2.0 - 1.0
    count += (np.abs(totals @ signs) >= observed).sum(-1)
  drawn = np.full(count.shape, resamples)
  # The sums of eight clusters by a byte of signs: one look-up in place of eight.
  groups = -(-clusters // 8)
  padded = np.zeros((*totals.shape[:-1], groups * 8))
  padded[..., :clusters] = totals
  signs = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1) * 2.0
  tables = padded.reshape(*totals.shape[:-1], groups, 8) @ (signs - 1.0).T
  total = resamples
  while total < most and (few := count <= _EXTREME).any():
    size = min(resamples, most - total)
    codes = rng.integers(0, 256, (groups, size), np.uint8)
    open_tables = tables[few]
    sums = sum(open_tables[:, g, codes[g]] for g in range(groups))
    count[few] += (np.abs(sums) >= observed[few]).sum(-1)
    drawn[few] += size
    total += size
  return count / (drawn + 1)


def is_bound(p_value: float, test: str) -> bool:
  """Whether no draw was as extreme: the p-value is at most this.

  Args:
    p_value: of a test by itself.
    test: 'mcnemar' or 'permutation'.
  """
  return test == 'permutation' and p_value <= 1 / (_MOST_RESAMPLES + 1)


def p_words(p_value: float, *, bound: bool = False) -> str:
  """A p-value for people, never rounded to 0: '0.0312', '1.9e-09'.

  Args:
    p_value: of a test by itself, or adjusted.
    bound: the p-value is at most this, see `is_bound`: '<= 0.000001'.
  """
  if bound:
    return f'<= {p_value:.6f}'
  if p_value == 0:  # less than the smallest float
    return '< 1e-300'
  if p_value < 0.0001:
    return f'{p_value:.1e}'
  return f'{p_value:.4f}' if p_value >= 0.001 else f'{p_value:.2g}'


def holm(p_values: Sequence[float]) -> list[float]:
  """Adjusted p-values, each to be compared with the level of the whole family.

  The chance of any false positive among them stays below that level, however
  they depend on each other (Holm, Scandinavian Journal of Statistics 6, 1979).

  Args:
    p_values: of the tests of one family, at least one.
  """
  order = np.argsort(p_values, kind='stable')
  weights = np.arange(len(order), 0, -1)
  adjusted = np.empty(len(order))
  adjusted[order] = np.maximum.accumulate(np.take(p_values, order) * weights)
  return np.minimum(adjusted, 1.0).tolist()


def _check_panels(first: Values, second: Values) -> None:
  if first.keys() == second.keys():
    return
  only = [
      [key for key in a if key not in b]
      for a, b in ((first, second), (second, first))
  ]
  raise PanelError(
      f'Different panels: {len(only[0])} of {len(first)} pairs of task and'
      f' sample are only in the first (such as {only[0][:3]}),'
      f' {len(only[1])} of {len(second)} only in the second'
      f' (such as {only[1][:3]}).'
  )
