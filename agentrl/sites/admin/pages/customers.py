"""Customers and subscribers of the newsletter."""

import re
from collections.abc import Mapping
from typing import Any

from agentrl.sites.admin.pages import grid
from agentrl.sites.admin.pages.grid import Column, Grid
from agentrl.sites.shop.seed.orders import STATUS
from agentrl.sites.site import Answer, Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

_RECENT = 20  # orders and reviews of a customer
CUSTOMERS = Grid(
    title='Customers',
    path='/customer/index/',
    source="""
SELECT c.id, c.first_name || ' ' || c.last_name AS name, c.email, a.phone,
  a.postcode, a.region, c.created_at
FROM customers c LEFT JOIN addresses a ON a.id = c.billing_id""",
    columns=(
        Column('name', 'Name'),
        Column('id', 'ID', grid.NUMBER),
        Column('email', 'Email'),
        Column('phone', 'Phone'),
        Column('postcode', 'ZIP'),
        Column('region', 'State'),
        Column('created_at', 'Customer Since', grid.TIME),
    ),
    link='/customer/index/edit/{id}',
    search=('name', 'email', 'phone'),
    sort=('id', 'asc'),
)
SUBSCRIBERS = Grid(
    title='Newsletter Subscribers',
    path='/newsletter/subscriber/',
    source="""
SELECT s.id, s.email, s.created_at,
  coalesce(c.first_name || ' ' || c.last_name, '') AS name
FROM subscribers s LEFT JOIN customers c ON c.email = s.email""",
    columns=(
        Column('email', 'Email'),
        Column('id', 'ID', grid.NUMBER),
        Column('name', 'Customer'),
        Column('created_at', 'Subscribed', grid.TIME),
    ),
    search=('email', 'name'),
    sort=('id', 'asc'),
    actions={'delete': 'Unsubscribe'},
)


def edit(visit: Visit) -> Page:
  """A customer: the form, addresses, orders and reviews."""
  return _form(visit, dict(visit.row('customers')))


def update(visit: Visit) -> Answer:
  """Changes a customer's name and e-mail address."""
  key = visit.row('customers')['id']
  try:
    first = visit.text('first_name', most=60)
    last = visit.text('last_name', most=60)
    email = visit.text('email', most=120).lower()
    if not re.fullmatch(r'[^@\s]+@[^@\s]+\.[^@\s.]+', email):
      raise Wrong('Email must be an address such as name@example.com.')
    if visit.value(
        'SELECT 1 FROM customers WHERE email = ? AND id != ?', email, key
    ):
      raise Wrong('Another customer has this email.')
  except Wrong as error:
    return _form(visit, dict(visit.form), str(error))
  visit.update(
      'customers',
      key,
      first_name=first,
      last_name=last,
      email=email,
      updated_at=NOW,
  )
  path = CUSTOMERS.link.format(id=key)
  return Redirect(path, 'You saved the customer.')


def unsubscribe(visit: Visit) -> Redirect:
  """Removes the chosen subscribers."""
  _, ids = grid.chosen(visit, SUBSCRIBERS)
  for key in ids:
    visit.delete('subscribers', id=key)
  notice = f'A total of {len(ids)} record(s) were updated.'
  return Redirect(SUBSCRIBERS.path, notice)


def _form(visit: Visit, typed: Mapping[str, Any], error: str = '') -> Page:
  customer = visit.row('customers')
  key = customer['id']
  sales = visit.one(
      'SELECT count(*) AS orders, coalesce(sum(t.total_cents), 0) AS total FROM'
      ' orders o JOIN order_totals t ON t.order_id = o.id WHERE o.customer_id ='
      " ? AND o.status = 'complete'",
      key,
  )
  return Page.form(
      'customer.html',
      error,
      customer=customer,
      typed=typed,
      sales=sales,
      statuses=STATUS,
      addresses=visit.rows('addresses', 'id', customer_id=key),
      orders=visit.all(
          'SELECT o.*, t.total_cents FROM orders o JOIN order_totals t ON'
          ' t.order_id = o.id WHERE o.customer_id = ? ORDER BY'
          ' o.created_at DESC LIMIT ?',
          key,
          _RECENT,
      ),
      reviews=visit.all(
          'SELECT r.*, p.name AS product FROM reviews r JOIN products p ON'
          ' p.id = r.product_id WHERE r.customer_id = ? ORDER BY'
          ' r.created_at DESC LIMIT ?',
          key,
          _RECENT,
      ),
  )
