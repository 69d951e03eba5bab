"""Orders: their grid, an order's page, and what is done to it."""

import sqlite3

from agentrl.sites.admin.pages import grid, show
from agentrl.sites.admin.pages.grid import Column, Grid
from agentrl.sites.shop.seed.orders import STATUS
from agentrl.sites.site import Answer, Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

CARRIERS = (
    'Federal Express', 'United Parcel Service', 'DHL',
    'United States Postal Service', 'Custom Value',
)  # fmt: skip
_ADDRESS = {
    'first_name': 'First Name',
    'last_name': 'Last Name',
    'street': 'Street Address',
    'city': 'City',
    'region': 'State',
    'postcode': 'Zip/Postal Code',
    'phone': 'Phone Number',
}
# Action -> the statuses that it is for, and the notice of one order.
_FOR = {
    'cancel': ('pending', 'fraud'),
    'hold': ('pending', 'processing', 'fraud'),
    'unhold': ('on_hold',),
}
_DONE = {
    'cancel': 'You canceled the order.',
    'hold': 'You put the order on hold.',
    'unhold': 'You released the order from holding status.',
}
ORDERS = Grid(
    title='Orders',
    path='/sales/order/',
    source="""
SELECT o.id, printf('%09d', o.id) AS number, o.created_at,
  c.first_name || ' ' || c.last_name AS bill_to,
  o.first_name || ' ' || o.last_name AS ship_to,
  (SELECT sum(quantity) FROM order_items i WHERE i.order_id = o.id) AS items,
  (SELECT total_cents FROM order_totals t WHERE t.order_id = o.id) AS total,
  o.status, c.email, o.coupon
FROM orders o JOIN customers c ON c.id = o.customer_id""",
    columns=(
        Column('number', 'ID'),
        Column('created_at', 'Purchase Date', grid.TIME),
        Column('bill_to', 'Bill-to Name'),
        Column('ship_to', 'Ship-to Name'),
        Column('items', 'Items', grid.COUNT),
        Column('total', 'Grand Total', grid.MONEY),
        Column('status', 'Status', grid.CHOICE, STATUS),
        Column('email', 'Customer Email', shown=False),
        Column('coupon', 'Coupon Code', shown=False),
    ),
    link='/sales/order/view/{id}',
    search=('number', 'bill_to', 'ship_to', 'email'),
    actions={'cancel': 'Cancel', 'hold': 'Hold', 'unhold': 'Unhold'},
)


def change_many(visit: Visit) -> Answer:
  """Cancels, holds or releases the chosen orders that can be."""
  action, ids = grid.chosen(visit, ORDERS)
  if action == 'cancel' and 'sure' not in visit.form:
    question = f'Are you sure you want to cancel {len(ids)} order(s)?'
    fields = {'action': action, 'ids': ids, 'sure': 1}
    return grid.confirm(question, ORDERS.path, ORDERS.path, **fields)
  done = sum(_set_status(visit, key, action) for key in ids)
  notice = f'{done} order(s) have been changed.'
  if done < len(ids):
    notice += f' {len(ids) - done} order(s) could not be changed.'
  return Redirect(ORDERS.path, notice)


def view(visit: Visit) -> Page:
  """An order."""
  order = _order(visit)
  of_order = lambda table: visit.rows(table, 'id', order_id=order['id'])
  papers = {x: of_order(x) for x in ('invoices', 'shipments', 'refunds')}
  return Page.of(
      'order.html',
      order=order,
      items=of_order('order_items'),
      notes=of_order('order_notes')[::-1],
      can=_can(order, papers),
      statuses=STATUS,
      customer=visit.find('customers', id=order['customer_id']),
      **papers,
  )


def ask_cancel(visit: Visit) -> Page:
  """Asks whether an order is to be cancelled."""
  path = _path(_order(visit))
  question = 'Are you sure you want to cancel this order?'
  return grid.confirm(question, f'{path}/cancel', path)


def act(visit: Visit) -> Redirect:
  """Cancels, holds or releases an order."""
  order, action = _order(visit), visit.match['action']
  if not _set_status(visit, order['id'], action):
    raise Wrong(f'This order cannot be changed so: {STATUS[order["status"]]}.')
  return Redirect(_path(order), _DONE[action])


def add_note(visit: Visit) -> Redirect:
  """Adds a comment to an order's history."""
  order = _order(visit)
  visit.insert(
      'order_notes',
      order_id=order['id'],
      text=visit.text('comment'),
      notified=int('notify' in visit.form),
      created_at=NOW,
  )
  return Redirect(_path(order), 'The comment was submitted.')


def edit_address(visit: Visit) -> Page:
  """The form of the address of an order."""
  order = _order(visit)
  return _address_form(order, dict(order))


def update_address(visit: Visit) -> Answer:
  """Changes the address of an order."""
  order = _order(visit)
  try:
    values = {name: visit.text(name, most=120) for name in _ADDRESS}
  except Wrong as error:
    return _address_form(order, dict(visit.form), str(error))
  visit.update('orders', order['id'], **values, updated_at=NOW)
  return Redirect(_path(order), 'You updated the order address.')


def new_paper(visit: Visit) -> Page:
  """The form of an invoice, a shipment or a refund of an order."""
  return _paper_form(visit)


def add_paper(visit: Visit) -> Answer:
  """Invoices, ships or refunds an order; its status follows."""
  order, paper = _order(visit), visit.match['paper']
  key = order['id']
  if paper not in _possible(visit, order):
    raise Wrong(f'This order cannot have another {paper}.')
  if paper == 'invoice':
    visit.insert('invoices', order_id=key, created_at=NOW)
    sent = visit.has('shipments', order_id=key)
    status, notice = 'processing', 'The invoice has been created.'
    status = 'complete' if sent else status
  elif paper == 'shipment':
    try:
      carrier = show.choice(visit, 'carrier', CARRIERS)
      tracking = visit.text('number', most=60)
    except Wrong as error:
      return _paper_form(visit, str(error))
    visit.insert(
        'shipments',
        order_id=key,
        carrier=carrier,
        tracking=tracking,
        created_at=NOW,
    )
    paid = visit.has('invoices', order_id=key)
    status, notice = 'processing', 'The shipment has been created.'
    status = 'complete' if paid else status
  else:
    visit.insert('refunds', order_id=key, created_at=NOW)
    status, notice = 'closed', 'You created the credit memo.'
  _write_status(visit, key, status)
  return Redirect(_path(order), notice)


def _order(visit: Visit) -> sqlite3.Row:
  return visit.one(
      'SELECT o.*, t.* FROM orders o JOIN order_totals t ON t.order_id = o.id'
      ' WHERE o.id = ?',
      int(visit.match['id']),
  )


def _path(order: sqlite3.Row) -> str:
  return f'/sales/order/view/{order["id"]}'


def _can(order: sqlite3.Row, papers: dict[str, list]) -> set[str]:
  """The actions that an order's page offers."""
  status = order['status']
  can = {action for action, fitting in _FOR.items() if status in fitting}
  if not papers['invoices'] and status in ('pending', 'fraud', 'processing'):
    can.add('invoice')
  if not papers['shipments'] and status in ('pending', 'processing'):
    can.add('shipment')
  if papers['invoices'] and status in ('processing', 'complete'):
    can.add('refund')
  return can


def _possible(visit: Visit, order: sqlite3.Row) -> set[str]:
  tables = ('invoices', 'shipments')
  return _can(
      order, {x: visit.rows(x, 'id', order_id=order['id']) for x in tables}
  )


def _set_status(visit: Visit, key: int, action: str) -> bool:
  """Changes an order's status; False: the action is not for it."""
  status = visit.value('SELECT status FROM orders WHERE id = ?', key)
  if status not in _FOR[action]:
    return False
  if action == 'unhold':
    paid = visit.has('invoices', order_id=key)
    after = 'processing' if paid else 'pending'
  else:
    after = 'canceled' if action == 'cancel' else 'on_hold'
  _write_status(visit, key, after)
  return True


def _write_status(visit: Visit, key: int, status: str) -> None:
  visit.update('orders', key, status=status, updated_at=NOW)


def _address_form(order: sqlite3.Row, typed: dict, error: str = '') -> Page:
  return Page.form(
      'order_address.html', error, order=order, typed=typed, labels=_ADDRESS
  )


def _paper_form(visit: Visit, error: str = '') -> Page:
  order, paper = _order(visit), visit.match['paper']
  if paper not in _possible(visit, order):
    raise Wrong(f'This order cannot have another {paper}.')
  return Page.form(
      'order_paper.html',
      error,
      order=order,
      paper=paper,
      carriers=CARRIERS,
      items=visit.rows('order_items', 'id', order_id=order['id']),
  )
