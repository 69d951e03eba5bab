"""Tasks on orders, and on their invoices and shipments."""

from agentrl.sites import picking as pick, seed_data, task as t
from agentrl.sites.admin.pages import show
from agentrl.sites.admin.tasks import paths
from agentrl.sites.admin.tasks.paths import change, go, seek
from agentrl.sites.answers import Date, Money, Number, Text
from agentrl.sites.goals import Row, added, changed
from agentrl.sites.shop.seed.orders import STATUS

_VALUES = seed_data.read(__file__)
_ORDERS = paths.menu('Sales', 'Orders')
_GRID = 'sales/order/'
_PLAIN = 'cms/page/'  # a page without figures
_ALL = (
    "SELECT o.*, t.total_cents, c.first_name || ' ' || c.last_name AS customer,"
    ' c.email, (SELECT sum(quantity) FROM order_items i WHERE i.order_id ='
    ' o.id) AS items FROM orders o JOIN order_totals t ON t.order_id = o.id'
    ' JOIN customers c ON c.id = o.customer_id'
)
_LAST = f'{_ALL} WHERE o.status = ? ORDER BY o.created_at DESC'
_WORDS = _VALUES['words']


def _open(key: int) -> tuple[t.Step, ...]:
  """Opens an order by its number."""
  number = show.number(key)
  return *_ORDERS, paths.search(number), t.link(number)


def _of_status(status: str) -> tuple[t.Step, ...]:
  return *_ORDERS, *paths.filters(t.choose('Status', STATUS[status]))


def _total(db: t.Db, k: int) -> t.Task:
  # None that the grid shows at the start.
  order = db.row_spread(
      k,
      f'{_ALL} WHERE o.id <= 1400 AND t.total_cents NOT IN (SELECT'
      ' total_cents FROM order_totals ORDER BY order_id DESC LIMIT 20)'
      ' ORDER BY o.id',
      count=40,
  )
  number = show.number(order['id'])
  return seek(
      f'What is the grand total of order {number}? Answer with the amount.',
      Money(order['total_cents']),
      paths.search(number),
      start=_GRID,
  )


def _invoice_total(db: t.Db, k: int) -> t.Task:
  invoice = db.row_spread(
      k,
      'SELECT n.id, t.total_cents FROM invoices n JOIN order_totals t ON'
      ' t.order_id = n.order_id WHERE n.id != n.order_id ORDER BY n.id',
  )
  number, answer = show.number(invoice['id']), Money(invoice['total_cents'])
  return seek(
      f'Look up invoice {number} and tell me its grand total. Answer'
      ' with the amount.',
      answer,
      *paths.menu('Sales', 'Invoices'),
      paths.search(number),
      t.link(number),
  )


def _newest(db: t.Db, k: int) -> t.Task:
  status, field = _VALUES['newest'][k]
  order = db.first(_LAST, status)
  read = () if k != 3 else (t.link(show.number(order['id'])),)
  return seek(
      f'Take the most recent order with the status "{STATUS[status]}".'
      f' What is the {field}?',
      (
          Text(order['customer']),
          paths.numbered(order['id']),
          Date(order['created_at'][:10]),
          Text(order['email']),
          Money(order['total_cents']),
      )[k],
      *_of_status(status),
      *read,
  )


def _last_totals(db: t.Db, k: int) -> t.Task:
  status, count = _VALUES['last_totals'][k]
  orders = db.rows(_LAST, status)[:count]
  return seek(
      f'Add up the grand totals of the last {count} {_WORDS[status]}'
      ' orders. Which amount is it?',
      Money(sum(order['total_cents'] for order in orders)),
      *_of_status(status),
  )


def _items(db: t.Db, k: int) -> t.Task:
  status, most = _VALUES['items'][k]
  orders = db.rows(_LAST, status)
  # More than a guess would hit; ids of pages are on the page at the start.
  count = next(
      n
      for n in range(most, 20)
      if sum(order['items'] for order in orders[:n]) not in (*range(11), 100)
  )
  return seek(
      f'How many items were sold in the {count} most recent'
      f' {_WORDS[status]} orders, all in all? Answer with the number.',
      Number(str(sum(order['items'] for order in orders[:count])), 'items'),
      *_of_status(status),
      start=_PLAIN,
  )


def _tracking(db: t.Db, k: int) -> t.Task:
  row = db.row_spread(k, 'SELECT order_id, tracking FROM shipments ORDER BY id')
  return seek(
      'A customer asks where the parcel is. Which tracking number does'
      f' order {show.number(row["order_id"])} have?',
      Text(row['tracking']),
      *_open(row['order_id']),
  )


def _count(db: t.Db, k: int) -> t.Task:
  row = db.row_spread(
      k,
      "SELECT c.first_name || ' ' || c.last_name AS name, count(*) AS"
      ' orders FROM orders o JOIN customers c ON c.id = o.customer_id WHERE'
      " o.status = 'complete' GROUP BY c.id HAVING orders BETWEEN 11 AND 40"
      ' ORDER BY c.id',
  )
  return seek(
      f'How many of the orders of {row["name"]} are complete? Answer'
      ' with the number.',
      Number(str(row['orders']), 'orders'),
      *_ORDERS,
      *paths.filters(
          t.fill('Bill-to Name', row['name']), t.choose('Status', 'Complete')
      ),
      start=_PLAIN,
  )


def _becomes(key: int, status: str) -> Row:
  return changed('shop.orders', key, status=status)


def _cancel(db: t.Db, k: int) -> t.Task:
  order = db.row_spread(k, f"{_ALL} WHERE o.status = 'pending' ORDER BY o.id")
  key = order['id']
  return change(
      f'Cancel order {show.number(key)}.',
      _becomes(key, 'canceled'),
      *_open(key),
      t.link('Cancel Order'),
      t.button('OK'),
  )


def _hold(db: t.Db, k: int) -> t.Task:
  order = db.row_spread(
      k, f"{_ALL} WHERE o.status = 'processing' ORDER BY o.id"
  )
  key = order['id']
  return change(
      f'Put order {show.number(key)} of {order["customer"]} on hold'
      ' until we know more.',
      _becomes(key, 'on_hold'),
      *_open(key),
      t.button('Hold'),
  )


def _release(db: t.Db, k: int) -> t.Task:
  order = db.row_spread(
      k,
      f"{_ALL} WHERE o.status = 'on_hold' AND o.id NOT IN (SELECT order_id"
      ' FROM invoices) AND (SELECT count(*) FROM orders h WHERE'
      " h.customer_id = o.customer_id AND h.status = 'on_hold') = 1"
      ' ORDER BY o.id',
  )
  number = show.number(order['id'])
  return change(
      f'One order of {order["customer"]} is on hold. Release it from there.',
      _becomes(order['id'], 'pending'),
      *_of_status('on_hold'),
      t.link(number),
      t.button('Unhold'),
  )


def _invoice(db: t.Db, k: int) -> t.Task:
  key = db.row_spread(k, f"{_ALL} WHERE o.status = 'pending' ORDER BY o.id")[
      'id'
  ]
  return change(
      f'The payment for order {show.number(key)} has come. Create its invoice.',
      (added('shop.invoices', order_id=key), _becomes(key, 'processing')),
      *_open(key),
      t.link('Invoice'),
      t.button('Submit Invoice'),
  )


def _ship(db: t.Db, k: int) -> t.Task:
  order = db.row_spread(
      k,
      f"{_ALL} WHERE o.status = 'processing' AND o.id IN (SELECT order_id"
      ' FROM invoices) ORDER BY o.id',
  )
  key = order['id']
  carrier, tracking = _VALUES['ship'][k]
  return change(
      f'Order {show.number(key)} has left the house. Ship it with the'
      f' carrier {carrier} under the tracking number {tracking}.',
      (
          added(
              'shop.shipments', order_id=key, carrier=carrier, tracking=tracking
          ),
          _becomes(key, 'complete'),
      ),
      *_open(key),
      t.link('Ship'),
      t.choose('Carrier', carrier),
      t.fill('Number', tracking),
      t.button('Submit Shipment'),
  )


def _notify(db: t.Db, k: int) -> t.Task:
  order = db.row_spread(
      k,
      f"{_ALL} WHERE o.status = 'pending' AND o.created_at = (SELECT"
      ' max(created_at) FROM orders WHERE customer_id = o.customer_id AND'
      " status = 'pending') ORDER BY c.id",
      count=4,
  )
  text = _VALUES['notify'][k]
  number = show.number(order['id'])
  return change(
      'Write this comment to the most recent pending order of'
      f' {order["customer"]} and have the customer notified of it: "{text}"',
      added('shop.order_notes', order_id=order['id'], text=text, notified=1),
      *_of_status('pending'),
      t.link(number),
      t.fill('Comment', text),
      t.click_on('checkbox', 'Notify Customer by Email'),
      t.button('Submit Comment'),
  )


def _address(db: t.Db, k: int) -> t.Task:
  order = db.row_spread(
      k, f"{_ALL} WHERE o.status IN ('pending', 'processing') ORDER BY o.id"
  )
  key = order['id']
  to = _VALUES['address'][k]
  values = dict(zip(('street', 'city', 'region', 'postcode'), to, strict=True))
  return change(
      f'Change the address of order {show.number(key)}: it goes to {to[0]}'
      f' in {to[1]}, {to[2]}, zip code {to[3]}. Name and phone number stay.',
      changed('shop.orders', key, **values),
      *_open(key),
      t.link('Edit Address'),
      t.fill('Street Address', to[0]),
      t.fill('City', to[1]),
      t.fill('State', to[2]),
      t.fill('Zip/Postal Code', to[3]),
      t.button('Save Order Address'),
  )


def _refund(db: t.Db, k: int) -> t.Task:
  key = pick.kth_spread(db.rows(_LAST, 'complete')[:50], k)['id']
  return change(
      f'Everything of order {show.number(key)} was sent back. Refund it'
      ' with a credit memo.',
      (added('shop.refunds', order_id=key), _becomes(key, 'closed')),
      *_open(key),
      t.link('Credit Memo'),
      t.button('Refund Offline'),
  )


def _by_status(_: t.Db, k: int) -> t.Task:
  status = ('fraud', 'on_hold', 'processing', 'closed', 'canceled')[k]
  return go(
      f'Show the list of all orders with the status "{STATUS[status]}".',
      f'sales/order/?status={status}',
      *_of_status(status),
  )


TEMPLATES = (
    t.Template('admin/order-total', t.SEEK, _total, 40),
    t.Template('admin/cancel-order', t.CHANGE, _cancel, 5, (257,)),
    t.Template('admin/invoice-total', t.SEEK, _invoice_total, 5, (274,)),
    t.Template('admin/orders-by-status', t.GO, _by_status, 5, (253,)),
    t.Template('admin/newest-order', t.SEEK, _newest, 5, (366,)),
    t.Template('admin/ship-order', t.CHANGE, _ship, 5, (284,)),
    t.Template('admin/last-totals', t.SEEK, _last_totals, 5, (367,)),
    t.Template('admin/notify-customer', t.CHANGE, _notify, 4, (280,)),
    t.Template('admin/items-sold', t.SEEK, _items, 5, (1002,)),
    t.Template('admin/order-address', t.CHANGE, _address, 5, (240,)),
    t.Template('admin/tracking-number', t.SEEK, _tracking, 5),
    t.Template('admin/hold-order', t.CHANGE, _hold, 5),
    t.Template('admin/orders-of-customer', t.SEEK, _count, 5),
    t.Template('admin/release-order', t.CHANGE, _release, 5),
    t.Template('admin/invoice-order', t.CHANGE, _invoice, 5),
    t.Template('admin/refund-order', t.CHANGE, _refund, 5),
)
