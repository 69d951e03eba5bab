"""Rows written for a visitor."""

from collections.abc import Mapping
from typing import Any

from agentrl.envs.webarena.site import Visit


def insert(visit: Visit, table: str, values: Mapping[str, Any]) -> int:
  """Adds a row; returns its id."""
  names = ', '.join(values)
  marks = ', '.join(f':{name}' for name in values)
  return visit.db.execute(
      f'INSERT INTO {table} ({names}) VALUES ({marks})', values
  ).lastrowid


def update(
    visit: Visit, table: str, key: int, values: Mapping[str, Any]
) -> None:
  """Changes columns of a row."""
  sets = ', '.join(f'{name} = :{name}' for name in values)
  visit.db.execute(
      f'UPDATE {table} SET {sets} WHERE id = :id', {**values, 'id': key}
  )
