"""The records of a site: one SQLite database, copied for each episode."""

import dataclasses
import functools
import hashlib
import random
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

# An episode that writes more gets an error page; 4 kB a page.
_MAX_PAGES = 25_000
# "Now" of all sites: records are older, and what an episode writes is of now.
NOW = '2023-06-15 12:00:00'

Row = Mapping[str, Any]
Fill = Callable[[sqlite3.Connection, random.Random], None]


@dataclasses.dataclass(frozen=True)
class Store:
  """The records that every episode begins with.

  Attributes:
    name: such as 'shop'.
    data: the database as SQLite's file.
  """

  name: str
  data: bytes

  @classmethod
  def build(cls, name: str, schema: str, *fills: Fill) -> 'Store':
    """Makes the records; equal in every process.

    Args:
      name: of the store; it seeds the draws.
      schema: SQL that makes the tables.
      *fills: insert or change the records, one after the other.
    """
    connection = sqlite3.connect(':memory:')
    connection.row_factory = sqlite3.Row
    connection.executescript(schema)
    for fill in fills:
      fill(connection, random.Random(f'{name}/{fill.__name__}'))
    connection.commit()
    connection.execute('VACUUM')
    data = connection.serialize()
    connection.close()
    return cls(name, data)

  @functools.cached_property
  def digest(self) -> str:
    """SHA-256 of the file."""
    return hashlib.sha256(self.data).hexdigest()

  def copy(self) -> sqlite3.Connection:
    """A copy in memory, which nobody else sees; rows are `sqlite3.Row`."""
    # Made, used and closed in threads that take turns.
    connection = sqlite3.connect(
        ':memory:', check_same_thread=False, isolation_level=None
    )
    connection.deserialize(self.data)
    connection.row_factory = sqlite3.Row
    connection.execute(f'PRAGMA max_page_count = {_MAX_PAGES}')
    connection.execute('PRAGMA foreign_keys = ON')
    return connection

  def changes(self, connection: sqlite3.Connection) -> Sequence['Change']:
    """The rows in which a copy differs, by table and key."""
    if not connection.total_changes:
      return ()
    seed = self.copy()
    try:
      return tuple(
          change
          for table in tables(seed)
          for change in _differing(self.name, table, seed, connection)
      )
    finally:
      seed.close()


@dataclasses.dataclass(frozen=True)
class Change:
  """A row that an episode added, changed or removed.

  Attributes:
    table: such as 'shop.orders'.
    key: its rowid.
    before: its columns in the seed; None: it was added.
    after: its columns now; None: it was removed.
  """

  table: str
  key: int
  before: Row | None
  after: Row | None

  @property
  def changed(self) -> Row:
    """The new values of the columns that differ, for a changed row."""
    return {
        name: value
        for name, value in self.after.items()
        if self.before[name] != value
    }


def tables(connection: sqlite3.Connection) -> Sequence[str]:
  """The names of all tables, but those of the full-text index."""
  found = connection.execute(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE"
      " 'sqlite_%' AND name NOT LIKE '%_fts%' ORDER BY name"
  )
  return tuple(row[0] for row in found)


def _differing(
    store: str, table: str, old: sqlite3.Connection, new: sqlite3.Connection
) -> Iterator['Change']:
  """The rows of a table that differ, by key; both are read side by side."""
  sides = [_ordered(old, table), _ordered(new, table)]
  names = [column[0] for column in sides[0].description[1:]]
  before, after = next(sides[0], None), next(sides[1], None)
  while before or after:
    key = min(row[0] for row in (before, after) if row)
    gone = before if before and before[0] == key else None
    come = after if after and after[0] == key else None
    if gone != come:
      rows = [
          dict(zip(names, row[1:], strict=True)) if row else None
          for row in (gone, come)
      ]
      yield Change(f'{store}.{table}', key, *rows)
    if gone:
      before = next(sides[0], None)
    if come:
      after = next(sides[1], None)


def _ordered(connection: sqlite3.Connection, table: str) -> sqlite3.Cursor:
  cursor = connection.cursor()
  cursor.row_factory = None  # tuples
  return cursor.execute(f'SELECT rowid, * FROM "{table}" ORDER BY rowid')


def rows_of(connection: sqlite3.Connection, table: str) -> Mapping[int, Row]:
  """The rows of a table by their rowid."""
  cursor = connection.execute(f'SELECT rowid, * FROM "{table}"')
  names = [column[0] for column in cursor.description[1:]]
  return {
      row[0]: dict(zip(names, tuple(row)[1:], strict=True)) for row in cursor
  }
