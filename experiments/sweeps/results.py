"""Results of a sweep: its finished runs and their arms.

A run of a mixture is as many here as it has members: what one reached in another
environment is compared with nothing else.
"""

import dataclasses
import functools
import pathlib
import statistics
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from agentrl import envs, metrics as metrics_lib
from agentrl.config import mixture
from agentrl.data import episodes as episodes_lib
from agentrl.evaluation.chance.level import KINDS
from agentrl.evaluation.compare.comparison import Values
from agentrl.evaluation.stats import intervals
from agentrl.evaluation.stats.intervals import Interval
from agentrl.runtime import summary as summary_lib
from agentrl.types import Episode
from experiments.sweeps import folder
from experiments.sweeps.cells import Cell

_ALL = 'rollout/'  # metrics of the episodes of all members
# What episodes are measured by, and the turns that they took.
SUCCESS, RETURN, TURNS = 'success', 'return', 'turns'
BOUNDS = {SUCCESS: (0.0, 1.0), RETURN: None}  # least and greatest value


@dataclasses.dataclass(frozen=True)
class Run:
  """A finished run, or one member of a mixture's.

  Attributes:
    cell: of the sweep.
    config: as its workdir keeps it; of a member, with its sections.
    summary: likewise; of a member, with its evaluations under their own names.
    metrics: one record a step; of a member, its own under names without it.
    played: its last evaluation: by measure, and of `TURNS`, the value of each
      (task, sample), the mean over attempts; None where the infrastructure failed the episode.
    played_before: likewise of the evaluation before the first step; empty without
      one.
    member: of the mixture; '' without one.
  """

  cell: Cell
  config: Mapping[str, Any]
  summary: Mapping[str, Any]
  metrics: Sequence[Mapping[str, float]]
  played: Mapping[str, Values]
  played_before: Mapping[str, Values]
  member: str = ''

  @property
  def name(self) -> str:
    return _joined(self.cell.name, self.member)

  @property
  def arm(self) -> str:
    """Its name without the seed."""
    return _joined(self.cell.arm, self.member)

  @property
  def before(self) -> Mapping[str, float] | None:
    """The evaluation before the first step; None without one."""
    return self.summary['eval'].get('before')

  @property
  def after(self) -> Mapping[str, float] | None:
    """The evaluation at the end; None without one."""
    return self.summary['eval'].get('after')

  @property
  def chance(self) -> Mapping[str, float]:
    """Success of random actions and the expert on its panel, by kind.

    Without those that the environment lacks, or that were not played.
    """
    found = self.summary.get('chance', {})
    return {
        kind: found[kind]['mean']
        for kind in KINDS
        if found.get(kind) and found[kind]['mean'] is not None
    }

  def column(self, metric: str) -> list[float]:
    """The values of a metric, of the steps that have it."""
    return [line[metric] for line in self.metrics if metric in line]


@dataclasses.dataclass(frozen=True)
class Arm:
  """Runs that differ in the seed alone, and what they reached."""

  name: str
  runs: Sequence[Run]

  def values(self, measure: str = SUCCESS) -> Values:
    """The mean over runs of each (task, sample); empty without evaluations."""
    return _over_runs([run.played.get(measure, {}) for run in self.runs])

  def values_before(self, measure: str = SUCCESS) -> Values:
    """The same before the first step; empty if a run has none."""
    found = [run.played_before.get(measure, {}) for run in self.runs]
    return _over_runs(found) if all(found) else {}

  @property
  def clusters(self) -> dict[Any, Hashable] | None:
    """The cluster of each task that was evaluated; None: each task is one.

    See `EnvSpec.clusters` and `intervals.clusters_of`.
    """
    config = self.runs[0].config
    if 'env' not in config:
      return None
    env = config['env']
    template = envs.get(env['name']).clusters(**env.get('options', {}))
    if template is None:
      return None
    tasks = list(dict.fromkeys(task for task, _ in self.values()))
    clusters = intervals.clusters_of(list(map(template, tasks)))
    return clusters and dict(zip(tasks, clusters, strict=True))

  def interval(self, values: Values, measure: str) -> Interval | None:
    """Interval of a mean over its tasks, or their templates; None of nothing."""
    tasks, clusters = _by_task(values), self.clusters
    if not tasks:
      return None
    return intervals.mean_interval(
        list(tasks.values()),
        clusters=clusters and [clusters[task] for task in tasks],
        bounds=BOUNDS[measure],
    )

  @property
  def member(self) -> str:
    """The member of a mixture that all its runs are of; '' without one."""
    return self.runs[0].member

  def scores(self, measure: str = SUCCESS) -> list[float]:
    """The mean over tasks at the end, of each run that was evaluated."""
    return _scores([run.played for run in self.runs], measure)

  def scores_before(self, measure: str = SUCCESS) -> list[float]:
    """The same before the first step."""
    return _scores([run.played_before for run in self.runs], measure)


def read(out: pathlib.Path) -> Iterator[Run]:
  """The finished runs of a sweep, in the order of its cells."""
  configs = folder.records(out)
  for cell in folder.read(out):
    workdir = out / cell.name
    config = configs.get(cell.name)
    if config is None or not folder.finished(workdir, config):
      continue
    yield from of_members(
        cell,
        config,
        summary_lib.read(workdir),
        list(metrics_lib.read(workdir / 'metrics.jsonl')),
        functools.partial(played, workdir),
    )


def members(config: Mapping[str, Any]) -> list[str]:
  """The members of a mixture; [''] without one."""
  return sorted(config.get('mixture') or ('',))


def of_members(
    cell: Cell,
    config: Mapping[str, Any],
    summary: Mapping[str, Any],
    metrics: Sequence[Mapping[str, float]],
    played: Callable[[bool, str], Mapping[str, Values]],
) -> Iterator[Run]:
  """The run of a cell, or the parts of a mixture's that are about one member.

  Args:
    cell: of the sweep.
    config: as its workdir keeps it.
    summary: likewise.
    metrics: one record a step.
    played: gives `Run.played` (True) and `played_before` (False) of a member.
  """
  for member in members(config):
    run = Run(
        cell=cell,
        config=config,
        summary=summary,
        metrics=metrics,
        played=played(True, member),
        played_before=played(False, member),
        member=member,
    )
    yield _of_member(run) if member else run


def _of_member(run: Run) -> Run:
  """A run under the names that one without other members would have."""
  member = run.member
  others = tuple(f'{name}/' for name in run.config['mixture'])
  own = f'{member}/'
  named = lambda summaries: {
      name.removesuffix(f'/{member}'): found
      for name, found in summaries.items()
      if name.endswith(f'/{member}')
  }
  return dataclasses.replace(
      run,
      config=mixture.of_member(run.config, member),
      summary={
          **run.summary,
          'eval': named(run.summary['eval']),
          'chance': named(run.summary.get('chance', {})),
      },
      metrics=[
          {
              name.removeprefix(own): value
              for name, value in line.items()
              if name.startswith(own) or not name.startswith((*others, _ALL))
          }
          for line in run.metrics
      ],
  )


def _joined(name: str, member: str) -> str:
  return f'{name}/{member}' if member else name


def arms(runs: Sequence[Run]) -> list[Arm]:
  """The runs by what differs beside the seed, in their order."""
  found: dict[str, list[Run]] = {}
  for run in runs:
    found.setdefault(run.arm, []).append(run)
  return [Arm(name, members) for name, members in found.items()]


def with_partial_returns(found: Sequence[Arm]) -> list[Arm]:
  """Those in whose environment some episodes earn parts of a task, or more."""
  paid = {
      arm.member
      for arm in found
      for run in arm.runs
      if run.played.get(RETURN) != run.played.get(SUCCESS)
  }
  return [arm for arm in found if arm.member in paid]


def played(
    workdir: pathlib.Path, last: bool, member: str = ''
) -> dict[str, Values]:
  """The last evaluation, or that of step 0: of each measure its values."""
  files = (workdir / 'episodes' / 'eval').glob('*.jsonl')
  steps = {x.stem.removesuffix(f'-{member}' * bool(member)): x for x in files}
  numbered = {int(step): x for step, x in steps.items() if step.isdecimal()}
  chosen = numbered.get(max(numbered, default=0) if last else 0)
  if chosen is None:
    return {}
  # Attempts at a task in sequence are one sample of it.
  found: dict[Any, list[Episode]] = {}
  for e in episodes_lib.read(chosen):
    attempts = found.setdefault((e.task_id, e.sample), [])
    attempts.extend([e] if e.valid else [])
  measured = lambda value: _means(
      {key: list(map(value, attempts)) for key, attempts in found.items()}
  )
  return {
      SUCCESS: measured(lambda e: float(e.success)),
      RETURN: measured(lambda e: e.episode_return),
      TURNS: measured(lambda e: float(len(e.turns))),
  }


def _scores(
    played: Sequence[Mapping[str, Values]], measure: str
) -> list[float]:
  tasks = [_by_task(values.get(measure, {})).values() for values in played]
  return [statistics.fmean(map(statistics.fmean, x)) for x in tasks if x]


def _by_task(values: Values) -> dict[Any, list[float]]:
  """The valid values of each task that has one."""
  found: dict[Any, list[float]] = {}
  for (task, _), value in values.items():
    if value is not None:
      found.setdefault(task, []).append(value)
  return found


def _over_runs(played: Sequence[Values]) -> Values:
  found: dict[Any, list[float]] = {}
  for values in played:
    for key, value in values.items():
      found.setdefault(key, []).extend([] if value is None else [value])
  return _means(found)


def _means(found: Mapping[Any, Sequence[float]]) -> Values:
  """The mean of each; None of nothing."""
  return {
      key: statistics.fmean(values) if values else None
      for key, values in found.items()
  }
