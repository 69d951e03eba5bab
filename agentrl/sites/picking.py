"""Values for tasks, picked from the records: queries and orders of values.

The k-th value, from 0, may be counted in four orders:

  kth: in the order in which they are found.
  spread: at equal distances over all that are found.
  mixed: of rows that have an `id`, in an order that mixes old and new ones.
  shuffled: in an order that is drawn by a key, the name of the draw.

`row_spread`, `row_mixed` and `row_shuffled` count the rows of a query so.
"""

import dataclasses
import itertools
import random
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar('T')


@dataclasses.dataclass(frozen=True)
class Db:
  """The records that tasks are made from; `values` fill in question marks."""

  connection: sqlite3.Connection

  def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
    """The rows of a query."""
    return self.connection.execute(sql, values).fetchall()

  def first(self, sql: str, *values: Any) -> sqlite3.Row:
    """The first row of a query.

    Raises:
      LookupError: there is none.
    """
    return self.rows(sql, *values)[0]

  def value(self, sql: str, *values: Any) -> Any:
    """The first column of the first row of a query.

    Raises:
      LookupError: there is no row.
    """
    return self.first(sql, *values)[0]

  def row_spread(
      self, k: int, sql: str, *values: Any, count: int = 5
  ) -> sqlite3.Row:
    """The k-th of `count` rows that are spread over those of a query."""
    return kth_spread(self.rows(sql, *values), k, count)

  def row_mixed(self, k: int, sql: str, *values: Any) -> sqlite3.Row:
    """The k-th row of a query whose rows have an `id`, in a mixed order."""
    return mixed(self.rows(sql, *values))[k]

  def row_shuffled(
      self, k: int, key: str, sql: str, *values: Any
  ) -> sqlite3.Row:
    """The k-th row of a query, in an order that is drawn by a key.

    Args:
      k: number of the row, from 0.
      key: name of the draw, which stays when the query is written otherwise.
      sql: the query, with an order of its own.
      *values: of its question marks.
    """
    return kth_shuffled(self.rows(sql, *values), k, key)


def kth(values: Iterable[T], k: int) -> T:
  """The k-th value.

  Raises:
    LookupError: there are not so many.
  """
  for each in itertools.islice(values, k, None):
    return each
  raise LookupError(f'There is no value number {k} for this task.')


def kth_spread(values: Sequence[T], k: int, count: int = 5) -> T:
  """The k-th of `count` values that are spread over those found.

  Raises:
    LookupError: there are fewer.
  """
  if len(values) < count:
    raise LookupError(f'{len(values)} values are too few for {count} tasks.')
  return values[k * len(values) // count]


def grouped(values: Iterable[T], key: Callable[[T], Any]) -> dict[Any, list[T]]:
  """Values by a key; keys are in the order in which they are found."""
  groups: dict[Any, list[T]] = {}
  for each in values:
    groups.setdefault(key(each), []).append(each)
  return groups


def mixed(rows: Iterable[sqlite3.Row]) -> list[sqlite3.Row]:
  """Rows that have an `id`, in an order that mixes old and new ones."""
  return sorted(rows, key=lambda row: (row['id'] * 7919 % 10_007, row['id']))


def shuffled(values: Iterable[T], key: str) -> list[T]:
  """Values in an order that is drawn by a key."""
  order = list(values)
  random.Random(key).shuffle(order)
  return order


def kth_shuffled(values: Sequence[T], k: int, key: str) -> T:
  """The k-th of values in an order that is drawn by a key.

  Raises:
    LookupError: there are not so many.
  """
  if k >= len(values):
    raise LookupError(f'There are only {len(values)} values: {key}')
  return shuffled(values, key)[k]
