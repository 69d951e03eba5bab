"""The folder of a sweep: which sweep it holds, and what is finished.

`sweep.json` names the config and the cells; a cell has the workdir `NAME` and
the log `NAME.log`.
"""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl import files
from agentrl.config import resume
from agentrl.errors import ConfigError
from agentrl.runtime import summary, workdir as workdir_lib
from experiments.sweeps.cells import Cell

_FILE = 'sweep.json'
SCHEDULES = 'schedules.svg'  # drawn before anything is trained
_BEFORE = ('lock', SCHEDULES)


def read(out: pathlib.Path) -> list[Cell]:
  """The cells that a folder keeps; none where there is no sweep yet.

  Raises:
    ConfigError: it holds something else.
  """
  path = out / _FILE
  if not path.is_file():
    found = sorted(p.name for p in out.glob('*') if p.name not in _BEFORE)
    if found:
      raise ConfigError(
          f'{out} holds no sweep but {", ".join(found[:3])}'
          f'{", ..." if len(found) > 3 else ""}: use another --out.'
      )
    return []
  found = json.loads(path.read_text())
  return [
      Cell(found['config'], tuple(overrides.items()))
      for overrides in found['cells']
  ]


def keep(out: pathlib.Path, cells: Sequence[Cell]) -> None:
  """Writes which sweep a folder holds."""
  found = dict(
      config=cells[0].config, cells=[dict(cell.overrides) for cell in cells]
  )
  files.write_whole(out / _FILE, json.dumps(found, indent=2) + '\n')


def check(
    out: pathlib.Path,
    kept: Sequence[Cell],
    cells: Sequence[Cell],
    records: Mapping[str, Mapping[str, Any]],
) -> None:
  """Refuses the folder of another sweep.

  Args:
    out: the folder.
    kept: its cells, which have to be among those of the command: a sweep may
      grow, and no cell may be left behind.
    cells: all that the command names.
    records: their configs.

  Raises:
    ConfigError: says what differs.
  """
  names = {cell.name for cell in cells}
  gone = [cell.name for cell in kept if cell.name not in names]
  configs = {cell.config for cell in (*kept, *cells)}
  if len(configs) > 1 or gone:
    why = (
        f'of {kept[0].config}, not {cells[0].config}'
        if len(configs) > 1
        else (
            f'with {", ".join(gone[:3])}{", ..." if len(gone) > 3 else ""},'
            ' which this one lacks'
        )
    )
    raise ConfigError(
        f'{out} holds another sweep, {why}: use another --out, or the old'
        ' values to continue.'
    )
  for name, record in records.items():
    try:
      resume.check(record, out / name)
    except ConfigError as error:
      raise ConfigError(f'Cell {name}: {error}') from error


def finished(workdir: pathlib.Path, record: Mapping[str, Any]) -> bool:
  """True if the run there reached the end of this config."""
  values = summary.read(workdir)
  if not summary.finished(values):
    return False
  tokens = record.get('num_tokens', 0)
  return (
      values['steps'] >= record.get('num_steps', 0)
      or 0 < tokens <= values['sampled_tokens']
  )


def records(out: pathlib.Path) -> dict[str, dict[str, Any]]:
  """The configs that the workdirs of a sweep keep, by cell."""
  return {
      path.parent.name: workdir_lib.read_record(path)
      for path in sorted(out.glob(f'*/{workdir_lib.CONFIG}'))
  }
