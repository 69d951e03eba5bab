"""The parts of a site: its routes, what a handler is given, what it answers."""

import dataclasses
import pathlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from multidict import MultiMapping

from agentrl.sites import writes

PER_PAGE = 20


@dataclasses.dataclass(frozen=True)
class Visit:
  """A request of an episode's browser.

  Attributes:
    db: the episode's copy of the site's records.
    path: of the request.
    match: parts of the path that the route names.
    query: of the address.
    form: of a POST.
    user: id of the visitor that is signed in; None: nobody is.
  """

  db: sqlite3.Connection
  path: str
  match: Mapping[str, str]
  query: MultiMapping[str]
  form: MultiMapping[str]
  user: int | None

  @property
  def user_id(self) -> int:
    """The visitor's id; handlers are called for a visitor only."""
    assert self.user is not None
    return self.user

  def one(self, sql: str, *values: Any) -> sqlite3.Row:
    """The first row of a query.

    Raises:
      Missing: there is none.
    """
    row = self.db.execute(sql, values).fetchone()
    if row is None:
      raise Missing
    return row

  def all(self, sql: str, *values: Any) -> list[sqlite3.Row]:
    """The rows of a query."""
    return self.db.execute(sql, values).fetchall()

  def value(self, sql: str, *values: Any) -> Any:
    """The first column of the first row of a query; None: no row."""
    row = self.db.execute(sql, values).fetchone()
    return None if row is None else row[0]

  def column(self, sql: str, *values: Any) -> list[Any]:
    """The first column of the rows of a query."""
    return [row[0] for row in self.all(sql, *values)]

  def pairs(self, sql: str, *values: Any) -> dict[Any, Any]:
    """The first column of the rows of a query -> the second one."""
    return {row[0]: row[1] for row in self.all(sql, *values)}

  def row(self, table: str) -> sqlite3.Row:
    """The row of a table with the id of the address.

    Raises:
      Missing: there is none.
    """
    return self.find(table, id=int(self.match['id']))

  def find(self, table: str, /, **where: Any) -> sqlite3.Row:
    """The first row with these values.

    Raises:
      Missing: there is none.
    """
    sql = f'SELECT * FROM {table} {_having(where)}'
    return self.one(sql, *where.values())

  def rows(self, table: str, order: str, /, **where: Any) -> list[sqlite3.Row]:
    """The rows with these values, in an order of SQL."""
    sql = f'SELECT * FROM {table} {_having(where)} ORDER BY {order}'
    return self.all(sql, *where.values())

  def count(self, table: str, /, **where: Any) -> int:
    """The number of rows with these values."""
    sql = f'SELECT count(*) FROM {table} {_having(where)}'
    return self.value(sql, *where.values())

  def has(self, table: str, /, **where: Any) -> bool:
    """True if there is a row with these values."""
    sql = f'SELECT 1 FROM {table} {_having(where)}'
    return self.value(sql, *where.values()) is not None

  def insert(self, table: str, /, **values: Any) -> int:
    """Adds a row; returns its id."""
    return writes.insert(self.db, table, **values)

  def update(self, table: str, key: int, /, **values: Any) -> None:
    """Changes columns of a row."""
    writes.update(self.db, table, key, **values)

  def delete(self, table: str, /, **where: Any) -> None:
    """Removes the rows with these values."""
    self.db.execute(
        f'DELETE FROM {table} {_having(where)}', tuple(where.values())
    )

  def page(self, count: int, per_page: int = PER_PAGE) -> 'Paging':
    """The page that the address asks for, of so many rows."""
    text = self.query.get('page', '1')
    last = max(1, -(-count // per_page))
    number = int(text) if text.isdecimal() and len(text) < 7 else 1
    return Paging(min(max(number, 1), last), last, per_page, count)

  def shown(
      self, count: int, sql: str, *values: Any
  ) -> tuple[list[sqlite3.Row], 'Paging']:
    """The rows of a query on the page that the address asks for.

    Args:
      count: of all its rows.
      sql: the query, with an order.
      *values: of its question marks.
    """
    paging = self.page(count)
    rows = self.all(f'{sql} LIMIT ? OFFSET ?', *values, *paging.window)
    return rows, paging

  def chosen(self, name: str, choices: Iterable[str], default: str) -> str:
    """A field of the query if it is one of those known, else the default."""
    value = self.query.get(name, default)
    return value if value in choices else default

  def text(self, name: str, *, most: int = 5000, needed: bool = True) -> str:
    """A field of the form, without space around it.

    Raises:
      Wrong: it is empty though it is needed, or too long.
    """
    text = '\n'.join(self.form.get(name, '').strip().splitlines())
    label = name.replace('_', ' ').capitalize()
    if needed and not text:
      raise Wrong(f'{label} is a required field.')
    if len(text) > most:
      raise Wrong(f'{label} is too long (maximum is {most} characters).')
    return text

  def number(self, name: str, low: int, high: int) -> int:
    """A whole number of the form.

    Raises:
      Wrong: it is none, or out of range.
    """
    text = self.form.get(name, '').strip()
    if not text.isdecimal() or not low <= int(text[:12]) <= high:
      label = name.replace('_', ' ').capitalize()
      raise Wrong(f'{label} must be a number from {low} to {high}.')
    return int(text)


@dataclasses.dataclass(frozen=True)
class Paging:
  """A page of a list; `window` fills in the marks of `LIMIT ? OFFSET ?`."""

  number: int
  last: int
  limit: int
  count: int

  @property
  def offset(self) -> int:
    return (self.number - 1) * self.limit

  @property
  def window(self) -> tuple[int, int]:
    return self.limit, self.offset


@dataclasses.dataclass(frozen=True)
class Page:
  """An answer: a template of the site with these values."""

  template: str
  values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  status: int = 200

  @classmethod
  def of(cls, template: str, /, **values: Any) -> 'Page':
    """A page with these values."""
    return cls(template, values)

  @classmethod
  def form(cls, template: str, error: str, /, **values: Any) -> 'Page':
    """A form with these values; `error` says what was wrong, '' if nothing."""
    return cls(template, {**values, 'error': error}, 422 if error else 200)


@dataclasses.dataclass(frozen=True)
class Redirect:
  """An answer: another address of the site, and a message to show there."""

  to: str
  notice: str = ''


class Missing(Exception):
  """There is no such page or record: an answer with status 404."""


class Wrong(Exception):
  """A form that cannot be taken; the message is shown, nothing is written."""


class Forbidden(Exception):
  """The visitor may not do this: an answer with status 403."""


Answer = Page | Redirect
Handler = Callable[[Visit], Answer]
Route = tuple[str, str, Handler]


def form(path: str, show: Handler, take: Handler) -> tuple[Route, Route]:
  """The routes of a form, which is shown and taken at one address."""
  return ('GET', path, show), ('POST', path, take)


def like(text: str) -> str:
  r"""The pattern of texts that hold this one: `LIKE ? ESCAPE '\'`."""
  for sign in '\\%_':
    text = text.replace(sign, f'\\{sign}')
  return f'%{text}%'


def _having(where: Mapping[str, Any]) -> str:
  return 'WHERE ' + ' AND '.join(f'{name} = ?' for name in where)


@dataclasses.dataclass(frozen=True)
class Site:
  """A site.

  Attributes:
    name: also its host name as policies see it, and a folder of templates.
    title: that its pages show.
    store: name of the store that it reads and writes.
    user: id of the visitor for whom it is signed in.
    account: that visitor's name, as its pages show it.
    routes: method, path in aiohttp's form, and handler, first match first. A
      handler of GET writes nothing.
    folder: of its package: templates/ and static/ lie there.
    common: values for all its templates, made for each page.
    filters: further filters of its templates.
  """

  name: str
  title: str
  store: str
  user: int
  account: str
  routes: Sequence[Route]
  folder: pathlib.Path
  common: Callable[[Visit], Mapping[str, Any]] = lambda visit: {}
  filters: Mapping[str, Callable[..., Any]] = dataclasses.field(
      default_factory=dict
  )
