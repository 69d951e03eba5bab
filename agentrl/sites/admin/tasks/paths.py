"""Steps that the experts of the administration share, and values of tasks."""

import functools
import sqlite3

from agentrl.sites import picking as pick, task as t
from agentrl.sites.admin.pages import show
from agentrl.sites.answers import Text

_MAKER = t.Maker('http://admin/')
seek, change, go = _MAKER.seek, _MAKER.change, _MAKER.go
_ROLE = 'DisclosureTriangle'  # of what opens a part of a page


def row_named(db: t.Db, k: int, sql: str, *, count: int = 5) -> sqlite3.Row:
  """As `row_spread`, of rows whose `name` is a part of no other product's."""
  return pick.kth_spread(rows_named(db, sql), k, count)


def rows_named(db: t.Db, sql: str) -> list[sqlite3.Row]:
  """Rows whose `name` is a part of no other product's."""
  alone = _alone(tuple(x for (x,) in db.rows('SELECT name FROM products')))
  return [x for x in db.rows(sql) if x['name'] in alone]


@functools.lru_cache(maxsize=2)
def _alone(names: tuple[str, ...]) -> frozenset[str]:
  """The names that are a part of no other."""
  text = '\n'.join(names)
  return frozenset(name for name in names if text.count(name) == 1)


def menu(section: str, label: str) -> tuple[t.Step, ...]:
  """Opens a page by the menu."""
  return t.click_on(_ROLE, section), t.link(label)


def search(text: str) -> t.Step:
  """Looks for a keyword in a grid."""
  return t.fill('Search by keyword', text, role='searchbox', enter=True)


def filters(*steps: t.Step, opened: bool = False) -> tuple[t.Step, ...]:
  """Applies filters to a grid.

  Args:
    *steps: that fill them in.
    opened: whether they are shown already.
  """
  shown = () if opened else (t.click_on(_ROLE, 'Filters'),)
  return *shown, *steps, t.button('Apply Filters')


def many(action: str, *boxes: str) -> tuple[t.Step, ...]:
  """Does something to rows of a grid; without names to all of the page."""
  names = [f'Select {box}' for box in boxes] or ['Select all on this page']
  return (
      *(t.click_on('checkbox', name) for name in names),
      t.choose('Actions', action),
      t.button('Submit'),
  )


def figures(
    report: str, first: str, last: str, *, period: str = '', status: str = ''
) -> tuple[t.Step, ...]:
  """Opens a report by the menu, and shows it for a span of days."""
  return (
      *menu('Reports', report),
      *((t.choose('Period', period),) if period else ()),
      t.fill('From', first),
      t.fill('To', last),
      *((t.choose('Order Status', status),) if status else ()),
      t.button('Show Report'),
  )


def numbered(key: int) -> Text:
  """An answer that is the number of an order."""
  text = show.number(key)
  return Text(text, (str(key), f'#{text}', f'#{key}'))
