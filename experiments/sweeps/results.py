"""Results of a sweep: its finished runs, arms with intervals, paired tests.

A run of a mixture is as many here as it has members: what one reached in another
environment is compared with nothing else.
"""

import dataclasses
import json
import pathlib
import statistics
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from agentrl import envs
from agentrl.config import mixture
from agentrl.data import episodes as episodes_lib
from agentrl.errors import PanelError
from agentrl.evaluation import comparison, intervals, training_seeds
from agentrl.evaluation.comparison import Values
from agentrl.evaluation.intervals import Interval
from experiments.sweeps import folder
from experiments.sweeps.cells import Cell

_SIGNED = '+.3f'
_SUCCESS = (0.0, 1.0)  # least and greatest value
_ALL = 'rollout/'  # metrics of the episodes of all members
_MEMORY = 'time/memory_gib'  # of the trainer's process after each step


@dataclasses.dataclass(frozen=True)
class Run:
  """A finished run, or one member of a mixture's.

  Attributes:
    cell: of the sweep.
    config: as its workdir keeps it; of a member, with its sections.
    summary: likewise; of a member, with its evaluations under their own names.
    metrics: one record a step; of a member, its own under names without it.
    played: success of each (task, sample) of its last evaluation, the mean over
      attempts; None where the infrastructure failed the episode.
    played_before: likewise of the evaluation before the first step; empty without
      one.
    member: of the mixture; '' without one.
  """

  cell: Cell
  config: Mapping[str, Any]
  summary: Mapping[str, Any]
  metrics: Sequence[Mapping[str, float]]
  played: Values
  played_before: Values
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

  def column(self, metric: str) -> list[float]:
    """The values of a metric, of the steps that have it."""
    return [line[metric] for line in self.metrics if metric in line]


@dataclasses.dataclass(frozen=True)
class Arm:
  """Runs that differ in the seed alone, and what they reached."""

  name: str
  runs: Sequence[Run]

  @property
  def values(self) -> Values:
    """Success of each (task, sample), the mean over runs."""
    return _over_runs([run.played for run in self.runs])

  @property
  def values_before(self) -> Values:
    """The same before the first step; empty if a run has none."""
    found = [run.played_before for run in self.runs]
    return _over_runs(found) if all(found) else {}

  @property
  def clusters(self) -> dict[Any, Hashable] | None:
    """The template of each task that was evaluated, as `EnvSpec.clusters` says.

    None where each task counts.
    """
    config = self.runs[0].config
    if 'env' not in config:
      return None
    env = config['env']
    template = envs.get(env['name']).clusters(**env.get('options', {}))
    return template and {task: template(task) for task, _ in self.values}

  @property
  def member(self) -> str:
    """The member of a mixture that all its runs are of; '' without one."""
    return self.runs[0].member

  @property
  def scores(self) -> list[float]:
    """Success at the end, of each run that was evaluated."""
    return [run.after['mean'] for run in self.runs if run.after]


def read(out: pathlib.Path) -> Iterator[Run]:
  """The finished runs of a sweep, in the order of its cells."""
  configs = folder.records(out)
  for cell in folder.read(out):
    workdir = out / cell.name
    config = configs.get(cell.name)
    if config is None or not folder.finished(workdir, config):
      continue
    lines = (workdir / 'metrics.jsonl').read_text().splitlines()
    run = Run(
        cell=cell,
        config=config,
        summary=json.loads((workdir / 'summary.json').read_text()),
        metrics=[json.loads(line) for line in lines],
        played=_played(workdir, last=True),
        played_before=_played(workdir, last=False),
    )
    members = sorted(config.get('mixture') or ())
    yield from (_of_member(run, workdir, x) for x in members)
    if not members:
      yield run


def _of_member(run: Run, workdir: pathlib.Path, member: str) -> Run:
  """The part of a mixture's run that is about one member."""
  others = tuple(f'{name}/' for name in run.config['mixture'])
  own = f'{member}/'
  evaluations = run.summary['eval'].items()
  return dataclasses.replace(
      run,
      config=mixture.of_member(run.config, member),
      summary={
          **run.summary,
          'eval': {
              name.removesuffix(f'/{member}'): found
              for name, found in evaluations
              if name.endswith(f'/{member}')
          },
      },
      metrics=[
          {
              name.removeprefix(own): value
              for name, value in line.items()
              if name.startswith(own) or not name.startswith((*others, _ALL))
          }
          for line in run.metrics
      ],
      played=_played(workdir, last=True, member=member),
      played_before=_played(workdir, last=False, member=member),
      member=member,
  )


def _joined(name: str, member: str) -> str:
  return f'{name}/{member}' if member else name


def arms(runs: Sequence[Run]) -> list[Arm]:
  """The runs by what differs beside the seed, in their order."""
  found: dict[str, list[Run]] = {}
  for run in runs:
    found.setdefault(run.arm, []).append(run)
  return [Arm(name, members) for name, members in found.items()]


def table(runs: Sequence[Run]) -> str:
  """Markdown: each run, each arm with intervals, each arm against the first."""
  if not runs:
    return 'No run is finished.\n'
  found = arms(runs)
  parts = [
      markdown(_RUN, map(_run_row, runs)),
      markdown(_ARM, map(_arm_row, found)),
      (
          'Intervals (95%) over tasks are about these very policies on other'
          ' tasks of the kind, and count templates where tasks of one succeed'
          ' and fail together; those over seeds are about other runs of the arm'
          ' (t, two runs at least). Memory is the most that the trainer held'
          ' after a step, without the servers of environments.'
      ),
  ]
  gains = [row for arm in found if (row := _gain(arm))]
  if gains:
    parts += [
        markdown(_GAIN, gains),
        (
            'Gain: success after the last step less that before the first one,'
            ' of the same tasks and samples; p as of paired policies (McNemar'
            ' for one run, else a permutation over tasks).'
        ),
    ]
  for member in dict.fromkeys(arm.member for arm in found):
    compared = [arm for arm in found if arm.member == member]
    if len(compared) > 1:
      parts += [
          markdown(_TEST, _tests(compared)),
          (
              f'Differences to `{compared[0].name}`, the first arm. p is paired'
              ' by task and sample (McNemar for one run each, else a'
              ' permutation over tasks); p (Holm) is adjusted for the arms of'
              ' this table.'
          ),
      ]
  return '\n\n'.join(parts) + '\n'


_RUN = 'run | steps | updates | before | after | disjoint | wall time | memory'
_ARM = 'arm | runs | before | after | over tasks | over seeds'
_GAIN = 'arm | gain | over tasks | p | test | over seeds'
_TEST = 'arm | difference | over tasks | p | p (Holm) | test | over seeds'


def _played(workdir: pathlib.Path, *, last: bool, member: str = '') -> Values:
  """Success of each (task, sample) of the last evaluation, or of step 0's."""
  files = (workdir / 'episodes' / 'eval').glob('*.jsonl')
  steps = {x.stem.removesuffix(f'-{member}' * bool(member)): x for x in files}
  numbered = {int(step): x for step, x in steps.items() if step.isdecimal()}
  chosen = numbered.get(max(numbered, default=0) if last else 0)
  if chosen is None:
    return {}
  # Attempts at a task in sequence are one sample of it.
  found: dict[Any, list[float]] = {}
  for e in episodes_lib.read(chosen):
    values = found.setdefault((e.task_id, e.sample), [])
    values.extend([float(e.success)] if e.valid else [])
  return _means(found)


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


def _run_row(run: Run) -> list[str]:
  before, after = run.before, run.after
  both = before is not None and after is not None
  minutes, seconds = divmod(round(run.summary['wall_s']), 60)
  memory = run.column(_MEMORY)
  return [
      run.name,
      str(run.summary['steps']),
      str(run.summary.get('updates', '')),
      _evaluation(before),
      _evaluation(after),
      ('yes' if after['low'] > before['high'] else 'no') if both else '',
      f'{minutes}:{seconds:02d}',
      f'{max(memory):.1f} GiB' if memory else '',
  ]


def _arm_row(arm: Arm) -> list[str]:
  before = [run.before['mean'] for run in arm.runs if run.before]
  values = arm.values
  cells = [
      arm.name,
      str(len(arm.runs)),
      mean_cell(before),
      mean_cell(arm.scores),
  ]
  if any(value is not None for value in values.values()):
    tasks, clusters = _by_task(values), arm.clusters
    found = intervals.mean_interval(
        list(tasks.values()),
        clusters=clusters and [clusters[task] for task in tasks],
        bounds=_SUCCESS,
    )
    cells.append(_ends(found.low, found.high))
  else:
    cells.append('')
  return [*cells, _over_seeds(arm.scores)]


def _over_seeds(scores: Sequence[float], form: str = '.3f') -> str:
  if len(scores) < 2:
    return ''
  if len(set(scores)) == 1:
    return 'all equal'  # which is no certainty
  found = training_seeds.over_seeds({'': scores}, seed=0)
  return _ends(found.mean_low, found.mean_high, form)


def _gain(arm: Arm) -> list[str] | None:
  """Success after against before; None where an evaluation is missing."""
  before, after = arm.values_before, arm.values
  if not before or before.keys() != after.keys():
    return None
  result = comparison.compare(
      after, before, seed=0, clusters=arm.clusters, bounds=_SUCCESS
  )
  gains = [run.after['mean'] - run.before['mean'] for run in arm.runs]
  return [
      arm.name,
      *_difference(result.difference),
      f'{result.p_value:.4f}',
      result.test,
      _over_seeds(gains, _SIGNED),
  ]


def _difference(found: Interval) -> list[str]:
  return [f'{found.mean:{_SIGNED}}', _ends(found.low, found.high, _SIGNED)]


def _tests(found: Sequence[Arm]) -> list[list[str]]:
  """Rows of each later arm against the first."""
  first, *others = found
  rows, tested = [], []
  for arm in others:
    try:
      result = comparison.compare(
          arm.values,
          first.values,
          seed=0,
          clusters=arm.clusters,
          bounds=_SUCCESS,
      )
    except (PanelError, ValueError) as error:
      rows.append([arm.name, f'not compared: {error}', *[''] * 5])
      continue
    row = [
        arm.name,
        *_difference(result.difference),
        f'{result.p_value:.4f}',
        '',
        result.test,
        _difference_over_seeds(arm, first),
    ]
    rows.append(row)
    tested.append((row, result.p_value))
  adjusted = comparison.holm([p for _, p in tested]) if tested else []
  for (row, _), p in zip(tested, adjusted, strict=True):
    row[4] = f'{p:.4f}'
  return rows


def _difference_over_seeds(arm: Arm, first: Arm) -> str:
  if min(len(arm.scores), len(first.scores)) < 2:
    return ''
  if len({*arm.scores, *first.scores}) == 1:
    return 'all equal'
  found = training_seeds.seed_difference(
      {'': arm.scores}, {'': first.scores}, seed=0
  )
  return _ends(found.mean_low, found.mean_high, _SIGNED)


def _by_task(values: Values) -> dict[Any, list[float]]:
  """The valid values of each task that has one."""
  found: dict[Any, list[float]] = {}
  for (task, _), value in values.items():
    if value is not None:
      found.setdefault(task, []).append(value)
  return found


def _evaluation(found: Mapping[str, float] | None) -> str:
  if found is None or found['mean'] is None:
    return ''
  return f'{found["mean"]:.3f} {_ends(found["low"], found["high"])}'


def mean_cell(values: Sequence[float]) -> str:
  """The mean as a cell of a table; empty of nothing."""
  return f'{statistics.fmean(values):.3f}' if values else ''


def _ends(low: float, high: float, form: str = '.3f') -> str:
  return f'[{low:{form}}, {high:{form}}]'


def markdown(header: str, rows: Sequence[Sequence[str]]) -> str:
  """A table; names in the header are parted by ` | `."""
  names = header.split(' | ')
  lines = [names, ['---'] * len(names), *rows]
  return '\n'.join(f'| {" | ".join(line)} |' for line in lines)
