r"""Trains every algorithm on the quickstart and tabulates what each reached.

    python -m experiments.sweeps.algorithms --out=runs/algorithms
    python -m experiments.sweeps.algorithms --out=runs/rates --algo=grpo \
        --seed=0 --seed=1 --grid='optim.lr=1e-4;2e-4'
    python -m experiments.sweeps.algorithms --out=runs/smoke --tiny

A run is one cell of algorithms x seeds x grids, in a workdir of its own below
`--out`, through the command that a user would type. The same sweep command
continues: finished runs are left alone, interrupted ones go on from their
checkpoint, failed ones are tried again. At the end, and after Ctrl-C, it prints
the table of what is there and writes it to `OUT/table.md`.
"""

import concurrent.futures
import dataclasses
import itertools
import json
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from absl import app, flags

# The table of experiments/2026-11-algorithms: seeds of each algorithm.
SEEDS = {
    'grpo': (0, 1, 2),
    'ppo': (0, 1, 2),
    'rloo': (0,),
    'reinforce_pp': (0,),
    'dr_grpo': (0,),
    'dapo': (0,),
    'gspo': (0,),
    'gigpo': (0,),
}

_OUT = flags.DEFINE_string('out', None, 'Directory of the runs.', required=True)
_CONFIG = flags.DEFINE_string(
    'config', 'configs/quickstart.py', 'A config file with an argument `algo`.'
)
_ALGO = flags.DEFINE_multi_string(
    'algo', None, 'An entry of configs/algorithms.py; may be repeated.'
)
_SEED = flags.DEFINE_multi_integer(
    'seed', None, 'A seed, of every algorithm; may be repeated.'
)
_GRID = flags.DEFINE_multi_string(
    'grid', [], "A config field and its values: 'optim.lr=1e-4;2e-4'."
)
_JOBS = flags.DEFINE_integer('jobs', 1, 'Runs at a time.', lower_bound=1)
_TINY = flags.DEFINE_bool('tiny', False, 'Two steps a run, to see it work.')


@dataclasses.dataclass(frozen=True)
class Run:
  """One cell of the sweep."""

  algo: str
  seed: int
  overrides: tuple[tuple[str, str], ...] = ()

  @property
  def name(self) -> str:
    parts = [self.algo, f'seed{self.seed}']
    parts += [f'{field}={value}' for field, value in self.overrides]
    return '-'.join(parts).replace('/', '_')

  def command(self, config: str, workdir: pathlib.Path, *, tiny: bool):
    """The argument vector that trains this cell."""
    argument = f'algo={self.algo}' + (',tiny' if tiny else '')
    values = (('seed', self.seed), *self.overrides)
    return [
        sys.executable,
        'launch.py',
        f'--config={config}:{argument}',
        f'--workdir={workdir}',
        *(f'--config.{field}={value}' for field, value in values),
    ]


def cells(
    algos: Sequence[str] | None,
    seeds: Sequence[int] | None,
    grids: Sequence[str],
) -> list[Run]:
  """All runs of a sweep.

  Args:
    algos: None for all of `SEEDS`.
    seeds: of each algorithm; None for those of `SEEDS` (0 for another one).
    grids: each 'FIELD=VALUE;VALUE...'.

  Raises:
    ValueError: a grid has another form.
  """
  axes = []
  for grid in grids:
    field, equals, values = grid.partition('=')
    if not (field and equals and values):
      raise ValueError(f"A grid is 'FIELD=VALUE;VALUE', got {grid!r}.")
    axes.append([(field, value) for value in values.split(';')])
  return [
      Run(algo, seed, overrides)
      for overrides in itertools.product(*axes)
      for algo in algos or SEEDS
      for seed in seeds or SEEDS.get(algo, (0,))
  ]


def finished(workdir: pathlib.Path) -> bool:
  """Whether the run there reached the end of its config."""
  try:
    summary = json.loads((workdir / 'summary.json').read_text())
    config = json.loads((workdir / 'config.json').read_text())
  except FileNotFoundError:
    return False
  return summary['steps'] >= config['num_steps']


def read(out: pathlib.Path) -> Iterator[dict[str, Any]]:
  """Each finished run below `out`, by name.

  Yields:
    name, config, summary (as launch.py wrote them) and metrics, a list of one
    record a step.
  """
  for workdir in sorted(path.parent for path in out.glob('*/config.json')):
    if not finished(workdir):
      continue
    lines = (workdir / 'metrics.jsonl').read_text().splitlines()
    yield dict(
        name=workdir.name,
        config=json.loads((workdir / 'config.json').read_text()),
        summary=json.loads((workdir / 'summary.json').read_text()),
        metrics=[json.loads(line) for line in lines],
    )


def table(out: pathlib.Path) -> str:
  """Markdown: success before and after RL of every finished run."""
  rows = [
      '| run | steps | updates | before | after | disjoint | wall time |',
      '|---|---|---|---|---|---|---|',
  ]
  for run in read(out):
    summary = run['summary']
    before, after = (summary['eval'][name] for name in ('before', 'after'))
    interval = '{mean:.3f} [{low:.3f}, {high:.3f}]'.format
    minutes, seconds = divmod(round(summary['wall_s']), 60)
    cells = (
        run['name'],
        summary['steps'],
        summary['updates'],
        interval(**before),
        interval(**after),
        'yes' if after['low'] > before['high'] else 'no',
        f'{minutes}:{seconds:02d}',
    )
    rows.append('| ' + ' | '.join(map(str, cells)) + ' |')
  return '\n'.join(rows) + '\n'


class _Sweep:
  """Runs commands, some at a time, and remembers which failed."""

  def __init__(self, out: pathlib.Path, config: str, *, tiny: bool):
    self.out = out
    self.config = config
    self.tiny = tiny
    self.stopped = threading.Event()

  def run(self, run: Run) -> str | None:
    """What went wrong; None if nothing did."""
    workdir = self.out / run.name
    if self.stopped.is_set() or finished(workdir):
      return None
    log = self.out / f'{run.name}.log'
    print(f'{run.name}: running, see {log}', flush=True)
    with log.open('a') as file:
      code = subprocess.call(
          run.command(self.config, workdir, tiny=self.tiny),
          stdout=file,
          stderr=subprocess.STDOUT,
      )
    if code:
      lines = log.read_text().splitlines() or ['(it printed nothing)']
      return f'{run.name}: exit status {code}; {log} ends in: {lines[-1]}'
    print(f'{run.name}: done', flush=True)
    return None


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unexpected arguments {argv[1:]}.')
  try:
    runs = cells(_ALGO.value, _SEED.value, _GRID.value)
  except ValueError as error:
    raise app.UsageError(str(error)) from error
  out = pathlib.Path(_OUT.value)
  out.mkdir(parents=True, exist_ok=True)
  sweep = _Sweep(out, _CONFIG.value, tiny=_TINY.value)
  failures = []
  with concurrent.futures.ThreadPoolExecutor(_JOBS.value) as pool:
    waiting = [pool.submit(sweep.run, run) for run in runs]
    try:
      failures = [f.result() for f in waiting]
    except KeyboardInterrupt:
      # The runs got the same Ctrl-C: they save and stop by themselves.
      sweep.stopped.set()
      failures = ['Stopped. The same command continues.']
  text = table(out)
  (out / 'table.md').write_text(text)
  print(text)
  failures = [failure for failure in failures if failure]
  if failures:
    sys.exit('\n'.join(failures))


if __name__ == '__main__':
  app.run(main)
