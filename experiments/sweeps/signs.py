r"""Signs of a collapse: the first warning of each gauge, and the return's fall.

    python -m experiments.sweeps.signs runs/seed0 runs/seed1

Reads `metrics.jsonl` and the limits of each run, and prints a table. Steps are
numbered from 0, as there.
"""

import pathlib
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from absl import app

from agentrl import metrics as metrics_lib
from agentrl.errors import AgentrlError, ConfigError
from agentrl.runtime import workdir as workdir_lib
from agentrl.training.options import Gauges
from agentrl.training.watch import GAUGES, CollapseWatch
from experiments.sweeps import results, tables

WINDOW = 5  # steps of a rolling mean
_RETURN = 'rollout/return_mean'
_HEADER = ' | '.join(
    ['run', 'steps']
    + [gauge.metric.partition('/')[2] for gauge in GAUGES.values()]
    + ['return fell', 'first warning before it']
)
_NOTE = (
    'Steps, from 0, at which a gauge first warned, and at which the rolling'
    f' mean return of {WINDOW} steps first was below half of its best before.'
)

Lines = Sequence[Mapping[str, float]]


def first_warnings(lines: Lines, limits: Gauges) -> dict[str, int]:
  """The step of the first warning of each limit that was passed.

  Args:
    lines: of `metrics.jsonl`.
    limits: of the run.
  """
  watch, found = CollapseWatch(limits), {}
  for line in lines:
    for name in watch.beyond(line):
      found.setdefault(name, int(line['step']))
  return found


def fall(lines: Lines) -> int | None:
  """The step at which the return first fell; None: it did not.

  That is where its rolling mean is below half of the best before, which has to
  be above 0.
  """
  lines = [line for line in lines if _RETURN in line]
  best = 0.0
  for last in range(WINDOW, len(lines) + 1):
    mean = statistics.fmean(x[_RETURN] for x in lines[last - WINDOW : last])
    if 0 < best and mean < best / 2:
      return int(lines[last - 1]['step'])
    best = max(best, mean)
  return None


def row(name: str, lines: Lines, limits: Gauges) -> list[str]:
  """The cells of a run in the table."""
  warned, fell = first_warnings(lines, limits), fall(lines)
  ahead = '' if fell is None else 'none'
  if fell is not None and warned:
    ahead = f'{fell - min(warned.values())} steps'
  steps = [_text(warned.get(gauge)) for gauge in GAUGES]
  return [name, str(len(lines)), *steps, _text(fell), ahead]


def table(runs: Sequence[results.Run]) -> str:
  """Markdown: a row for each run of a sweep."""
  return _table(
      [row(run.name, run.metrics, limits(run.config)) for run in runs]
  )


def limits(config: Mapping[str, Any]) -> Gauges:
  """Those of a run; those of today where it is of before there were any."""
  return Gauges(**config.get('gauges', {}))


def _table(rows: Sequence[Sequence[str]]) -> str:
  return f'{tables.markdown(_HEADER, rows)}\n\n{_NOTE}\n'


def _text(step: int | None) -> str:
  return '' if step is None else str(step)


def _read(workdir: pathlib.Path) -> list[str]:
  """The row of a workdir.

  Raises:
    ConfigError: it has no metrics.
  """
  try:
    lines = list(metrics_lib.read(workdir / 'metrics.jsonl'))
  except OSError as error:
    raise ConfigError(f'{workdir} is no run of mode train: {error}') from error
  config = workdir_lib.read_record(workdir / workdir_lib.CONFIG)
  return row(workdir.name, lines, limits(config))


def main(argv):
  if len(argv) < 2:
    sys.exit('Name workdirs: python -m experiments.sweeps.signs runs/NAME')
  try:
    print(_table([_read(pathlib.Path(path)) for path in argv[1:]]), end='')
  except AgentrlError as error:
    sys.exit(f'{type(error).__name__}: {error}')


if __name__ == '__main__':
  app.run(main)
