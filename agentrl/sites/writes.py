"""Rows written to a site's database."""

import sqlite3
from collections.abc import Iterable
from typing import Any


def insert(db: sqlite3.Connection, table: str, /, **values: Any) -> int:
  """Adds a row; returns its id."""
  names = ', '.join(values)
  marks = ', '.join(f':{name}' for name in values)
  key = db.execute(
      f'INSERT INTO {table} ({names}) VALUES ({marks})', values
  ).lastrowid
  assert key is not None  # a row was inserted
  return key


def insert_all(
    db: sqlite3.Connection, table: str, columns: str, rows: Iterable[Any]
) -> None:
  """Adds rows.

  Args:
    db: the records.
    table: its name.
    columns: their names with commas between them.
    rows: tuples of values, in that order.
  """
  marks = ', '.join('?' * (columns.count(',') + 1))
  db.executemany(f'INSERT INTO {table} ({columns}) VALUES ({marks})', rows)


def update(
    db: sqlite3.Connection, table: str, key: int, /, **values: Any
) -> None:
  """Changes columns of a row."""
  sets = ', '.join(f'{name} = :{name}' for name in values)
  db.execute(f'UPDATE {table} SET {sets} WHERE id = :id', {**values, 'id': key})
