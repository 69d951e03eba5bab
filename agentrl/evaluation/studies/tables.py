"""The tables of a study as files: CSV, and Parquet where pyarrow is installed."""

import csv
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentrl import shipped
from agentrl.errors import ConfigError
from agentrl.evaluation.studies.study import Rows, Study


def check_parquet() -> None:
  """Refuses where no Parquet can be written.

  Raises:
    ConfigError: names what to install.
  """
  try:
    import pyarrow  # noqa: F401
  except ImportError as error:
    raise ConfigError(
        'study.parquet=True needs pyarrow: pip install -r'
        f' {shipped.requirements("parquet")}'
    ) from error


def write(
    study: Study, folder: pathlib.Path, *, parquet: bool = False
) -> list[pathlib.Path]:
  """Writes each table that has rows as `NAME.csv`; returns the paths.

  Args:
    study: of which tables are written.
    folder: that exists.
    parquet: whether `NAME.parquet` is written, too.

  Raises:
    ConfigError: Parquet is asked for, and cannot be written.
  """
  if parquet:
    check_parquet()
  paths = []
  for name, rows in study._asdict().items():
    if not rows:
      continue
    names = columns(rows)
    path = folder / f'{name}.csv'
    with path.open('w', newline='', encoding='utf-8') as file:
      writer = csv.DictWriter(file, names)
      writer.writeheader()
      writer.writerows({x: _cell(row[x]) for x in row} for row in rows)
    paths.append(path)
    if parquet:
      paths.append(_parquet(folder / f'{name}.parquet', names, rows))
  return paths


def columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
  """The columns of any of the rows, in the order of their first."""
  return list(dict.fromkeys(name for row in rows for name in row))


def _cell(value: Any) -> Any:
  return json.dumps(value) if isinstance(value, (list, dict)) else value


def _parquet(
    path: pathlib.Path, names: Sequence[str], rows: Rows
) -> pathlib.Path:
  import pyarrow
  from pyarrow import parquet

  table = {}
  for name in names:
    values = [_cell(row.get(name)) for row in rows]
    # A field of a config may be a number in one run and a word in another.
    kinds = {type(x) for x in values if x is not None}
    if len(kinds) > 1 and not kinds <= {int, float}:
      values = [None if x is None else json.dumps(x) for x in values]
    elif kinds == {int, float}:
      values = [None if x is None else float(x) for x in values]
    table[name] = values
  parquet.write_table(pyarrow.table(table), path)
  return path
