"""Tasks on reports."""

import itertools
from collections.abc import Sequence
from typing import Any

from agentrl.sites.admin.tasks.steps import (
    START,
    figures,
    menu,
    nth,
    rows,
    search,
)
from agentrl.sites.answers import Money, Several, Text
from agentrl.sites.goals import Goal
from agentrl.sites.task import GO, SEEK, Stores, Task, Template, stop

_GRID = ('http://admin/sales/order/',)  # a page without products
# First day, last day, and words.
_SPANS = (
    ('2022-01-01', '2022-12-31', 'the year 2022'),
    ('2021-07-01', '2021-09-30', 'the third quarter of 2021'),
    ('2021-10-01', '2021-12-31', 'the fourth quarter of 2021'),
    ('2022-01-01', '2022-03-31', 'the first quarter of 2022'),
    ('2022-04-01', '2022-06-30', 'the second quarter of 2022'),
    ('2022-07-01', '2022-09-30', 'the third quarter of 2022'),
    ('2022-10-01', '2022-12-31', 'the fourth quarter of 2022'),
    ('2023-01-01', '2023-03-31', 'the first quarter of 2023'),
    ('2022-01-01', '2022-06-30', 'the first half of 2022'),
    ('2022-07-01', '2022-12-31', 'the second half of 2022'),
)
_MONTHS = (
    ('2021-08-01', '2021-08-31', 'August 2021'),
    ('2021-12-01', '2021-12-31', 'December 2021'),
    ('2022-02-01', '2022-02-28', 'February 2022'),
    ('2022-05-01', '2022-05-31', 'May 2022'),
    ('2022-07-01', '2022-07-31', 'July 2022'),
    ('2022-10-01', '2022-10-31', 'October 2022'),
    ('2023-01-01', '2023-01-31', 'January 2023'),
    ('2023-03-01', '2023-03-31', 'March 2023'),
)
_NTH = ('', 'second ', 'third ')


def _monthly(stores: Stores, k: int) -> Task:
  first, last, words = (
      ('2022-05-01', '2022-12-31', 'May to December 2022'),
      ('2023-01-01', '2023-05-31', 'January to May 2023'),
      ('2021-08-01', '2021-11-30', 'August to November 2021'),
      ('2022-01-01', '2022-06-30', 'January to June 2022'),
      ('2022-09-01', '2022-11-30', 'September to November 2022'),
  )[k]
  found = rows(
      stores,
      'SELECT cast(substr(created_at, 6, 2) AS INTEGER) AS month, count(*) AS'
      " orders FROM orders WHERE status = 'complete' AND date(created_at)"
      ' BETWEEN ? AND ? GROUP BY month ORDER BY month',
      first,
      last,
  )
  answer = Several(
      [
          Text(f'{month:02d}:{orders}', (f'{month}:{orders}',))
          for month, orders in found
      ],
      ordered=True,
  )
  return Task(
      intent=(
          f'How many of the orders of each month are complete, from {words}?'
          ' Answer in the form MM:COUNT, one after the other, separated by'
          ' semicolons.'
      ),
      goal=Goal(answer),
      steps=(
          *figures('Orders', first, last, period='Month', status='Complete'),
          stop(answer.example()),
      ),
      start=START,
  )


def _sold(stores: Stores, first: str, last: str) -> Sequence[Any]:
  """Names and quantities of the products sold in a span, the best first."""
  return rows(
      stores,
      'SELECT p.name, sum(i.quantity) AS sold FROM orders o JOIN order_items i'
      ' ON i.order_id = o.id JOIN products p ON p.id = i.product_id WHERE'
      " o.status != 'canceled' AND date(o.created_at) BETWEEN ? AND ? GROUP BY"
      ' p.id ORDER BY sold DESC LIMIT 5',
      first,
      last,
  )


def _ranked(found: Sequence[Any], count: int) -> bool:
  """True if the second column of the first rows has no ties."""
  values = [row[1] for row in found[: count + 1]]
  return len(values) == len(set(values)) == count + 1


def _bestseller(stores: Stores, k: int) -> Task:
  seen, found = set(), []
  for (first, last, words), place in itertools.product(_SPANS, range(3)):
    sold = _sold(stores, first, last)
    name = sold[place]['name']
    if name not in seen and _ranked(sold, place + 1):
      seen.add(name)
      found.append((first, last, words, place, name))
  first, last, words, place, name = nth(found, k)
  return Task(
      intent=(
          f'Which is the {_NTH[place]}best-selling product of {words}, going'
          ' by the quantities in the bestsellers report? Answer with its name.'
      ),
      goal=Goal(Text(name)),
      steps=(*figures('Bestsellers', first, last, period='Year'), stop(name)),
      start=_GRID,
  )


def _bestsellers(stores: Stores, k: int) -> Task:
  found = []
  for first, last, words in (*_MONTHS, *_SPANS[1:]):
    sold = _sold(stores, first, last)
    for count in (3, 2):
      if _ranked(sold, count):
        found.append((first, last, words, [x['name'] for x in sold[:count]]))
        break
  first, last, words, names = nth(found, k)
  answer = Several([Text(name) for name in names], ordered=True)
  return Task(
      intent=(
          f'Name the {len(names)} best-selling products of {words} by the'
          ' bestsellers report, the best first, separated by semicolons.'
      ),
      goal=Goal(answer),
      steps=(
          *figures('Bestsellers', first, last, period='Year'),
          stop(answer.example()),
      ),
      start=_GRID,
  )


def _buyers(
    stores: Stores, first: str, last: str, status: str
) -> Sequence[Any]:
  """Names, numbers of orders, e-mails and phones, most orders first."""
  return rows(
      stores,
      "SELECT c.first_name || ' ' || c.last_name AS name, count(*) AS orders,"
      ' c.email, (SELECT phone FROM addresses a WHERE a.id = c.billing_id) AS'
      ' phone FROM orders o JOIN customers c ON c.id = o.customer_id WHERE'
      ' o.status = ? AND date(o.created_at) BETWEEN ? AND ? GROUP BY c.id ORDER'
      ' BY orders DESC LIMIT 5',
      status,
      first,
      last,
  )


def _of_rank(stores: Stores, k: int, status: str) -> tuple[Any, ...]:
  """First and last day, words, place, and the customer of a place."""
  seen, found = set(), []
  for span, place in itertools.product((*_SPANS, *_MONTHS), range(3)):
    buyers = _buyers(stores, span[0], span[1], status)
    if _ranked(buyers, place + 1) and buyers[place]['name'] not in seen:
      seen.add(buyers[place]['name'])
      found.append((*span, place, buyers[place]))
  return nth(found, k)


def _most_orders(stores: Stores, k: int) -> Task:
  first, last, words, place, buyer = _of_rank(stores, k, 'complete')
  name = buyer['name']
  return Task(
      intent=(
          f'Which customer has the {_NTH[place]}most complete orders from'
          f' {words}? Answer with the full name.'
      ),
      goal=Goal(Text(name)),
      steps=(
          *figures('Order Count', first, last, status='Complete'),
          stop(name),
      ),
      start=('http://admin/cms/page/',),
  )


def _most_canceled(stores: Stores, k: int) -> Task:
  first, last, words, place, buyer = _of_rank(stores, k, 'canceled')
  column, asked = (
      ('email', 'email address'),
      ('phone', 'phone number in the list of customers'),
      ('name', 'full name'),
  )[k % 3]
  return Task(
      intent=(
          f'Take the customer with the {_NTH[place]}most canceled orders from'
          f' {words}. What is the {asked}?'
      ),
      goal=Goal(Text(buyer[column])),
      steps=(
          *figures('Order Count', first, last, status='Canceled'),
          *menu('Customers', 'All Customers'),
          search(buyer['name']),
          stop(buyer[column]),
      ),
      start=('http://admin/cms/page/',),
  )


def _span_of_today(stores: Stores, k: int) -> Task:
  del stores
  words, first, last = (
      ('last month', '2023-05-01', '2023-05-31'),
      ('this year until today', '2023-01-01', '2023-06-15'),
      ('the whole last year', '2022-01-01', '2022-12-31'),
      ('the first quarter of this year', '2023-01-01', '2023-03-31'),
      ('the month before last', '2023-04-01', '2023-04-30'),
  )[k]
  return Task(
      intent=f'Today is 15 June 2023. Show the orders report for {words}.',
      goal=Goal(
          url=f'http://admin/reports/report_sales/sales?from={first}&to={last}'
      ),
      steps=(*figures('Orders', first, last), stop()),
      start=START,
  )


def _report(stores: Stores, k: int) -> Task:
  del stores
  label, path, first, last = (
      ('Shipping', 'shipping', '2022-08-05', '2023-03-01'),
      ('Coupons', 'coupons', '2022-01-01', '2022-10-31'),
      ('Refunds', 'refunded', '2021-09-01', '2022-02-28'),
      ('Invoice', 'invoiced', '2022-11-15', '2023-01-15'),
      ('Bestsellers', 'bestsellers', '2022-07-01', '2023-06-01'),
  )[k]
  return Task(
      intent=f'Create the {label.lower()} report from {first} to {last}.',
      goal=Goal(
          url=f'http://admin/reports/report_sales/{path}?from={first}&to={last}'
      ),
      steps=(*figures(label, first, last), stop()),
      start=START,
  )


def _refunded(stores: Stores, k: int) -> Task:
  first, last, words = _MONTHS[k + 1]
  cents = rows(
      stores,
      'SELECT sum(t.total_cents) FROM refunds r JOIN order_totals t ON'
      ' t.order_id = r.order_id WHERE date(r.created_at) BETWEEN ? AND ?',
      first,
      last,
  )[0][0]
  answer = Money(cents)
  return Task(
      intent=f'How much money was refunded in {words}? Answer with the amount.',
      goal=Goal(answer),
      steps=(
          *figures('Refunds', first, last, period='Month'),
          stop(answer.example()),
      ),
      start=START,
  )


def _shipping(stores: Stores, k: int) -> Task:
  first, last, words = _SPANS[k + 1]
  method = ('Express Delivery', 'Standard Delivery')[k % 2]
  cents = rows(
      stores,
      'SELECT sum(shipping_cents) FROM orders WHERE shipping = ? AND'
      ' date(created_at) BETWEEN ? AND ?',
      method,
      first,
      last,
  )[0][0]
  answer = Money(cents)
  return Task(
      intent=(
          f'Which amount does the shipping report give for {method} in'
          f' {words}, over orders of any status?'
      ),
      goal=Goal(answer),
      steps=(
          *figures('Shipping', first, last, period='Year'),
          stop(answer.example()),
      ),
      start=START,
  )


TEMPLATES = (
    Template('admin/monthly-orders', SEEK, _monthly, 5, (270,)),
    Template('admin/report-of-span', GO, _report, 5, (271,)),
    Template('admin/bestseller', SEEK, _bestseller, 5, (279,)),
    Template('admin/most-orders', SEEK, _most_orders, 5, (276,)),
    Template('admin/report-of-today', GO, _span_of_today, 5, (268,)),
    Template('admin/most-cancellations', SEEK, _most_canceled, 5, (234,)),
    Template('admin/bestsellers', SEEK, _bestsellers, 5, (279,)),
    Template('admin/refunded', SEEK, _refunded, 5),
    Template('admin/shipping-charges', SEEK, _shipping, 5),
)
