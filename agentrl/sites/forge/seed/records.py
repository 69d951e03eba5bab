"""Helpers with which the forge's records are made."""

import dataclasses
import datetime
import sqlite3
from collections.abc import Sequence
from typing import Any

from agentrl.sites.forge.seed.topics import Topic
from agentrl.sites.store import NOW

EMMA = 1
USERS = 150
DAY = 24 * 60  # minutes


@dataclasses.dataclass(frozen=True)
class Made:
  """A project while records are made.

  Attributes:
    id: of its row, and of its default branch.
    topic: what it is about.
    age: minutes since it was created.
    members: users with a developer's role or a higher one.
    is_private: whether only members see it.
  """

  id: int
  topic: Topic
  age: int
  members: Sequence[int]
  is_private: bool


class Rows:
  """Rows of all tables until they are inserted; ids count from 1."""

  def __init__(self):
    self._rows: dict[str, list[dict[str, Any]]] = {}

  def next_id(self, table: str) -> int:
    """The id of the row that is added next."""
    return len(self._rows.get(table, ())) + 1

  def add(self, table: str, **values: Any) -> int:
    """Adds a row; returns its id."""
    rows = self._rows.setdefault(table, [])
    rows.append(values)
    return len(rows)

  def insert(self, db: sqlite3.Connection) -> None:
    """Inserts all of them."""
    for table, rows in self._rows.items():
      names = ', '.join(rows[0])
      marks = ', '.join(f':{name}' for name in rows[0])
      db.executemany(f'INSERT INTO {table} ({names}) VALUES ({marks})', rows)


def since(time: str) -> int:
  """Minutes from a time until now."""
  begun, now = map(datetime.datetime.fromisoformat, (time, NOW))
  return int((now - begun).total_seconds() // 60)
