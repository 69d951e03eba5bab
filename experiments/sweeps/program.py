"""The command line of every sweep: `python -m experiments.sweeps.NAME`.

A sweep is a Python list of overrides. Its module ends in `program.run(CONFIG,
LIST)`; `grid` is the sweep of one empty element, for `--grid` alone.
"""

import ast
import importlib.util
import pathlib
import shlex
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import app, flags

from agentrl.errors import AgentrlError, ConfigError
from agentrl.runtime import lock
from experiments.sweeps import cells as cells_lib, folder, local, pages, results
from experiments.sweeps.cells import Cell, Overrides

_OUT = flags.DEFINE_string('out', None, 'Folder of the sweep.', required=True)
_CONFIG = flags.DEFINE_string(
    'config', None, 'Config that all cells start from; FILE or FILE:ARGUMENT.'
)
_GRID = flags.DEFINE_multi_string(
    'grid',
    [],
    "A field and its values, 'optim.lr=1e-4;2e-4', or an argument of the config"
    " file, ':algo=grpo;ppo'; several multiply.",
)
_ONLY = flags.DEFINE_multi_string(
    'only', [], "Run the cells with these values alone: 'seed=0;1'."
)
_KEEP = flags.DEFINE_string(
    'keep',
    None,
    'Folder of a page: finished cells are kept there as small files, see'
    ' `pages`, and not run again; tables are made of them.',
)
_JOBS = flags.DEFINE_integer('jobs', 1, 'Cells at a time.', lower_bound=1)
_CLUSTER = flags.DEFINE_enum(
    'cluster',
    None,
    ['slurm', 'local'],
    "Submit the cells as jobs; 'local' tries that on this machine.",
)
_SLURM = flags.DEFINE_multi_string(
    'slurm', [], "A parameter of submitit: 'gpus_per_node=8', 'partition=a'."
)
_TRACE = flags.DEFINE_string(
    'trace',
    None,
    'Start nothing; draw the horizons that the cells would have on the metrics'
    ' of this run.',
)
_SHOW = flags.DEFINE_bool(
    'show', False, 'Print the cells, and the sbatch file; start nothing.'
)


def run(
    config: str | None,
    listed: Sequence[Overrides],
    *,
    warm_start: Sequence[str] | None = None,
    more: Callable[[Sequence[Any]], str] | None = None,
    draw: Callable[[Sequence[Any], pathlib.Path], None] | None = None,
) -> None:
  """Runs the program.

  Args:
    config: what `--config` is by default; None: it has to be given.
    listed: overrides of each cell; keys are fields (`optim.lr`) and, after a
      colon, arguments of the config file (`:algo`).
    warm_start: let cells begin with the policies of warm starts, which are
      trained first, here; the config file has an argument `start` for them.
      Cells that agree in these fields and arguments share one, so that `()` is
      one for all.
    more: Markdown about the finished runs (`results.Run`), after the table.
    draw: writes further figures of them into the folder of the table.
  """

  def main(argv):
    try:
      _main(argv, config, listed, warm_start, more, draw)
    except AgentrlError as error:
      print(f'{type(error).__name__}: {error}', file=sys.stderr)
      sys.exit(2)

  app.run(main)


def _main(
    argv: Sequence[str],
    config: str | None,
    listed: Sequence[Overrides],
    warm_start: Sequence[str] | None,
    more: Callable[[Sequence[Any]], str] | None,
    draw: Callable[[Sequence[Any], pathlib.Path], None] | None,
) -> None:
  if len(argv) > 1:
    raise ConfigError(f'Unexpected arguments {argv[1:]}; flags begin with --.')
  config = _CONFIG.value or config
  if config is None:
    raise ConfigError('Name a config: --config=configs/quickstart.py:tiny')
  _check_installed()
  options = _options(_SLURM.value)
  if options and _CLUSTER.value != 'slurm':
    raise ConfigError('--slurm acts with --cluster=slurm only.')
  out = pathlib.Path(_OUT.value)
  cells = cells_lib.make(config, listed, _GRID.value)
  starts: dict[str, Cell] = {}
  if warm_start is not None:
    cells, starts = cells_lib.with_warm_starts(cells, warm_start, out)
  records = cells_lib.check([*starts.values(), *cells])
  kept = folder.read(out)
  if kept:
    folder.check(out, kept, cells, records)
  chosen = cells_lib.only(cells, _ONLY.value) if _ONLY.value else cells
  if _TRACE.value is not None:
    _trace(chosen, records, out)
    return
  page = pathlib.Path(_KEEP.value) if _KEEP.value else None
  if page is not None:
    pages.check(page, cells, records)
  is_open = lambda cell: not (
      folder.finished(out / cell.name, records[cell.name])
      or (page is not None and pages.has(page, cell))
  )
  unfinished = list(filter(is_open, chosen))
  needed = {cell.start for cell in unfinished}
  first = [x for start, x in starts.items() if start in needed and is_open(x)]
  if _SHOW.value:
    shown = {cell.start for cell in chosen}
    begins = [x for start, x in starts.items() if start in shown]
    _show([*begins, *chosen], [*first, *unfinished], out, options)
    print(_missing(chosen, unfinished, out, page))
    return
  # A refused command leaves nothing behind.
  executor = None
  if _CLUSTER.value is not None:
    out = out.absolute()  # jobs begin elsewhere
    executor = _cluster().executor(_CLUSTER.value, out, _JOBS.value, options)
  out.mkdir(parents=True, exist_ok=True)
  names = {cell.name for cell in (*kept, *chosen)}
  with lock.hold(out):
    folder.keep(out, [cell for cell in cells if cell.name in names])
    reasons = local.train(first, out, _JOBS.value)
    if unfinished and not reasons:
      if executor is None:
        reasons = local.train(unfinished, out, _JOBS.value)
      else:
        reasons = _cluster().train(unfinished, out, executor)
    _report(out, more, draw, cells, page)
  if reasons:
    sys.exit('\n'.join(reasons))


def _show(
    chosen: Sequence[Cell],
    unfinished: Sequence[Cell],
    out: pathlib.Path,
    options: Mapping[str, Any],
) -> None:
  for cell in chosen:
    if cell not in unfinished:
      print(f'{cell.name}: finished')
    else:
      begun = (out / cell.name / 'config.json').exists()
      print(f'{cell.name}: {"continues" if begun else "new"}')
      print(
          '    python'
          f' {" ".join(map(shlex.quote, cell.command(out / cell.name)))}'
      )
  if _CLUSTER.value == 'slurm' and unfinished:
    print()
    print(
        _cluster().script(unfinished, out.absolute(), _JOBS.value, options),
        end='',
    )


def _missing(
    chosen: Sequence[Cell],
    unfinished: Sequence[Cell],
    out: pathlib.Path,
    page: pathlib.Path | None,
) -> str:
  """Number of the cells that are missing, and the hours that they will take.

  A cell takes as long as the mean finished one of its arm, or else of all.
  """
  text = f'{len(unfinished)} of {len(chosen)} cells are missing'
  runs = _finished(chosen, out, page)
  walls: dict[str, list[float]] = {}
  for run in runs:
    walls.setdefault(run.cell.arm, []).append(run.summary['wall_s'])
  if not (unfinished and walls):
    return f'{text}.'
  every = [wall for arm in walls.values() for wall in arm]
  hours = sum(
      statistics.fmean(walls.get(cell.arm, every)) for cell in unfinished
  )
  return f'{text}: {hours / 3600:.1f} hours, without warm starts.'


def _finished(
    cells: Sequence[Cell], out: pathlib.Path, page: pathlib.Path | None
) -> list[Any]:
  """The finished runs that a page keeps of cells; without one, those in `out`."""
  return pages.read(page, cells) if page else list(results.read(out))


def _trace(
    chosen: Sequence[Cell],
    records: Mapping[str, Mapping[str, Any]],
    out: pathlib.Path,
) -> None:
  """Prints and draws the horizons of cells on the metrics of another run."""
  from experiments.sweeps import figure, schedules

  lines = schedules.read(pathlib.Path(_TRACE.value))
  found = [
      schedules.simulate(cell.name, records[cell.name], lines)
      for cell in chosen
  ]
  print(*found, sep='\n')
  out.mkdir(parents=True, exist_ok=True)
  figure.draw_schedules(found, lines, out / folder.SCHEDULES)
  print(f'See {out / folder.SCHEDULES}')


def _report(
    out: pathlib.Path,
    more: Callable[[Sequence[Any]], str] | None,
    draw: Callable[[Sequence[Any], pathlib.Path], None] | None,
    cells: Sequence[Cell],
    page: pathlib.Path | None,
) -> None:
  """Prints and keeps the table, and draws the figures."""
  # Imported late: matplotlib takes a second, and a refusal should not.
  from experiments.sweeps import figure, tables

  if page is not None:
    pages.keep(page, out, cells)
  runs, page = _finished(cells, out, page), page or out
  text = tables.of_runs(runs)
  if more and runs:
    text += f'\n{more(runs)}'
  (page / 'table.md').write_text(text)
  print(text)
  if runs:
    figure.draw(runs, page / 'figure.svg')
    if draw is not None:
      draw(runs, page)
    print(f'See {page / "table.md"} and {page / "figure.svg"}')


def _check_installed() -> None:
  """Refuses now what would fail at the end of a long sweep."""
  needed = ['matplotlib'] + ['submitit'] * (_CLUSTER.value is not None)
  missing = [name for name in needed if importlib.util.find_spec(name) is None]
  if missing:
    raise ConfigError(
        f'A sweep needs {" and ".join(missing)}: pip install -r'
        ' third_party/requirements/sweeps.txt'
    )


def _cluster():
  """The module that submits, which needs submitit."""
  from experiments.sweeps import cluster

  return cluster


def _options(given: Sequence[str]) -> dict[str, Any]:
  """Parameters of submitit, from NAME=VALUE.

  Raises:
    ConfigError: one has another form.
  """
  options = {}
  for text in given:
    name, equals, value = text.partition('=')
    if not (name and equals):
      raise ConfigError(f'--slurm is NAME=VALUE, got {text!r}.')
    try:
      options[name] = ast.literal_eval(value)
    except (SyntaxError, ValueError):
      options[name] = value
  return options
