"""The goal of a task, and whether an episode reached it.

Reward is 1 if the answer is right, exactly the rows changed that had to, and
the browser is where it has to be; else 0.
"""

import dataclasses
import re
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentrl.sites.answers import Answer
from agentrl.sites.forge.pages import lists
from agentrl.sites.forum.pages import search
from agentrl.sites.shop.pages import listing
from agentrl.sites.state import Request
from agentrl.sites.store import FREE, Change, lasting

ADDED, CHANGED, REMOVED = 'added', 'changed', 'removed'
# Parts of an address that a task leaves open where it does not name them: how a
# list is shown, and what is shown anyway. Others would show another list.
_MANNER = frozenset({'dir', 'order', 'period', 'sort'})
_DEFAULTS = frozenset({('page', '1'), ('state', 'opened')})
# Fields of a query of which a site reads less than is said, such as the words
# of a search in any order.
_words = lambda terms: lambda text: frozenset(terms(text))
_READ: Mapping[tuple[str, str], Callable[[str], Any]] = {
    ('shop', 'q'): _words(listing.terms),
    ('forum', 'q'): _words(search.terms),
    ('forge', 'search'): _words(lists.terms),
    ('forge', 'name'): _words(lists.terms),
    ('forge', 'label_name[]'): str.lower,
    **{('forge', field): lists.named for field in lists.FIELDS},
}
# Sites that find the names in a path whatever their case.
_ANY_CASE = frozenset({'forum', 'forge'})


@dataclasses.dataclass(frozen=True)
class New:
  """The key of the one row that the episode added to this table."""

  table: str


@dataclasses.dataclass(frozen=True)
class Anything:
  """Any value but NULL: a text that the task leaves to the policy."""


@dataclasses.dataclass(frozen=True)
class Row:
  """A row that must have been added, changed or removed.

  Attributes:
    table: with its store, such as 'shop.orders'.
    kind: ADDED, CHANGED or REMOVED.
    values: of an added row all columns but FREE ones and those that are NULL;
      of a changed one the new values of all columns that change.
    key: rowid of a changed or removed row.
  """

  table: str
  kind: str
  values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  key: int | None = None


def added(table: str, /, **values: Any) -> Row:
  """A row that was added."""
  return Row(table, ADDED, values)


def changed(table: str, key: int, /, **values: Any) -> Row:
  """A row of which columns have new values."""
  return Row(table, CHANGED, values, key)


def removed(table: str, key: int) -> Row:
  """A row that was removed."""
  return Row(table, REMOVED, key=key)


@dataclasses.dataclass(frozen=True)
class Goal:
  """The state and the answer in which a task is done.

  Attributes:
    answer: that `stop` must give; None: any.
    rows: that must differ from the seed's; no other may, see
      `store.lasting`.
    url: address, such as 'http://shop/cart', of the page that must be shown at
      the end, in whatever order its list is if the query does not say. None:
      any.
    requests: regular expressions, each for a whole line `METHOD SITE PATH` of a
      request that must have been answered without an error.
  """

  answer: Answer | None = None
  rows: Sequence[Row] = ()
  url: str | None = None
  requests: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Outcome:
  """An episode at its end.

  Attributes:
    answer: of `stop`.
    changes: of all stores.
    url: of the current tab, with the sites' names.
    requests: that the sites answered, in order.
  """

  answer: str
  changes: Sequence[Change]
  url: str
  requests: Sequence[Request]


def reached(goal: Goal, outcome: Outcome) -> bool:
  """True if the goal was reached, and nothing else was done."""
  return not missing(goal, outcome)


def missing(goal: Goal, outcome: Outcome) -> str:
  """The first part of a goal that was not reached; '' if it was."""
  if goal.answer is not None and not goal.answer.accepts(outcome.answer):
    return 'answer'
  if not _rows_are(goal.rows, outcome.changes):
    return 'rows'
  if goal.url is not None and not (
      _is_at(goal.url, outcome.url) and _is_shown(outcome)
  ):
    return 'url'
  done = [x for x in outcome.requests if x.status < 400]
  lines = [f'{x.method} {x.site} {x.path}' for x in done]
  if goal.rows and all(x.method == 'GET' for x in done):
    return 'requests'  # no row changes by reading
  for pattern in goal.requests:
    if not any(re.fullmatch(pattern, line) for line in lines):
      return 'requests'
  return ''


def _rows_are(rows: Sequence[Row], changes: Sequence[Change]) -> bool:
  """True if each row is one of the changes, and each change one of the rows."""
  changes = lasting(changes)
  added: dict[str, list[int]] = {}
  for change in changes:
    if change.before is None:
      added.setdefault(change.table, []).append(change.key)
  left = list(changes)
  for row in rows:
    match = next((x for x in left if _is(row, x, added)), None)
    if match is None:
      return False
    left.remove(match)
  return not left


def _is(row: Row, change: Change, added: Mapping[str, Sequence[int]]) -> bool:
  if row.table != change.table or row.key not in (None, change.key):
    return False
  if row.kind == REMOVED:
    return change.after is None
  if change.after is None or (row.kind == ADDED) != (change.before is None):
    return False
  values = change.after if row.kind == ADDED else change.changed
  wanted = {
      name: value for name, value in row.values.items() if value is not None
  }
  have = {
      name: value
      for name, value in values.items()
      if (row.kind == CHANGED or value is not None)
      and (name not in FREE or name in row.values)
  }
  if row.kind == CHANGED:
    wanted = dict(row.values)
  return wanted.keys() == have.keys() and all(
      _equal(value, have[name], added) for name, value in wanted.items()
  )


def _equal(wanted: Any, have: Any, added: Mapping[str, Sequence[int]]) -> bool:
  if isinstance(wanted, Anything):
    return True
  if isinstance(wanted, New):
    return added.get(wanted.table) == [have]
  if isinstance(wanted, str) and isinstance(have, str):
    return wanted.split() == have.split()
  return type(wanted) is type(have) and wanted == have


def _is_at(wanted: str, url: str) -> bool:
  """True if two addresses are of one page; what `wanted` leaves open is free."""
  site, path, query = _parts(wanted)
  if (site, path) != _parts(url)[:2]:
    return False
  shown = _parts(url)[2]
  names = {name for name, _ in query}
  return all(x in shown for x in query) and all(
      (name, value) in query
      if name in names
      else name in _MANNER or (name, value) in _DEFAULTS
      for name, value in shown
  )


def _is_shown(outcome: Outcome) -> bool:
  """False if the last answer with this address was an error page."""
  site, path, query = _address(outcome.url)
  for request in reversed(outcome.requests):
    if not request.document or request.site != site:
      continue
    if _address(f'http://{site}{request.path}') == (site, path, query):
      return request.status < 400
  return True  # it was not asked for again


def _address(url: str) -> tuple[str, str, Sequence[tuple[str, str]]]:
  """Site, path and query, decoded; fields that were left empty are left out."""
  parts = urllib.parse.urlsplit(url)
  path = urllib.parse.unquote(parts.path) or '/'
  return parts.netloc, path, urllib.parse.parse_qsl(parts.query)


def _parts(url: str) -> tuple[str, str, Sequence[tuple[str, Any]]]:
  """Site, path and query as the site reads them."""
  site, path, query = _address(url)
  path = path.rstrip('/')
  return (
      site,
      path.lower() if site in _ANY_CASE else path,
      [(name, _READ.get((site, name), str)(value)) for name, value in query],
  )
