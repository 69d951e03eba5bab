"""Cells of a sweep: which overrides each has, and that its config accepts them.

An override is a field of the config (`optim.lr`) or, after a colon as on the
command line, an argument of the config file (`:algo`).
"""

import dataclasses
import hashlib
import itertools
import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl import config as config_lib
from agentrl.config import MODES, commandline, resume
from agentrl.config.modes import Learning
from agentrl.errors import ConfigError

Overrides = Mapping[str, Any]

SEED = 'seed'  # cells that differ in nothing else are one arm
_LONGEST = 100  # letters of a name, which is a folder's


@dataclasses.dataclass(frozen=True)
class Cell:
  """One run of a sweep.

  Attributes:
    config: `FILE` or `FILE:ARGUMENT`, as `--config` takes it.
    overrides: (field or `:argument`, value as on the command line).
    label: name in place of the overrides.
    start: checkpoint of the warm start that it begins with, for the argument
      `start` of its config file; none if empty.
  """

  config: str
  overrides: tuple[tuple[str, str], ...]
  label: str = ''
  start: str = ''

  @property
  def name(self) -> str:
    """The name of its workdir: the overrides."""
    return self.label or _name(self.overrides)

  @property
  def arm(self) -> str:
    """Its name without the seed."""
    return _name([pair for pair in self.overrides if pair[0] != SEED])

  @property
  def argument(self) -> str:
    """`--config` with the arguments of this cell."""
    file, _, argument = self.config.partition(':')
    given = [f'start={self.start}'] if self.start else []
    given += [f'{k[1:]}={v}' for k, v in self.overrides if k.startswith(':')]
    joined = ','.join(filter(None, (argument, *given)))
    return f'{file}:{joined}' if joined else file

  @property
  def flags(self) -> list[str]:
    """The fields that it overrides, as flags."""
    return [
        f'--config.{field}={value}'
        for field, value in self.overrides
        if not field.startswith(':')
    ]

  def command(self, workdir: pathlib.Path) -> list[str]:
    """The arguments that train this cell, after the interpreter."""
    return [
        'launch.py',
        f'--config={self.argument}',
        f'--workdir={workdir}',
        *self.flags,
    ]


def make(
    config: str,
    listed: Sequence[Overrides],
    grids: Sequence[str] = (),
) -> list[Cell]:
  """All cells: each element of the list, times the grid.

  Args:
    config: that all cells start from.
    listed: overrides; `[{}]` for the grid alone.
    grids: each 'FIELD=VALUE;VALUE' or ':ARGUMENT=VALUE;VALUE'.

  Raises:
    ConfigError: a grid has another form, or a field is given twice.
  """
  axes = [parse(grid) for grid in grids]
  cells = []
  for overrides, *points in itertools.product(listed, *map(_points, axes)):
    pairs = [(field, _text(value)) for field, value in overrides.items()]
    pairs += points
    fields = [field for field, _ in pairs]
    twice = [field for field in fields if fields.count(field) > 1]
    if twice:
      raise ConfigError(
          f'{twice[0]} is swept twice: leave one of them out, or choose among'
          f" the values of the list with --only='{twice[0]}=...'."
      )
    cells.append(Cell(config, tuple(pairs)))
  return cells


# A step more than none: the checkpoint before it is what counts.
_WARM_START = (
    ('num_steps', '1'),
    ('eval.num_tasks', '0'),
    ('eval.small.num_tasks', '0'),
    ('eval.small.every', '0'),
)


def with_warm_starts(
    cells: Sequence[Cell], shared_by: Sequence[str], out: pathlib.Path
) -> tuple[list[Cell], dict[str, Cell]]:
  """The cells with what they begin with, and those warm starts.

  Args:
    cells: of a config file with an argument `start`.
    shared_by: fields and `:arguments`; cells that agree in them share one.
    out: folder of the sweep.

  Returns:
    The cells, and by `start` the cell that trains the warm start.
  """
  begun, starts = [], {}
  for cell in cells:
    own = tuple(pair for pair in cell.overrides if pair[0] in shared_by)
    label = '-'.join(['warmstart', *([_name(own)] if own else [])])
    start = str((out / label).absolute() / 'checkpoints' / '0')
    starts[start] = Cell(cell.config, (*own, *_WARM_START), label)
    begun.append(dataclasses.replace(cell, start=start))
  return begun, starts


def parse(grid: str) -> tuple[str, list[str]]:
  """The field and the values of 'FIELD=VALUE;VALUE'.

  Raises:
    ConfigError: it has another form.
  """
  field, _, values = grid.partition('=')
  if not (field.removeprefix(':') and values):
    raise ConfigError(
        "A grid is 'FIELD=VALUE;VALUE', or ':ARGUMENT=VALUE;VALUE' of the"
        f' config file, got {grid!r}.'
    )
  return field, values.split(';')


def only(cells: Sequence[Cell], chosen: Sequence[str]) -> list[Cell]:
  """The cells with these values, each choice as a grid.

  Raises:
    ConfigError: a choice names what no cell has.
  """
  for choice in chosen:
    field, values = parse(choice)
    have = {dict(cell.overrides).get(field): None for cell in cells}
    for value in values:
      if value not in have:
        known = ', '.join(str(x) for x in have if x is not None)
        raise ConfigError(
            f'--only={choice!r}: no cell has {field}={value};'
            f' known: {known or "no " + field}.'
        )
    cells = [c for c in cells if dict(c.overrides).get(field) in values]
  return list(cells)


def check(cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
  """The config of each cell by its name, as its workdir would keep it.

  Raises:
    ConfigError: the config refuses the overrides of a cell, names it; or two
      cells are one run.
  """
  records, seen = {}, {}
  for cell in cells:
    try:
      record = _record(cell)
    except ConfigError as error:
      raise ConfigError(f'Cell {cell.name}: {error}') from error
    text = json.dumps(record, sort_keys=True)
    if text in seen:
      raise ConfigError(
          f'Cells {seen[text]} and {cell.name} are the same run: leave one out.'
      )
    if cell.name in records:
      raise ConfigError(
          f'Two cells would share the folder {cell.name}: their values differ'
          ' in letters that a folder name lacks. Sweep them apart.'
      )
    seen[text] = cell.name
    records[cell.name] = record
  return records


def _record(cell: Cell) -> dict[str, Any]:
  config = commandline.load(cell.argument)
  rest, _ = commandline.override(config, ['launch.py', *cell.flags])
  assert rest == ['launch.py'], rest
  if not issubclass(MODES[config.mode], Learning):
    raise ConfigError(
        f'{cell.config} is of mode={config.mode!r}, which learns nothing: a'
        ' sweep needs a config whose runs end in a summary. One evaluation'
        " takes several policies: 'configs/evaluate.py:model=A;B'."
    )
  return config_lib.record(resume.read(config))


def _points(axis: tuple[str, list[str]]) -> list[tuple[str, str]]:
  field, values = axis
  return [(field, value) for value in values]


def _text(value: Any) -> str:
  """A value of the Python list as the command line has it."""
  return value if isinstance(value, str) else repr(value)


def _name(pairs: Sequence[tuple[str, str]]) -> str:
  """Overrides as a name: no comma, which arguments of configs split at."""
  plain = '-'.join(f'{field.lstrip(":")}={value}' for field, value in pairs)
  safe = lambda text: re.sub(r'[^\w.=+-]+', '_', text).strip('_')
  name = '-'.join(f'{safe(field)}={safe(value)}' for field, value in pairs)
  name = name or 'base'
  if len(name) > _LONGEST:
    digest = hashlib.sha256(plain.encode()).hexdigest()[:8]
    name = f'{name[:_LONGEST]}-{digest}'
  return name
