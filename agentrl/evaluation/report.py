"""Success of an evaluation for people: lines, and a table by subtask."""

from collections.abc import Mapping
from typing import Any

import rich.console
import rich.table


def describe(name: str, summary: dict) -> str:
  """One line for people: success with its interval."""
  if summary['mean'] is None:
    return f'{name}: no valid episode'
  return (
      f'{name}: success {summary["mean"]:.3f}, 95% interval'
      f' [{summary["low"]:.3f}, {summary["high"]:.3f}],'
      f' {summary["n"]} held-out tasks'
  )


def show(
    console: rich.console.Console, env_name: str, summary: Mapping[str, Any]
) -> None:
  """Prints success on each subtask and on all: a table, or lines in a pipe."""
  rows = dict(summary.get('subtasks', {}), all=summary)
  if console.is_terminal:
    console.print(_table(env_name, rows))
    return
  for name, row in rows.items():
    # A pipe gets one fact a line, in letters of any encoding.
    text = describe(f'{env_name}, {name}', row)
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _table(
    env_name: str, rows: Mapping[str, Mapping[str, Any]]
) -> rich.table.Table:
  table = rich.table.Table(title=f'Success on {env_name}')
  for column in ('subtask', 'success', '95% interval', 'episodes'):
    table.add_column(column, justify='left' if column == 'subtask' else 'right')
  for name, row in rows.items():
    if row['mean'] is not None:
      table.add_row(
          name,
          f'{row["mean"]:.3f}',
          f'{row["low"]:.3f} to {row["high"]:.3f}',
          str(row['n']),
      )
  return table
