"""Tasks on reports."""

import itertools
from collections.abc import Sequence
from typing import Any

from agentrl.sites import picking as pick, seed_data, task as t
from agentrl.sites.admin.tasks import paths
from agentrl.sites.admin.tasks.paths import go, seek
from agentrl.sites.answers import Money, Several, Text

_VALUES = seed_data.read(__file__)
_GRID = 'sales/order/'  # a page without products
# First day, last day, and words.
_SPANS = _VALUES['spans']
_MONTHS = _VALUES['months']
_NTH = ('', 'second ', 'third ')


def _monthly(db: t.Db, k: int) -> t.Task:
  first, last, words = _VALUES['monthly'][k]
  rows = db.rows(
      'SELECT cast(substr(created_at, 6, 2) AS INTEGER) AS month, count(*) AS'
      " orders FROM orders WHERE status = 'complete' AND date(created_at)"
      ' BETWEEN ? AND ? GROUP BY month ORDER BY month',
      first,
      last,
  )
  return seek(
      f'How many of the orders of each month are complete, from {words}?'
      ' Answer in the form MM:COUNT, one after the other, separated by'
      ' semicolons.',
      Several(
          [
              Text(f'{month:02d}:{orders}', (f'{month}:{orders}',))
              for month, orders in rows
          ],
          ordered=True,
      ),
      *paths.figures('Orders', first, last, period='Month', status='Complete'),
  )


def _sold(db: t.Db, first: str, last: str) -> Sequence[Any]:
  """Names and quantities of the products sold in a span, the best first."""
  return db.rows(
      'SELECT p.name, sum(i.quantity) AS sold FROM orders o JOIN order_items i'
      ' ON i.order_id = o.id JOIN products p ON p.id = i.product_id WHERE'
      " o.status != 'canceled' AND date(o.created_at) BETWEEN ? AND ? GROUP BY"
      ' p.id ORDER BY sold DESC LIMIT 5',
      first,
      last,
  )


def _ranked(rows: Sequence[Any], count: int) -> bool:
  """True if the second column of the first rows has no ties."""
  values = [row[1] for row in rows[: count + 1]]
  return len(values) == len(set(values)) == count + 1


def _bestseller(db: t.Db, k: int) -> t.Task:
  seen, choices = set(), []
  for (first, last, words), place in itertools.product(_SPANS, range(3)):
    sold = _sold(db, first, last)
    name = sold[place]['name']
    if name not in seen and _ranked(sold, place + 1):
      seen.add(name)
      choices.append((first, last, words, place, name))
  first, last, words, place, name = pick.kth_spread(choices, k)
  return seek(
      f'Which is the {_NTH[place]}best-selling product of {words}, going'
      ' by the quantities in the bestsellers report? Answer with its name.',
      Text(name),
      *paths.figures('Bestsellers', first, last, period='Year'),
      start=_GRID,
  )


def _bestsellers(db: t.Db, k: int) -> t.Task:
  choices = []
  for first, last, words in (*_MONTHS, *_SPANS[1:]):
    sold = _sold(db, first, last)
    for count in (3, 2):
      if _ranked(sold, count):
        choices.append((first, last, words, [x['name'] for x in sold[:count]]))
        break
  first, last, words, names = pick.kth_spread(choices, k)
  return seek(
      f'Name the {len(names)} best-selling products of {words} by the'
      ' bestsellers report, the best first, separated by semicolons.',
      Several([Text(name) for name in names], ordered=True),
      *paths.figures('Bestsellers', first, last, period='Year'),
      start=_GRID,
  )


def _buyers(db: t.Db, first: str, last: str, status: str) -> Sequence[Any]:
  """Names, numbers of orders, e-mails and phones, most orders first."""
  return db.rows(
      "SELECT c.first_name || ' ' || c.last_name AS name, count(*) AS orders,"
      ' c.email, (SELECT phone FROM addresses a WHERE a.id = c.billing_id) AS'
      ' phone FROM orders o JOIN customers c ON c.id = o.customer_id WHERE'
      ' o.status = ? AND date(o.created_at) BETWEEN ? AND ? GROUP BY c.id ORDER'
      ' BY orders DESC LIMIT 5',
      status,
      first,
      last,
  )


def _of_rank(db: t.Db, k: int, status: str) -> tuple[Any, ...]:
  """First and last day, words, place, and the customer of a place."""
  seen, choices = set(), []
  for span, place in itertools.product((*_SPANS, *_MONTHS), range(3)):
    buyers = _buyers(db, span[0], span[1], status)
    if _ranked(buyers, place + 1) and buyers[place]['name'] not in seen:
      seen.add(buyers[place]['name'])
      choices.append((*span, place, buyers[place]))
  return pick.kth_spread(choices, k)


def _most_orders(db: t.Db, k: int) -> t.Task:
  first, last, words, place, buyer = _of_rank(db, k, 'complete')
  name = buyer['name']
  return seek(
      f'Which customer has the {_NTH[place]}most complete orders from'
      f' {words}? Answer with the full name.',
      Text(name),
      *paths.figures('Order Count', first, last, status='Complete'),
      start='cms/page/',
  )


def _most_canceled(db: t.Db, k: int) -> t.Task:
  first, last, words, place, buyer = _of_rank(db, k, 'canceled')
  column, field = _VALUES['most_canceled'][k % 3]
  return seek(
      f'Take the customer with the {_NTH[place]}most canceled orders from'
      f' {words}. What is the {field}?',
      Text(buyer[column]),
      *paths.figures('Order Count', first, last, status='Canceled'),
      *paths.menu('Customers', 'All Customers'),
      paths.search(buyer['name']),
      start='cms/page/',
  )


def _span_of_today(_: t.Db, k: int) -> t.Task:
  words, first, last = _VALUES['span_of_today'][k]
  return go(
      f'Today is 15 June 2023. Show the orders report for {words}.',
      f'reports/report_sales/sales?from={first}&to={last}',
      *paths.figures('Orders', first, last),
  )


def _report(_: t.Db, k: int) -> t.Task:
  label, path, first, last = _VALUES['report'][k]
  return go(
      f'Create the {label.lower()} report from {first} to {last}.',
      f'reports/report_sales/{path}?from={first}&to={last}',
      *paths.figures(label, first, last),
  )


def _refunded(db: t.Db, k: int) -> t.Task:
  first, last, words = _MONTHS[k + 1]
  cents = db.value(
      'SELECT sum(t.total_cents) FROM refunds r JOIN order_totals t ON'
      ' t.order_id = r.order_id WHERE date(r.created_at) BETWEEN ? AND ?',
      first,
      last,
  )
  return seek(
      f'How much money was refunded in {words}? Answer with the amount.',
      Money(cents),
      *paths.figures('Refunds', first, last, period='Month'),
  )


def _shipping(db: t.Db, k: int) -> t.Task:
  first, last, words = _SPANS[k + 1]
  method = ('Express Delivery', 'Standard Delivery')[k % 2]
  cents = db.value(
      'SELECT sum(shipping_cents) FROM orders WHERE shipping = ? AND'
      ' date(created_at) BETWEEN ? AND ?',
      method,
      first,
      last,
  )
  return seek(
      f'Which amount does the shipping report give for {method} in'
      f' {words}, over orders of any status?',
      Money(cents),
      *paths.figures('Shipping', first, last, period='Year'),
  )


TEMPLATES = (
    t.Template('admin/monthly-orders', t.SEEK, _monthly, 5, (270,)),
    t.Template('admin/report-of-span', t.GO, _report, 5, (271,)),
    t.Template('admin/bestseller', t.SEEK, _bestseller, 5, (279,)),
    t.Template('admin/most-orders', t.SEEK, _most_orders, 5, (276,)),
    t.Template('admin/report-of-today', t.GO, _span_of_today, 5, (268,)),
    t.Template('admin/most-cancellations', t.SEEK, _most_canceled, 5, (234,)),
    t.Template('admin/bestsellers', t.SEEK, _bestsellers, 5, (279,)),
    t.Template('admin/refunded', t.SEEK, _refunded, 5),
    t.Template('admin/shipping-charges', t.SEEK, _shipping, 5),
)
