"""Steps that the experts of the administration share, and values of tasks."""

import sqlite3
from collections.abc import Sequence
from typing import Any, TypeVar

from agentrl.sites.admin.pages import show
from agentrl.sites.answers import Text
from agentrl.sites.task import Step, Stores, choose, click_on, fill

START = ('http://admin/',)
_ROLE = 'DisclosureTriangle'  # of what opens a part of a page
T = TypeVar('T')


def rows(stores: Stores, sql: str, *values: Any) -> list[sqlite3.Row]:
  """The rows of a query of the shop's records.

  Raises:
    LookupError: there is none, so that a task could not be made.
  """
  found = stores['shop'].execute(sql, values).fetchall()
  if not found:
    raise LookupError(f'No record fits {sql!r}.')
  return found


def named(stores: Stores, sql: str, *values: Any) -> list[sqlite3.Row]:
  """Those `rows` whose `name` is a part of no other product's."""
  names = '\n'.join(
      name for (name,) in rows(stores, 'SELECT name FROM products')
  )
  found = rows(stores, sql, *values)
  return [row for row in found if names.count(row['name']) == 1]


def nth(found: Sequence[T], k: int, count: int = 5) -> T:
  """The k-th of `count` values that are spread over those found.

  Raises:
    LookupError: there are fewer.
  """
  if len(found) < count:
    raise LookupError(f'{len(found)} values are too few for {count} tasks.')
  return found[k * len(found) // count]


def menu(section: str, label: str) -> tuple[Step, ...]:
  """Opens a page by the menu."""
  return click_on(_ROLE, section), click_on('link', label)


def search(text: str) -> Step:
  """Looks for a keyword in a grid."""
  return fill('Search by keyword', text, role='searchbox', enter=True)


def filters(*steps: Step, opened: bool = False) -> tuple[Step, ...]:
  """Applies filters to a grid.

  Args:
    *steps: that fill them in.
    opened: whether they are shown already.
  """
  shown = () if opened else (click_on(_ROLE, 'Filters'),)
  return *shown, *steps, click_on('button', 'Apply Filters')


def many(action: str, *boxes: str) -> tuple[Step, ...]:
  """Does something to rows of a grid; without names to all of the page."""
  names = [f'Select {box}' for box in boxes] or ['Select all on this page']
  return (
      *(click_on('checkbox', name) for name in names),
      choose('Actions', action),
      click_on('button', 'Submit'),
  )


def figures(
    report: str, first: str, last: str, *, period: str = '', status: str = ''
) -> tuple[Step, ...]:
  """Opens a report by the menu, and shows it for a span of days."""
  return (
      *menu('Reports', report),
      *((choose('Period', period),) if period else ()),
      fill('From', first),
      fill('To', last),
      *((choose('Order Status', status),) if status else ()),
      click_on('button', 'Show Report'),
  )


def numbered(key: int) -> Text:
  """An answer that is the number of an order."""
  text = show.number(key)
  return Text(text, (str(key), f'#{text}', f'#{key}'))
