r"""Simulates evaluations whose truth is known: do the intervals hold it?

    python -m experiments.benchmarks.evaluation_statistics
    python -m experiments.benchmarks.evaluation_statistics --parts=success,power

A policy solves a task with a chance that is drawn once a task: from a beta
distribution with mean `rate`, whose intraclass correlation `icc` says how much of
the variance lies between tasks. k samples a task follow from that chance. Prints
a Markdown table a part; a figure out of its band by more than two standard
errors ends with `!`.

  success: coverage of intervals of success, beside Wilson's on all samples as if
    they were independent (naive).
  pieces: the same where samples are missing, tasks come from templates of unequal
    sizes, the values are pass@k or graded progress, or returns without bounds.
  difference: coverage of intervals of a paired difference; naive: two independent
    proportions of independent samples.
  same: how often a policy differs from itself.
  power: how often a planned study detects the planned difference; no band where
    for k > 1 fewer than ten tasks are expected to be lost.
  seeds: coverage of intervals over training seeds (2,000 simulations), of runs that
    are normal, skewed, or collapse at times.
"""

import functools
import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from absl import app, flags
from scipy import special, stats

from agentrl.evaluation.compare import comparison
from agentrl.evaluation.stats import intervals, power, training_seeds

_PARTS = flags.DEFINE_list(
    'parts',
    ['success', 'pieces', 'difference', 'same', 'power', 'seeds'],
    'Which simulations.',
)
_SIMULATIONS = flags.DEFINE_integer('simulations', 10_000, 'Of each cell.')
_SEED = flags.DEFINE_integer('draws_seed', 0, 'Of all that is drawn.')

_Z = stats.norm.ppf(0.975)
_RESAMPLES = 999  # of a permutation test; its p-values are multiples of 1/1000
_GRID = (np.arange(20_000) + 0.5) / 20_000  # of quantiles of chances
RATES = (0.02, 0.5, 0.98)
SAMPLES = (1, 2, 4, 8)
CLUSTERS = (20, 50, 100, 200, 500)
CORRELATIONS = (0.0, 0.1, 0.3, 0.6, 0.9)
Row = dict[str, Any]


class Band(NamedTuple):
  """A share of simulations, and the least and greatest that is right."""

  value: float
  simulations: int
  least: float = 0.0
  most: float = 1.0

  @property
  def held(self) -> bool:
    # Two standard errors of a share that lies on the edge.
    noise = lambda edge: 2 * math.sqrt(edge * (1 - edge) / self.simulations)
    low, high = self.least - noise(self.least), self.most + noise(self.most)
    return low <= self.value <= high

  def __str__(self) -> str:
    return f'{self.value:.3f}' + ('' if self.held else ' !')


def share(hits: np.ndarray, least: float = 0.0, most: float = 1.0) -> Band:
  """The share of hits, one a simulation."""
  return Band(float(np.mean(hits)), len(hits), least, most)


def span(bands: list[Band]) -> str:
  """The least and the greatest of some shares."""
  value = lambda band: band.value
  if not bands:
    return ''
  return f'{min(bands, key=value)} to {max(bands, key=value)}'


@functools.cache
def chances(rate: float, icc: float) -> np.ndarray:
  """Quantiles `[20000]` of a task's chance, the mean of which is `rate`."""
  if icc == 0:
    return np.full(len(_GRID), rate)
  scale = (1 - icc) / icc
  return special.betaincinv(rate * scale, (1 - rate) * scale, _GRID)


def coverage(ends: intervals.Ends, truth: float, regular: bool) -> Band:
  """Share of intervals that hold the truth.

  To be 93% to 97% where there is enough to see, else at least 92%.
  """
  held = (ends.low <= truth) & (truth <= ends.high)
  return share(held, 0.93, 0.97) if regular else share(held, 0.92)


def is_regular(table: np.ndarray, k: int, clusters: int) -> bool:
  """Ten successes and ten failures are expected, in distinct clusters."""
  fewest = min(np.mean(1 - (1 - table) ** k), np.mean(1 - table**k))
  return bool(clusters * fewest >= 10 - 1e-6)


def success_cell(
    rng: np.random.Generator,
    simulations: int,
    *,
    rate: float,
    icc: float,
    k: int,
    clusters: int,
) -> Row:
  """Coverage of the interval of success, and of the naive one."""
  table = chances(rate, icc)
  truth = table.mean()
  drawn = table[rng.integers(len(table), size=(simulations, clusters))]
  successes = rng.binomial(k, drawn)
  ends = intervals.interval_ends(successes / k, bounds=(0, 1), single=k == 1)
  p = successes.sum(-1) / (k * clusters)
  ratio = _Z**2 / (k * clusters)
  centre = (p + ratio / 2) / (1 + ratio)
  half = np.sqrt(ratio * p * (1 - p) + ratio**2 / 4) / (1 + ratio)
  naive = intervals.Ends(centre - half, centre + half, p < 0)
  regular = is_regular(table, k, clusters)
  return {
      'regular': regular,
      'coverage': coverage(ends, truth, regular),
      'width': float((ends.high - ends.low).mean()),
      'conservative': float(ends.conservative.mean()),
      'naive': coverage(naive, truth, regular),
  }


def success(rng: np.random.Generator, simulations: int) -> Iterator[Row]:
  """Rows by rate, k and clusters: coverage over icc."""
  for rate in RATES:
    for k in SAMPLES:
      for clusters in CLUSTERS:
        cells = [
            success_cell(
                rng, simulations, rate=rate, icc=icc, k=k, clusters=clusters
            )
            for icc in (CORRELATIONS if k > 1 else CORRELATIONS[:1])
        ]
        yield {
            'rate': rate,
            'k': k,
            'clusters': clusters,
            'coverage': span([c['coverage'] for c in cells]),
            'regular': span([c['coverage'] for c in cells if c['regular']]),
            'conservative': round(max(c['conservative'] for c in cells), 2),
            'naive': span([c['naive'] for c in cells]),
        }


def pieces(rng: np.random.Generator, simulations: int) -> Iterator[Row]:
  """Coverage where samples are missing, by template, of graded values."""
  for rate in (0.02, 0.5):
    for clusters in (20, 50, 100, 200):
      for icc in (0.1, 0.6):
        table = chances(rate, icc)
        truth = float(table.mean())
        shape = (simulations, clusters)
        drawn = table[rng.integers(len(table), size=shape)]
        # One to four of four samples are valid.
        valid = rng.integers(1, 5, size=clusters)
        missing = intervals.interval_ends(
            rng.binomial(valid, drawn) / valid, bounds=(0, 1)
        )
        # One to five tasks of a template have one chance.
        label = np.repeat(np.arange(clusters), 1 + np.arange(clusters) % 5)
        template = intervals.interval_ends(
            rng.binomial(1, drawn[:, label]), clusters=label, bounds=(0, 1)
        )
        # pass@4 of eight samples.
        any_of_four = 1 - special.comb(8 - np.arange(9), 4) / special.comb(8, 4)
        passes = intervals.interval_ends(
            any_of_four[rng.binomial(8, drawn)], bounds=(0, 1)
        )
        passed = float((1 - (1 - table) ** 4).mean())
        # At the least as regular as with one sample a cluster.
        regular = is_regular(table, 1, clusters)
        yield {
            'rate': rate,
            'icc': icc,
            'clusters': clusters,
            'samples missing': coverage(missing, truth, regular),
            'by template': coverage(template, truth, regular),
            'pass@4 of 8': coverage(passes, passed, regular),
        }


def returns(rng: np.random.Generator, simulations: int) -> Iterator[Row]:
  """Coverage of means of returns: t without bounds."""
  for clusters in CLUSTERS:
    shape = (simulations, clusters)
    row = {'clusters': clusters}
    for name, task in {
        'normal': rng.normal(size=shape),
        'exponential': rng.exponential(size=shape) - 1,
    }.items():
      # Four samples of a task, noise as large as the spread of tasks.
      values = task + rng.normal(scale=0.5, size=shape)
      ends = intervals.interval_ends(values)
      row[name] = coverage(ends, 0.0, name == 'normal')
      half = _Z / math.sqrt(4 * clusters) * math.sqrt(2)
      mean = values.mean(-1)
      naive = intervals.Ends(mean - half, mean + half, mean > 0)
      row[f'{name}, naive'] = coverage(naive, 0.0, True)
    yield row


def pair_of_chances(
    rng: np.random.Generator,
    rates: tuple[float, float],
    icc: float,
    agreement: float,
    shape: tuple[int, int],
) -> tuple[np.ndarray, np.ndarray, float, float]:
  """Two policies' chances on the same tasks, their difference and correlation.

  With chance `agreement` a task is at one quantile for both; else what is hard
  for one says nothing about the other.
  """
  tables = [chances(rate, icc) for rate in rates]
  first = rng.integers(len(_GRID), size=shape)
  other = rng.integers(len(_GRID), size=shape)
  second = np.where(rng.random(shape) < agreement, first, other)
  spread = tables[0].std() * tables[1].std()
  correlation = 0.0
  if icc:
    covariance = np.mean(tables[0] * tables[1])
    covariance -= tables[0].mean() * tables[1].mean()
    correlation = agreement * covariance / spread
  truth = tables[0].mean() - tables[1].mean()
  return tables[0][first], tables[1][second], truth, correlation


def difference_cell(
    rng: np.random.Generator,
    simulations: int,
    *,
    rates: tuple[float, float],
    icc: float,
    agreement: float,
    k: int,
    clusters: int,
) -> Row:
  """Coverage of the interval of a difference, and of the naive one."""
  first, second, truth, _ = pair_of_chances(
      rng, rates, icc, agreement, (simulations, clusters)
  )
  a, b = rng.binomial(k, first), rng.binomial(k, second)
  differences = (a - b) / k
  ends = comparison.difference_ends(differences, bounds=(0, 1), single=k == 1)
  wins = [(sign * differences > 0).sum(-1).mean() for sign in (1, -1)]
  regular = min(wins) >= 10
  n = k * clusters
  p, q = a.sum(-1) / n, b.sum(-1) / n
  half = _Z * np.sqrt((p * (1 - p) + q * (1 - q)) / n)
  naive = intervals.Ends(p - q - half, p - q + half, p < 0)
  return {
      'regular': regular,
      'coverage': coverage(ends, truth, regular),
      'naive': coverage(naive, truth, regular),
  }


def difference(rng: np.random.Generator, simulations: int) -> Iterator[Row]:
  """Rows by rates, k and clusters: coverage over icc and agreement."""
  pairs = ((0.02, 0.02), (0.02, 0.06), (0.5, 0.5), (0.5, 0.6), (0.98, 0.95))
  for rates in pairs:
    for k in (1, 2, 8):
      for clusters in (20, 50, 200, 500):
        cells = [
            difference_cell(
                rng,
                simulations,
                rates=rates,
                icc=icc,
                agreement=agreement,
                k=k,
                clusters=clusters,
            )
            for icc, agreement in ((0.0, 0.0), (0.3, 0.8), (0.6, 0.0))
        ]
        yield {
            'rates': f'{rates[0]}, {rates[1]}',
            'k': k,
            'clusters': clusters,
            'coverage': span([c['coverage'] for c in cells]),
            'regular': span([c['coverage'] for c in cells if c['regular']]),
            'naive': span([c['naive'] for c in cells]),
        }


def same_cell(
    rng: np.random.Generator,
    simulations: int,
    *,
    rate: float,
    icc: float,
    clusters: int,
) -> Row:
  """Share of significant differences of a policy from itself."""
  table = chances(rate, icc)
  shape = (simulations, clusters)
  chance = table[rng.integers(len(table), size=shape)]
  a, b = rng.binomial(1, chance), rng.binomial(1, chance)
  won, lost = (a > b).sum(-1), (a < b).sum(-1)
  exact, mid = comparison.mcnemar(won, lost)
  found = lambda p, least, most: share(p <= 0.05, least, most)
  discordant = float((won + lost).mean())
  row = {
      'rate': rate,
      'icc': icc,
      'clusters': clusters,
      'discordant': round(discordant, 1),
      'exact': found(exact, 0.0, 0.05),
      'mid-p': found(
          mid, *((0.04, 0.06) if discordant >= 50 else (0.0, 0.065))
      ),
  }
  # Eight subtasks, each with an eighth of the tasks.
  parts = np.array_split(np.arange(clusters), 8)
  by_part = [
      comparison.mcnemar((a > b)[:, part].sum(-1), (a < b)[:, part].sum(-1))[0]
      for part in parts
  ]
  smallest = np.array(
      [min(comparison.holm(p_values)) for p_values in np.transpose(by_part)]
  )
  row['Holm of 8, any'] = found(smallest, 0.0, 0.05)
  for k in (2, 8):
    a, b = rng.binomial(k, chance), rng.binomial(k, chance)
    p_values = comparison.sign_flips(
        a - b,
        seed=int(rng.integers(2**31)),
        resamples=_RESAMPLES,
        most=_RESAMPLES,
    )
    row[f'permutation, k={k}'] = found(p_values, 0.0, 0.065)
  noise = rng.exponential(size=(2, *shape))
  p_values = comparison.sign_flips(
      noise[0] - noise[1],
      seed=int(rng.integers(2**31)),
      resamples=_RESAMPLES,
      most=_RESAMPLES,
  )
  row['permutation, returns'] = found(p_values, 0.0, 0.065)
  return row


def same(rng: np.random.Generator, simulations: int) -> Iterator[Row]:
  """Rows by rate, icc and clusters."""
  for rate in (0.02, 0.5):
    for icc in (0.0, 0.6):
      for clusters in (20, 50, 200, 500):
        yield same_cell(rng, simulations, rate=rate, icc=icc, clusters=clusters)


def power_cell(
    rng: np.random.Generator,
    simulations: int,
    *,
    rates: tuple[float, float],
    icc: float,
    agreement: float,
    k: int,
) -> Row:
  """Share of studies of the planned size that detect the difference."""
  *_, truth, correlation = pair_of_chances(rng, rates, icc, agreement, (1, 1))
  planned = power.plan(
      rates[0], -truth, samples=(k,), icc=icc, agreement=correlation
  )[0]
  first, second, _, _ = pair_of_chances(
      rng, rates, icc, agreement, (simulations, planned.tasks)
  )
  a, b = rng.binomial(k, first), rng.binomial(k, second)
  if k == 1:
    p_values = comparison.mcnemar((a > b).sum(-1), (a < b).sum(-1))[0]
  else:
    p_values = comparison.sign_flips(
        a - b,
        seed=int(rng.integers(2**31)),
        resamples=_RESAMPLES,
        most=_RESAMPLES,
    )
  ends = comparison.difference_ends((a - b) / k, bounds=(0, 1), single=k == 1)
  regular = k == 1 or (a > b).sum(-1).mean() >= 10
  middle = lambda values: float(np.median(values))
  interval = intervals.Interval(
      0.0, middle(ends.low), middle(ends.high), 'clustered'
  )
  return {
      'rates': f'{rates[0]}, {rates[1]}',
      'icc': icc,
      'agreement': agreement,
      'k': k,
      'tasks': planned.tasks,
      'tasks lost': round(float((a > b).sum(-1).mean()), 1),
      'detected': share(p_values <= 0.05, *((0.77, 0.83) if regular else ())),
      'smallest detectable after': round(
          intervals.detectable_difference(interval, paired=True), 3
      ),
  }


def planning(rng: np.random.Generator, simulations: int) -> Iterator[Row]:
  """Rows by rates, icc, agreement and k."""
  for rates in ((0.02, 0.06), (0.5, 0.6), (0.5, 0.75), (0.9, 0.95)):
    for icc, agreement in ((0.0, 0.0), (0.4, 0.9), (0.7, 0.5)):
      for k in (1, 2, 8):
        yield power_cell(
            rng, simulations, rates=rates, icc=icc, agreement=agreement, k=k
        )


def seeds(rng: np.random.Generator, simulations: int) -> Iterator[Row]:
  """Rows by seeds and environments; success of runs around 0.6."""
  for environments in (1, 5):
    # Environments differ in level; runs spread around it, skewed to failure.
    level = np.linspace(0.4, 0.8, environments) if environments > 1 else [0.6]
    draw = lambda n, level=level: rng.beta(
        4 * np.asarray(level)[:, None],
        4 * (1 - np.asarray(level))[:, None],
        size=(len(level), n),
    )
    truth = stats.trim_mean(draw(200_000).ravel(), 0.25)
    mean = float(np.mean(level))
    for count in (3, 5, 10, 20):
      held = []
      simulations = min(simulations, 2_000)  # half a second a hundred
      for i in range(simulations):
        scores = {str(j): runs for j, runs in enumerate(draw(count))}
        interval = training_seeds.over_seeds(scores, seed=i)
        held.append((
            interval.low <= truth <= interval.high,
            interval.mean_low <= mean <= interval.mean_high,
        ))
      held = np.array(held)
      yield {
          'environments': environments,
          'seeds': count,
          'interquartile mean, bootstrap': share(held[:, 0]),
          'mean, t': share(held[:, 1], 0.92),
      }


def _runs(shape: str, rng: np.random.Generator, size: Any) -> np.ndarray:
  """Success of runs after training: what seeds of one arm may look like."""
  usual = rng.normal(0.8, 0.05, size)
  match shape.split():
    case ['normal']:
      found = usual
    case ['skewed']:  # a long tail of runs that learn less
      found = rng.beta(8, 1.6, size)
    case ['collapse', probability]:
      gone = rng.random(size) < float(probability)
      found = np.where(gone, rng.normal(0.1, 0.05, size), usual)
  # Of 256 tasks, as a panel has.
  return rng.binomial(256, np.clip(found, 0, 1)) / 256


SHAPES = ('normal', 'skewed', 'collapse 0.1', 'collapse 0.2', 'collapse 0.5')


def shapes(rng: np.random.Generator, simulations: int) -> Iterator[Row]:
  """Rows by shape and seeds: an arm's interval, and a difference's.

  The difference is from an arm of 'normal' runs. `unseen`: of the simulations
  that do not cover the mean, the share in which no run had collapsed.
  """
  for shape in SHAPES:
    mean = float(_runs(shape, rng, 4_000_000).mean())
    normal = float(_runs('normal', rng, 4_000_000).mean())
    for count in (3, 5, 10, 20):
      scores = _runs(shape, rng, (count, simulations))
      found = training_seeds.mean_intervals(scores)
      held = (found.low <= mean) & (mean <= found.high)
      missed = scores[:, ~held]
      few = min(simulations, 2_000)  # each has a bootstrap, too
      others = _runs('normal', rng, (count, few))
      differences = []
      for i in range(few):
        both = training_seeds.seed_difference(
            {'': scores[:, i]}, {'': others[:, i]}, seed=i
        )
        differences.append(both.mean_low <= mean - normal <= both.mean_high)
      row = {
          'shape': shape,
          'seeds': count,
          'mean, t': share(held, 0.93),
          'difference, Welch': share(np.array(differences), 0.93),
          'unseen': '',
      }
      if shape.startswith('collapse'):
        row['unseen'] = f'{np.mean(missed.min(0) > 0.5):.2f}'
      yield row


PARTS = {
    'success': (success,),
    'pieces': (pieces, returns),
    'difference': (difference,),
    'same': (same,),
    'power': (planning,),
    'seeds': (seeds, shapes),
}


def main(argv):
  del argv
  for name in _PARTS.value:
    for part in PARTS[name]:
      rng = np.random.default_rng(_SEED.value)
      start = time.perf_counter()
      print(f'\n## {name}: {part.__name__}\n')
      for i, row in enumerate(part(rng, _SIMULATIONS.value)):
        if i == 0:
          print(f'| {" | ".join(row)} |\n|{"---|" * len(row)}')
        cells = (
            f'{cell:g}' if type(cell) is float else cell
            for cell in row.values()
        )
        print(f'| {" | ".join(map(str, cells))} |', flush=True)
      print(f'\n{time.perf_counter() - start:.0f} s')


if __name__ == '__main__':
  app.run(main)
