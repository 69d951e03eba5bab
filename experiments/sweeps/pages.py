"""Finished runs as small files beside a page.

A run is PAGE/runs/NAME.json, NAME a cell's: its config, its summary, a few metrics of
each step, and what each episode of its evaluations before and after earned. So a page
can be drawn anew, and its numbers be computed by others, without the workdirs; and a
sweep goes on where those are gone.
"""

import json
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentrl import metrics as metrics_lib
from agentrl.config import modes, reading
from agentrl.config.build import MIXTURE
from agentrl.errors import ConfigError
from agentrl.evaluation.compare.comparison import Values
from agentrl.evaluation.studies import arms
from agentrl.runtime import summary, workdir as workdir_lib
from experiments.sweeps import folder, results
from experiments.sweeps.cells import Cell
from experiments.sweeps.results import Run

_METRICS = (
    'step',
    'rollout/episodes',
    'rollout/invalid',
    'rollout/success',
    'rollout/return_mean',
    'rollout/return_std',
    'rollout/horizon',
    'rollout/turns_mean',
    'rollout/completion_tokens',
    'rollout/task_stage',
    'rollout/staleness_mean',
    'rollout/staleness_max',
    'sampler/kl',
    'policy/entropy',
    'policy/approx_kl',
    'policy/clip_fraction',
    'train/tokens',
    'train/updates',
    'train/learnt_share',
    'distill/reverse_kl',
    'time/step_s',
    'time/collect_s',
    'time/update_s',
    'time/sampler_idle_s',
    'time/memory_gib',
    'eval/success',
    'eval_before/success',
    'eval_small/success',
)
# Of an episode, as columns.
_MEASURES = (results.SUCCESS, results.RETURN, results.TURNS)
_DIGITS = 4  # of a metric that is no count


def write(
    page: pathlib.Path, cell: Cell, workdir: pathlib.Path
) -> pathlib.Path:
  """Writes the file of a cell's finished run; returns its path.

  Raises:
    ConfigError: the run is not finished.
    CheckpointError: it is none.
  """
  config = workdir_lib.read_record(workdir / workdir_lib.CONFIG)
  if not folder.finished(workdir, config):
    raise ConfigError(f'{workdir} is not finished: the same command goes on.')
  model = pathlib.Path(config['model']['name'])
  if model.is_absolute():  # a warm start; where it is means nothing elsewhere
    config['model']['name'] = str(pathlib.Path(*model.parts[-3:]))
  members = results.members(config)
  columns = [
      f'{member}/{name}'.lstrip('/') for member in members for name in _METRICS
  ]
  columns = list(dict.fromkeys([*_METRICS, *columns]))
  record = {
      'overrides': dict(cell.overrides),
      'config': config,
      'summary': summary.read(workdir),
      'metrics': [
          {name: _rounded(line[name]) for name in columns if name in line}
          for line in metrics_lib.read(workdir / 'metrics.jsonl')
      ],
      'columns': ['task', 'sample', *_MEASURES],
      'before': {x: _rows(results.played(workdir, False, x)) for x in members},
      'after': {x: _rows(results.played(workdir, True, x)) for x in members},
  }
  path = _path(page, cell)
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(_text(record))
  return path


def keep(page: pathlib.Path, out: pathlib.Path, cells: Sequence[Cell]) -> None:
  """Writes the files of all finished cells of a sweep that lack one."""
  configs = folder.records(out)
  for cell in cells:
    config = configs.get(cell.name)
    if config and folder.finished(out / cell.name, config):
      if not has(page, cell):
        write(page, cell, out / cell.name)


def read(page: pathlib.Path, cells: Sequence[Cell] | None = None) -> list[Run]:
  """The runs that a page keeps.

  Args:
    page: its folder.
    cells: whose runs, in their order; None: all, by name.
  """
  if cells is None:
    paths = sorted((page / 'runs').glob('*.json'))
  else:
    paths = [path for cell in cells if (path := _path(page, cell)).exists()]
  return [run for path in paths for run in _runs(json.loads(path.read_text()))]


def check(
    page: pathlib.Path,
    cells: Sequence[Cell],
    records: Mapping[str, Mapping[str, Any]],
) -> None:
  """Refuses a page that keeps a run of another config under a cell's name.

  Args:
    page: its folder.
    cells: of a sweep.
    records: their configs by name, as a workdir keeps them.

  Raises:
    ConfigError: names the field.
  """
  for cell in cells:
    path = _path(page, cell)
    if path.exists():
      new, old = map(
          _compared,
          (records[cell.name], json.loads(path.read_text())['config']),
      )
      changed = [
          f'{name}={old.get(name)!r} (now {value!r})'
          for name, value in new.items()
          if old.get(name) != value
      ]
      if changed:
        raise ConfigError(
            f'{path} is of a run with {", ".join(changed[:8])}: use another'
            ' folder, or the old values.'
        )


def _compared(config: Mapping[str, Any]) -> dict[str, Any]:
  """The fields of a config that tell runs apart on any machine."""
  leaves = reading.leaves_of(config).keys() - {MIXTURE}
  found = reading.usual(config) | modes.flat(config, leaves)
  if os.path.isabs(found['model.name']):  # of a warm start
    del found['model.name']
  return {k: v for k, v in found.items() if k not in arms.OF_THE_MACHINE}


def has(page: pathlib.Path, cell: Cell) -> bool:
  """True if a page keeps the run of a cell."""
  return _path(page, cell).exists()


def _path(page: pathlib.Path, cell: Cell) -> pathlib.Path:
  return page / 'runs' / f'{cell.name}.json'


def _runs(record: dict[str, Any]) -> Iterator[Run]:
  evaluations = {True: record['after'], False: record['before']}
  return results.of_members(
      Cell('', tuple(record['overrides'].items())),
      record['config'],
      record['summary'],
      record['metrics'],
      lambda last, member: _values(evaluations[last][member]),
  )


def _rounded(value: float) -> float:
  return value if value == int(value) else round(value, _DIGITS)


def _rows(played: Mapping[str, Values]) -> list[list[Any]]:
  """Each episode as `columns` says; null: it failed."""
  if not played:
    return []
  return [
      [*key, *(_plain(played[measure][key]) for measure in _MEASURES)]
      for key in played[results.SUCCESS]
  ]


def _plain(value: float | None) -> float | None:
  """Whole numbers without a point."""
  return value if value is None or value != int(value) else int(value)


def _values(rows: Sequence[Sequence[Any]]) -> dict[str, Values]:
  if not rows:
    return {}
  return {
      measure: {(row[0], row[1]): row[place] for row in rows}
      for place, measure in enumerate(_MEASURES, 2)
  }


def _text(record: Mapping[str, Any]) -> str:
  """JSON with a line for each step and episode, so that changes can be read."""
  text = json.dumps(record, indent=1)
  inner = re.compile(r'\[[^\[\]{}]*\]|\{[^\[\]{}]*\}')
  return inner.sub(lambda x: ' '.join(x.group().split()), text) + '\n'
