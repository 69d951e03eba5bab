"""The customer's orders."""

import sqlite3

from agentrl.sites.shop.pages import cart
from agentrl.sites.site import Forbidden, Page, Redirect, Visit, Wrong

_ROW = (
    'SELECT o.*, t.subtotal_cents, t.total_cents FROM orders o JOIN'
    ' order_totals t ON t.order_id = o.id WHERE '
)
_PER_PAGE = 10


def latest(visit: Visit, count: int, skip: int = 0) -> list[sqlite3.Row]:
  """The visitor's orders with their totals, the latest first."""
  return visit.all(
      f'{_ROW} o.customer_id = ? ORDER BY o.created_at DESC, o.id DESC'
      ' LIMIT ? OFFSET ?',
      visit.user,
      count,
      skip,
  )


def history(visit: Visit) -> Page:
  """All orders."""
  count = visit.count('orders', customer_id=visit.user)
  paging = visit.page(count, _PER_PAGE)
  return Page.of(
      'orders.html', paging=paging, orders=latest(visit, *paging.window)
  )


def show(visit: Visit) -> Page:
  """One order."""
  order = _own(visit)
  return Page.of(
      'order.html',
      order=order,
      items=_items(visit, order['id']),
      shipments=visit.rows('shipments', 'id', order_id=order['id']),
  )


def reorder(visit: Visit) -> Redirect:
  """Puts all that an order had, and that can be had, into the cart."""
  order = _own(visit)
  left_out = []
  for item in _items(visit, order['id']):
    product = dict(visit.find('products', id=item['product_id']))
    try:
      if not product['enabled']:
        raise Wrong('It is not sold any more.')
      cart.put(visit, product, item['options'], item['quantity'])
    except Wrong:
      left_out.append(item['name'])
  notice = ''
  if left_out:
    notice = f'Not available any more: {", ".join(left_out)}.'
  return Redirect('/checkout/cart', notice)


def _items(visit: Visit, order_id: int) -> list[sqlite3.Row]:
  return visit.all(
      'SELECT i.*, p.slug, p.enabled FROM order_items i JOIN products p ON p.id'
      ' = i.product_id WHERE i.order_id = ? ORDER BY i.id',
      order_id,
  )


def _own(visit: Visit) -> sqlite3.Row:
  """The order of the address.

  Raises:
    Missing: there is none.
    Forbidden: it is somebody else's.
  """
  row = visit.one(f'{_ROW} o.id = ?', int(visit.match['id']))
  if row['customer_id'] != visit.user:
    raise Forbidden('This order is not yours.')
  return row
