"""All pairs of several sides on one panel, sorted by success.

The rows are those of `pairing` and `seed_rows`; Holm's family are all pairs.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from agentrl.errors import PanelError
from agentrl.evaluation.compare import pairing, sides as sides_lib
from agentrl.evaluation.compare.pairing import PairedRow
from agentrl.evaluation.compare.sides import Side
from agentrl.evaluation.results import ALL
from agentrl.evaluation.stats import intervals, seed_rows, training_seeds
from agentrl.evaluation.stats.seed_rows import DIFFERENCE, SeedRow

SUCCESS = 'success'


class Standing(msgspec.Struct, frozen=True, kw_only=True):
  """Success of one side on all tasks that it has played of an environment.

  Attributes:
    env: name of the environment.
    label: of the side.
    mean: over tasks, of the mean over runs; None: no valid episode.
    low: of its 95% interval over tasks; None: not known.
    high: likewise.
    tasks: with a valid episode.
    runs: of the side.
    seed_low: of the 95% t interval over training seeds; None: one run, or all
      are equal.
    seed_high: likewise.
  """

  env: str
  label: str
  mean: float | None
  low: float | None
  high: float | None
  tasks: int
  runs: int
  seed_low: float | None = None
  seed_high: float | None = None


class Refused(msgspec.Struct, frozen=True, kw_only=True):
  """Two sides that have no panel in common, and why; or one whose runs have none."""

  a: str
  b: str
  why: str


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
  """Differences in success between all sides in one environment.

  Attributes:
    env: name of the environment.
    standings: of the sides, best first.
    rows: of each pair that compares, the better side first; over tasks.
    seed_rows: differences of the same over training seeds, where both sides
      have several runs.
    refused: the pairs that do not compare.
  """

  env: str
  standings: tuple[Standing, ...]
  rows: tuple[PairedRow, ...]
  seed_rows: tuple[SeedRow, ...] = ()
  refused: tuple[Refused, ...] = ()


def standings(side: Side) -> list[Standing]:
  """Success of a side in each environment, on the tasks of all its runs.

  Raises:
    PanelError: its own runs have no panel in common.
  """
  shared, _ = sides_lib.common_panels(side, side)
  own = sides_lib.paired(side, shared)
  return [_standing(own, env) for env in shared]


def _standing(side: Side, env: str) -> Standing:
  panel = side.runs[0].panels[env]
  samples: dict[int, list[float]] = {task: [] for task in panel.task_ids}
  for (task, _), value in pairing.values_of(side, env, SUCCESS).items():
    if value is not None:
      samples[task].append(value)
  played = sum(map(bool, samples.values()))
  scores = [pairing.score(run, env, SUCCESS) for run in side.runs]
  over = training_seeds.mean_intervals(np.array(scores, np.float64))
  found = None
  if played:
    found = intervals.mean_interval(
        list(samples.values()),
        clusters=panel.clusters_of(range(len(samples))),
        bounds=(0.0, 1.0),
    )
  return Standing(
      env=env,
      label=side.label,
      mean=found and found.mean,
      low=found and found.low,
      high=found and found.high,
      tasks=played,
      runs=len(side.runs),
      seed_low=_known(over.low),
      seed_high=_known(over.high),
  )


def compare(sides: Sequence[Side], *, seed: int) -> list[Matrix]:
  """The matrix of each environment; pairs without a common panel are refused.

  Args:
    sides: at least two.
    seed: of the permutation tests' and the bootstraps' draws.
  """
  rows: list[PairedRow] = []
  over: list[SeedRow] = []
  refused: dict[str, list[Refused]] = {}
  stands, whole = [], []
  for side in sides:
    try:
      stands += standings(side)
      whole.append(side)
    except PanelError as error:
      reason = Refused(a=side.label, b=side.label, why=str(error))
      for env in {env for run in side.runs for env in run.panels}:
        refused.setdefault(env, []).append(reason)
  for whole_a, whole_b in itertools.combinations(whole, 2):
    try:
      shared, _ = sides_lib.common_panels(whole_a, whole_b)
      a, b = (sides_lib.paired(side, shared) for side in (whole_a, whole_b))
      rows += pairing.compare_sides(
          a, b, shared, seed=seed, metrics=(SUCCESS,), by_subtask=False
      )
      if min(len(a.runs), len(b.runs)) > 1:
        over += seed_rows.compare_algorithms(
            a, b, list(shared), seed=seed, metrics=(SUCCESS,)
        )
    except PanelError as error:
      reason = Refused(a=whole_a.label, b=whole_b.label, why=str(error))
      for env in {env for run in whole_a.runs for env in run.panels} & {
          env for run in whole_b.runs for env in run.panels
      }:
        refused.setdefault(env, []).append(reason)
  return of(stands, pairing.adjusted(rows), over, refused)


def of(
    stands: Sequence[Standing],
    rows: Sequence[PairedRow],
    over_seeds: Sequence[SeedRow] = (),
    refused: Mapping[str, Sequence[Refused]] | None = None,
) -> list[Matrix]:
  """The matrix of each environment from the rows of a comparison.

  Args:
    stands: of all sides, by `standings`.
    rows: of all pairs, with `p_holm`; other metrics and subtasks are left out.
    over_seeds: likewise.
    refused: by environment.
  """
  matrices = []
  for env in dict.fromkeys(each.env for each in stands):
    sorted_out = sorted(
        (each for each in stands if each.env == env),
        key=lambda each: (each.mean is None, -(each.mean or 0.0)),
    )
    rank = {each.label: i for i, each in enumerate(sorted_out)}
    own = [
        row
        for row in rows
        if (row.env, row.metric, row.subtask) == (env, SUCCESS, ALL)
    ]
    better_first = [
        row if rank[row.a] < rank[row.b] else turned(row) for row in own
    ]
    over = [
        row if rank[row.a] < rank[row.b] else _turned_seeds(row)
        for row in over_seeds
        if (row.env, row.metric, row.side) == (env, SUCCESS, DIFFERENCE)
    ]
    place = lambda row, rank=rank: (rank[row.a], rank[row.b])
    matrices.append(
        Matrix(
            env=env,
            standings=tuple(sorted_out),
            rows=tuple(sorted(better_first, key=place)),
            seed_rows=tuple(sorted(over, key=place)),
            refused=tuple((refused or {}).get(env, ())),
        )
    )
  return matrices


def turned(row: PairedRow) -> PairedRow:
  """The same row as b against a."""
  return msgspec.structs.replace(
      row,
      a=row.b,
      b=row.a,
      mean_a=row.mean_b,
      mean_b=row.mean_a,
      difference=_minus(row.difference),
      low=_minus(row.high),
      high=_minus(row.low),
      won=row.lost,
      lost=row.won,
  )


def frame(matrix: Matrix) -> Iterator[dict[str, Any]]:
  """A plain row for each pair that compares, the better side first."""
  over = {(row.a, row.b): row for row in matrix.seed_rows}
  for row in matrix.rows:
    seeds = over.get((row.a, row.b))
    yield {
        'env': matrix.env,
        'a': row.a,
        'b': row.b,
        'success_a': row.mean_a,
        'success_b': row.mean_b,
        'difference': row.difference,
        'low': row.low,
        'high': row.high,
        'unit': row.unit,
        'won': row.won,
        'lost': row.lost,
        'p_value': row.p_value,
        'p_holm': row.p_holm,
        'holm_tests': row.holm_tests,
        'test': row.test,
        'tasks': row.tasks,
        'pairs': row.pairs,
        'seeds': seeds and seeds.seeds,
        'seed_low': seeds and seeds.mean_low,
        'seed_high': seeds and seeds.mean_high,
    }


def _turned_seeds(row: SeedRow) -> SeedRow:
  return msgspec.structs.replace(
      row,
      a=row.b,
      b=row.a,
      interquartile_mean=-row.interquartile_mean,
      low=_minus(row.high),
      high=_minus(row.low),
      mean=-row.mean,
      mean_low=_minus(row.mean_high),
      mean_high=_minus(row.mean_low),
  )


def _minus(value: float | None) -> float | None:
  return None if value is None else 0.0 - value


def _known(value: np.ndarray) -> float | None:
  return float(value) if np.isfinite(value) else None
