"""A folder of runs as plain rows: groups, pairs, tasks, curves, and what ran."""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentrl.errors import DataError
from agentrl.evaluation.compare import matrix
from agentrl.evaluation.compare.sides import Side
from agentrl.evaluation.studies import arms, chance, columns, curves, tasks
from agentrl.evaluation.studies.arms import Arm
from agentrl.evaluation.workdirs import (
    folders,
    panels,
    run_config,
    run_facts,
)
from agentrl.evaluation.workdirs.metric_lines import MetricLines
from agentrl.runtime import starts

Rows = list[dict[str, Any]]

# Metrics that have curves.
METRICS = (
    'eval/success',
    'rollout/success',
    'rollout/return_mean',
    'policy/entropy',
)
_POINTS = 500  # of a curve, at most


class Study(NamedTuple):
  """Rows of plain values, each list one table.

  Attributes:
    groups: one for each arm (and member of a mixture), see `arms.rows`.
    matrix: one for each pair of arms or policies that compare, the better one
      first, see `matrix.frame`.
    tasks: one for each task and arm or policy, hardest first, see `tasks.frame`.
    curves: one for each arm, metric of `METRICS` and step.
    fields: one for each field in which the configs of the runs that learn
      differ, with its values by arm.
    runs: one for each run and evaluation: who, when, by which command.
    episodes: one for each evaluated episode that the tables count.
    left_out: what could not be read or compared, and why.
  """

  groups: Rows
  matrix: Rows
  tasks: Rows
  curves: Rows
  fields: Rows
  runs: Rows
  episodes: Rows
  left_out: Rows


def read(
    folder: str | pathlib.Path, *, group: Sequence[str] = (), seed: int = 0
) -> Study:
  """The study in a folder, by the functions that the viewer's pages use.

  Args:
    folder: of runs and evaluations, at any depth.
    group: dotted fields of configs in which the runs of an arm are equal;
      without, all but the seed.
    seed: of bootstraps and permutation tests.

  Raises:
    DataError: there is no such folder, or no run has one of the fields.
  """
  root = pathlib.Path(folder).resolve()
  if not root.is_dir():
    raise DataError(f'There is no folder {root}.')
  names = sorted(run for run, _ in folders.walk(root))
  configs = {x: run_config.known(run_config.config, root / x) for x in names}
  learning = {
      name: config
      for name, config in configs.items()
      if config.get('mode') in arms.LEARNING
  }
  found = arms.sort_out(learning, group) if learning else []
  sides, left_out = columns.read(
      root,
      columns.of_folder(root, found, names),
      panels.read,
  )
  references = chance.references(root, names, panels.read)
  matrices = matrix.compare(sides, seed=seed)
  facts = {run: run_facts.read(root, run) for run in names}
  group_of = {run: arm.name for arm in found for run in arm.runs}
  return Study(
      groups=arms.rows(
          found,
          {run: arms.scores(facts[run]) for run in learning},
          {
              arm.name: chance.of_arm(root, arm, references, panels.read)
              for arm in found
          },
          seed=seed,
      ),
      matrix=[row for each in matrices for row in matrix.frame(each)],
      tasks=list(tasks.frame(sides)),
      curves=[row for arm in found for row in _curves(root, arm)],
      fields=list(_fields(found, learning)),
      runs=[_run(root, facts[run], group_of.get(run)) for run in names],
      episodes=[row for side in sides for row in _episodes(root, side)],
      left_out=[
          *({'a': x.label, 'b': None, 'why': x.why} for x in left_out),
          *(
              {'a': x.a, 'b': x.b if x.b != x.a else None, 'why': x.why}
              for each in matrices
              for x in each.refused
          ),
      ],
  )


def _curves(root: pathlib.Path, arm: Arm) -> Iterator[dict[str, Any]]:
  lines = {run: MetricLines(root / run / run_facts.METRICS) for run in arm.runs}
  for each in lines.values():
    each.refresh()
  for metric in METRICS:
    curve = curves.of_arm(lines, metric, limit=_POINTS)
    if curve is None:
      continue
    known = lambda value: float(value) if value == value else None
    for step, seeds, *values in zip(
        curve.x, curve.seeds, curve.y, curve.low, curve.high, strict=True
    ):
      mean, low, high = map(known, values)
      yield {
          'group': arm.name,
          'metric': metric,
          'step': float(step),
          'seeds': int(seeds),
          'mean': mean,
          'low': low,
          'high': high,
          'unit': arms.UNIT,
      }


def _fields(
    found: Sequence[Arm], configs: Mapping[str, Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
  """Fields that tell runs apart; a list of values where an arm's runs differ."""
  by_arm = {
      arm.name: [run_facts.flat(configs[run]) for run in arm.runs]
      for arm in found
  }
  for name in arms.differing(configs):
    if name in (arms.SEED, *arms.OF_THE_MACHINE):
      continue
    row: dict[str, Any] = {'field': name}
    for arm, flats in by_arm.items():
      values: list[Any] = []
      for flat in flats:
        if (value := flat.get(name)) not in values:
          values.append(value)
      row[arm] = values[0] if len(values) == 1 else values
    yield row


def _run(
    root: pathlib.Path, facts: run_facts.Facts, group: str | None
) -> dict[str, Any]:
  noted = starts.read(root / facts.run)
  last = noted[-1] if noted else {}
  packages = last.get('packages')
  return {
      'run': facts.run,
      'group': group,
      'mode': facts.mode,
      'env': facts.env,
      'seed': facts.seed,
      'status': facts.status,
      'steps': facts.steps,
      'minutes': None if facts.wall_s is None else facts.wall_s / 60,
      'starts': len(noted) or None,
      **{
          name: last.get(name)
          for name in ('time', 'command', 'commit', 'python', 'platform')
      },
      'packages': (
          ' '.join(f'{name}={x}' for name, x in packages.items())
          if isinstance(packages, dict)
          else None
      ),
  }


def _episodes(root: pathlib.Path, side: Side) -> Iterator[dict[str, Any]]:
  for run in side.runs:
    directory = run.directory.resolve()
    for env, panel in run.panels.items():
      subtasks = dict(zip(panel.task_ids, panel.subtasks, strict=True))
      for (task, sample), episode in run.episodes[env].items():
        yield {
            'column': side.label,
            'run': directory.relative_to(root).as_posix(),
            'policy': run.policy.name,
            'env': env,
            'task': task,
            'subtask': subtasks[task],
            'sample': sample,
            'episode': episode.episode_id,
            'success': episode.success,
            'return': episode.ret,
            'progress': episode.progress,
        }
