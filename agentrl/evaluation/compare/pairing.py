"""Rows of a comparison: two sides, paired by (environment, task, sample).

Intervals and tests are about the panel: how the difference between these very
policies would move on other tasks of the same kind. A side of several runs has
the mean of their values.
"""

import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agentrl.evaluation.compare import comparison
from agentrl.evaluation.compare.comparison import Values
from agentrl.evaluation.compare.recorded import Key, Played, Recorded
from agentrl.evaluation.compare.sides import Side
from agentrl.evaluation.results import ALL, Figure, Panel
from agentrl.evaluation.stats import intervals

ERRORS_FAIL = 'success_errors_fail'  # success, each missing episode a failure
# Metric -> an episode's value of it; None: it has none.
_READ = {
    'success': lambda episode: episode.success,
    ERRORS_FAIL: lambda episode: episode.success or 0.0,
    'return': lambda episode: episode.ret,
    'progress': lambda episode: episode.progress,
}
METRICS = tuple(_READ)


class PairedRow(msgspec.Struct, frozen=True, kw_only=True):
  """One metric of two sides on one subtask of an environment, or all of it.

  Pairs without two valid episodes are `missing`. Numbers of no pair are None.

  Attributes:
    env: name of the environment.
    subtask: a kind of task, or `results.ALL`.
    a: label of the first side.
    b: label of the second.
    metric: 'success', 'success_errors_fail' (each missing episode counts as a
      failure), 'return' or 'progress'.
    mean_a: mean over tasks, of the pairs.
    mean_b: likewise.
    difference: a minus b.
    low: of its 95% interval over tasks; None, too, where it has no bound.
    high: likewise.
    method: of the interval, see `intervals.Interval`.
    p_value: of the test of no difference; McNemar's is the exact one.
    mid_p_value: McNemar's mid-p.
    p_holm: `p_value` adjusted for all tests of its family, see `adjusted`;
      None in rows of all tasks where two sides alone are compared.
    holm_family: what the tests of the family are of: 'subtasks', 'pairs' of
      sides, or 'pairs and subtasks'; None without `p_holm`.
    holm_tests: how many tests the family has.
    test: 'mcnemar' or 'permutation'.
    detectable: the smallest difference that such a panel shows in 80% of
      repetitions.
    pairs: pairs compared.
    tasks: tasks with one.
    missing: pairs left out.
    won: pairs in which a alone succeeded; None for other metrics than success,
      and for several runs.
    lost: in which b alone did.
    both: in which both did.
    neither: in which neither did.
    unit: what the interval and the test are about: other tasks.
  """

  env: str
  subtask: str
  a: str
  b: str
  metric: str
  mean_a: float | None = None
  mean_b: float | None = None
  difference: float | None = None
  low: float | None = None
  high: float | None = None
  method: str | None = None
  p_value: float | None = None
  mid_p_value: float | None = None
  p_holm: float | None = None
  holm_family: str | None = None
  holm_tests: int | None = None
  test: str | None = None
  detectable: float | None = None
  pairs: int = 0
  tasks: int = 0
  missing: int = 0
  won: int | None = None
  lost: int | None = None
  both: int | None = None
  neither: int | None = None
  unit: str = 'task'


class EpisodePair(msgspec.Struct, frozen=True):
  """A task and sample, and the ids of the two episodes of it."""

  task_id: int
  sample: int
  subtask: str
  a: str
  b: str


class EpisodeOutcomes(msgspec.Struct, frozen=True, kw_only=True):
  """All pairs of two policies in an environment, by who succeeded."""

  env: str
  a: str
  b: str
  won: tuple[EpisodePair, ...]
  lost: tuple[EpisodePair, ...]
  both: tuple[EpisodePair, ...]
  neither: tuple[EpisodePair, ...]
  missing: tuple[EpisodePair, ...]


def compare_sides(
    a: Side,
    b: Side,
    panels: Mapping[str, Panel],
    *,
    seed: int,
    metrics: Sequence[str] = METRICS,
    by_subtask: bool = True,
) -> Iterator[PairedRow]:
  """Rows of every environment: all of it, then its subtasks, by metric.

  They have no `p_holm` yet: its family may have rows of other pairs of sides.

  Args:
    a: the first side.
    b: the second.
    panels: by `sides.common_panels`.
    seed: of the permutation tests' draws.
    metrics: that are compared.
    by_subtask: False leaves out all rows but those of all tasks.
  """
  single = len(a.runs) == len(b.runs) == 1
  for env, panel in panels.items():
    parts = _parts(panel, by_subtask)
    for metric in metrics:
      first, second = values_of(a, env, metric), values_of(b, env, metric)
      reported = _any(first) and _any(second)
      if metric == 'progress' and not reported:
        continue
      for subtask, clusters in parts.items():
        row = PairedRow(
            env=env, subtask=subtask, a=a.label, b=b.label, metric=metric
        )
        within = lambda values, tasks=clusters: {
            key: value for key, value in values.items() if key[0] in tasks
        }
        yield _fill(
            row,
            within(first),
            within(second),
            clusters=clusters,
            outcomes=single and metric in ('success', ERRORS_FAIL),
            seed=seed,
        )


def adjusted(rows: Sequence[PairedRow]) -> list[PairedRow]:
  """The rows of a whole comparison with Holm's adjusted p-values.

  One metric in one environment has two families: the rows of all tasks, one of
  each pair of sides; and those of the subtasks, of every pair. The rows of all
  tasks of a single pair are no family.

  Args:
    rows: by `compare_sides`, of every pair of sides.
  """
  pairs = len({(row.a, row.b) for row in rows})
  families: defaultdict[tuple[str, str, bool], list[tuple[int, float]]] = (
      defaultdict(list)
  )
  for i, row in enumerate(rows):
    whole = row.subtask == ALL
    if row.p_value is not None and (pairs > 1 or not whole):
      families[row.env, row.metric, whole].append((i, row.p_value))
  adjusted_rows = list(rows)
  for (_, _, whole), members in families.items():
    kind = 'pairs' if whole else 'pairs and subtasks'
    p_values = comparison.holm([p_value for _, p_value in members])
    for (i, _), p_value in zip(members, p_values, strict=True):
      adjusted_rows[i] = msgspec.structs.replace(
          rows[i],
          p_holm=p_value,
          holm_family=kind if pairs > 1 else 'subtasks',
          holm_tests=len(members),
      )
  return adjusted_rows


def bounds(metric: str) -> tuple[float, float] | None:
  """Least and greatest value of a metric; a return has none."""
  return None if metric == 'return' else (0.0, 1.0)


def episode_outcomes(a: Side, b: Side, env: str) -> EpisodeOutcomes:
  """Episode ids of two single policies in an environment, by who succeeded."""
  (first,), (second,) = a.runs, b.runs
  panel = first.panels[env]
  subtask = dict(zip(panel.task_ids, panel.subtasks, strict=True))
  outcomes = comparison.outcomes(
      values_of(a, env, 'success'), values_of(b, env, 'success')
  )

  def pair(key: Key) -> EpisodePair:
    task, sample = key
    return EpisodePair(
        task,
        sample,
        subtask[task],
        first.episodes[env][key].episode_id,
        second.episodes[env][key].episode_id,
    )

  by_outcome = {
      name: tuple(map(pair, keys)) for name, keys in outcomes._asdict().items()
  }
  return EpisodeOutcomes(env=env, a=a.label, b=b.label, **by_outcome)


def score(run: Recorded, env: str, metric: str) -> float | None:
  """Mean over tasks of a run's mean over a task's valid episodes; or None."""
  values = values_of(Side('', [run]), env, metric)
  valid = [key for key, value in values.items() if value is not None]
  return _mean(values, valid) if valid else None


def values_of(side: Side, env: str, metric: str) -> dict[Key, float | None]:
  """A side's value of each task and sample: the mean over its runs.

  None where no run has a valid episode, or the environment reports none.
  """

  def value(episodes: Sequence[Played]) -> float | None:
    values = [_READ[metric](episode) for episode in episodes]
    values = [x for x in values if x is not None]
    return statistics.fmean(values) if values else None

  return {
      key: value([run.episodes[env][key] for run in side.runs])
      for key in side.runs[0].episodes[env]
  }


def _any(values: Values) -> bool:
  return any(value is not None for value in values.values())


def _parts(panel: Panel, by_subtask: bool) -> dict[str, dict[int, Hashable]]:
  """The cluster of each task: of all tasks, then of each kind of several."""
  indexes: dict[str, list[int]] = {ALL: list(range(len(panel.task_ids)))}
  if by_subtask and len(set(panel.subtasks)) > 1:
    for subtask in sorted(set(panel.subtasks)):
      indexes[subtask] = [
          i for i, kind in enumerate(panel.subtasks) if kind == subtask
      ]
  parts = {}
  for name, own in indexes.items():
    tasks = [panel.task_ids[i] for i in own]
    clusters = panel.clusters_of(own) or tasks
    parts[name] = dict(zip(tasks, clusters, strict=True))
  return parts


def _fill(
    row: PairedRow,
    first: Values[int],
    second: Values[int],
    *,
    clusters: Mapping[int, Hashable],
    outcomes: bool,
    seed: int,
) -> PairedRow:
  """The row with its numbers."""
  valid = [
      key for key in first if first[key] is not None and second[key] is not None
  ]
  numbers: dict[str, Any] = {'missing': len(first) - len(valid)}
  if outcomes:
    by_outcome = comparison.outcomes(first, second)._asdict()
    numbers |= {name: len(keys) for name, keys in by_outcome.items()}
  if not valid:
    return msgspec.structs.replace(row, **numbers)
  result = comparison.compare(
      first, second, seed=seed, clusters=clusters, bounds=bounds(row.metric)
  )
  figure = Figure.of(result.difference)
  has_interval = None not in (figure.low, figure.high)
  return msgspec.structs.replace(
      row,
      **numbers,
      mean_a=_mean(first, valid),
      mean_b=_mean(second, valid),
      difference=figure.mean,
      low=figure.low,
      high=figure.high,
      method=figure.method,
      p_value=result.p_value,
      mid_p_value=result.mid_p_value,
      test=result.test,
      detectable=(
          intervals.detectable_difference(result.difference, paired=True)
          if has_interval
          else None
      ),
      pairs=result.pairs,
      tasks=result.tasks,
  )


def _mean(values: Values[int], keys: Sequence[Key]) -> float:
  """Mean over tasks of each task's mean, over some pairs."""
  by_task: defaultdict[int, list[float]] = defaultdict(list)
  for key in keys:
    value = values[key]
    assert value is not None  # of a valid pair
    by_task[key[0]].append(value)
  return statistics.fmean(map(statistics.fmean, by_task.values()))
