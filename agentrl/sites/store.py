"""The records of a site: one SQLite database, copied for each episode."""

import collections
import dataclasses
import datetime
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
# Columns that the sites fill by themselves.
FREE = frozenset({'id', 'created_at', 'updated_at'})
_DELETED = 'is_deleted'  # set where others' replies keep a deleted row

_NOW = datetime.datetime.fromisoformat(NOW)

Row = Mapping[str, Any]
Fill = Callable[[sqlite3.Connection, random.Random], None]


def ago(minutes: int, seconds: int = 0) -> str:
  """A time before now, as columns have it."""
  return str(_NOW - datetime.timedelta(minutes=minutes, seconds=seconds))


def day_in(days: int) -> str:
  """The day so many days from now."""
  return str((_NOW + datetime.timedelta(days=days)).date())


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
  def build(cls, name: str, schema: str, **fills: Fill) -> 'Store':
    """Makes the records; equal in every process.

    Args:
      name: of the store.
      schema: SQL that makes the tables.
      **fills: insert or change the records, one after the other; their names
        here and the store's seed the draws, whatever the functions are called.
    """
    connection = sqlite3.connect(':memory:')
    connection.row_factory = sqlite3.Row
    connection.executescript(schema)
    for part, fill in fills.items():
      fill(connection, random.Random(f'{name}/{part}'))
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
      names = tables(seed)
      references = _references(seed, names)
      return tuple(
          dataclasses.replace(
              change,
              referred=change.after is not None
              and _is_referred(connection, references[table], change.key),
          )
          for table in names
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
    referred: whether other rows refer to this one now.
  """

  table: str
  key: int
  before: Row | None
  after: Row | None
  referred: bool = False

  @property
  def changed(self) -> Row:
    """The new values of the columns that differ, for a changed row."""
    assert self.before is not None and self.after is not None
    return {
        name: value
        for name, value in self.after.items()
        if self.before[name] != value
    }


def lasting(changes: Sequence[Change]) -> Sequence[Change]:
  """The changes that leave the records other than they were.

  A change is left out where only FREE columns differ, where an added row is
  deleted again, and where a row equal in all other columns was added for one
  that was removed. SQLite gives the id of a removed last row to the next one
  that is added, so a row to which none refers may stand for two: a removed and
  an added one.
  """
  gone: dict[Any, collections.deque[int]] = {}  # contents -> places in changes
  come: dict[int, Any] = {}  # place -> contents
  for place, change in enumerate(changes):
    before, after = _contents(change, change.before), None
    if change.after is not None and not change.after.get(_DELETED):
      after = _contents(change, change.after)
    whole = change.before is not None and change.after is not None
    if before == after or whole and change.referred:
      continue
    if before is not None:
      gone.setdefault(before, collections.deque()).append(place)
    if after is not None:
      come[place] = after
  undone, replaced = set(), set()
  for place, contents in come.items():
    if gone.get(contents):
      undone.add(gone[contents].popleft())
      replaced.add(place)
  net_changes = []
  for place, change in enumerate(changes):
    if place in undone:
      change = dataclasses.replace(change, before=None)
    if place in replaced:
      change = dataclasses.replace(change, after=None)
    if change.before is None and (
        change.after is None or change.after.get(_DELETED)
    ):
      continue
    if _contents(change, change.before) != _contents(change, change.after):
      net_changes.append(change)
  return tuple(net_changes)


def _contents(change: Change, row: Row | None) -> Any:
  """What a row says, without the columns that a site fills."""
  if row is None:
    return None
  kept = sorted(item for item in row.items() if item[0] not in FREE)
  return change.table, tuple(kept)


def _references(
    connection: sqlite3.Connection, names: Sequence[str]
) -> Mapping[str, Sequence[tuple[str, str]]]:
  """Table -> the tables and columns that refer to its rows."""
  references: dict[str, list[tuple[str, str]]] = {name: [] for name in names}
  for name in names:
    for row in connection.execute(f'PRAGMA foreign_key_list("{name}")'):
      references[row['table']].append((name, row['from']))
  return references


def _is_referred(
    connection: sqlite3.Connection,
    references: Sequence[tuple[str, str]],
    key: int,
) -> bool:
  return any(
      connection.execute(
          f'SELECT 1 FROM "{table}" WHERE "{column}" = ? LIMIT 1', (key,)
      ).fetchone()
      for table, column in references
  )


def tables(connection: sqlite3.Connection) -> Sequence[str]:
  """The names of all tables, but those of the full-text index."""
  rows = connection.execute(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE"
      " 'sqlite_%' AND name NOT LIKE '%_fts%' ORDER BY name"
  )
  return tuple(row[0] for row in rows)


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
      was, now = (
          dict(zip(names, row[1:], strict=True)) if row else None
          for row in (gone, come)
      )
      yield Change(f'{store}.{table}', key, was, now)
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
