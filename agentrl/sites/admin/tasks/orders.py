"""Tasks on orders, and on their invoices and shipments."""

from agentrl.sites.admin.pages import show
from agentrl.sites.admin.tasks.steps import (
    START,
    filters,
    menu,
    nth,
    numbered,
    rows,
    search,
)
from agentrl.sites.answers import Date, Money, Number, Text
from agentrl.sites.goals import ADDED, CHANGED, Goal, Row
from agentrl.sites.shop.seed.orders import STATUS
from agentrl.sites.task import (
    CHANGE,
    GO,
    SEEK,
    Step,
    Stores,
    Task,
    Template,
    choose,
    click_on,
    fill,
    stop,
)

_ORDERS = menu('Sales', 'Orders')
_GRID = ('http://admin/sales/order/',)
_PLAIN = ('http://admin/cms/page/',)  # a page without figures
_ALL = (
    "SELECT o.*, t.total_cents, c.first_name || ' ' || c.last_name AS customer,"
    ' c.email, (SELECT sum(quantity) FROM order_items i WHERE i.order_id ='
    ' o.id) AS items FROM orders o JOIN order_totals t ON t.order_id = o.id'
    ' JOIN customers c ON c.id = o.customer_id'
)
_LAST = f'{_ALL} WHERE o.status = ? ORDER BY o.created_at DESC'
_WORDS = {
    'pending': 'pending',
    'processing': 'processing',
    'complete': 'completed',
    'canceled': 'canceled',
    'closed': 'closed',
    'on_hold': 'held',
    'fraud': 'suspected fraud',
}


def _open(key: int) -> tuple[Step, ...]:
  """Opens an order by its number."""
  number = show.number(key)
  return *_ORDERS, search(number), click_on('link', number)


def _of_status(status: str) -> tuple[Step, ...]:
  return *_ORDERS, *filters(choose('Status', STATUS[status]))


def _total(stores: Stores, k: int) -> Task:
  # None that the grid shows at the start.
  order = nth(
      rows(
          stores,
          f'{_ALL} WHERE o.id <= 1400 AND t.total_cents NOT IN (SELECT'
          ' total_cents FROM order_totals ORDER BY order_id DESC LIMIT 20)'
          ' ORDER BY o.id',
      ),
      k,
      40,
  )
  number = show.number(order['id'])
  answer = Money(order['total_cents'])
  return Task(
      intent=(
          f'What is the grand total of order {number}? Answer with the amount.'
      ),
      goal=Goal(answer),
      steps=(search(number), stop(answer.example())),
      start=_GRID,
  )


def _invoice_total(stores: Stores, k: int) -> Task:
  invoice = nth(
      rows(
          stores,
          'SELECT n.id, t.total_cents FROM invoices n JOIN order_totals t ON'
          ' t.order_id = n.order_id WHERE n.id != n.order_id ORDER BY n.id',
      ),
      k,
  )
  number, answer = show.number(invoice['id']), Money(invoice['total_cents'])
  return Task(
      intent=(
          f'Look up invoice {number} and tell me its grand total. Answer'
          ' with the amount.'
      ),
      goal=Goal(answer),
      steps=(
          *menu('Sales', 'Invoices'),
          search(number),
          click_on('link', number),
          stop(answer.example()),
      ),
      start=START,
  )


def _newest(stores: Stores, k: int) -> Task:
  status, asked = (
      ('canceled', 'name of the customer'),
      ('fraud', 'order number'),
      ('closed', 'day of purchase'),
      ('processing', 'email address of the customer'),
      ('on_hold', 'grand total'),
  )[k]
  order = rows(stores, _LAST, status)[0]
  answer = (
      Text(order['customer']),
      numbered(order['id']),
      Date(order['created_at'][:10]),
      Text(order['email']),
      Money(order['total_cents']),
  )[k]
  read = () if k != 3 else (click_on('link', show.number(order['id'])),)
  return Task(
      intent=(
          f'Take the most recent order with the status "{STATUS[status]}".'
          f' What is the {asked}?'
      ),
      goal=Goal(answer),
      steps=(*_of_status(status), *read, stop(answer.example())),
      start=START,
  )


def _last_totals(stores: Stores, k: int) -> Task:
  status, count = (
      ('complete', 2),
      ('canceled', 4),
      ('closed', 3),
      ('complete', 5),
      ('on_hold', 2),
  )[k]
  found = rows(stores, _LAST, status)[:count]
  answer = Money(sum(order['total_cents'] for order in found))
  return Task(
      intent=(
          f'Add up the grand totals of the last {count} {_WORDS[status]}'
          ' orders. Which amount is it?'
      ),
      goal=Goal(answer),
      steps=(*_of_status(status), stop(answer.example())),
      start=START,
  )


def _items(stores: Stores, k: int) -> Task:
  status, most = ('complete', 'canceled', 'closed', 'complete', 'canceled')[
      k
  ], (7, 6, 8, 11, 12)[k]
  found = rows(stores, _LAST, status)
  # More than a guess would hit; ids of pages are on the page at the start.
  count = next(
      n
      for n in range(most, 20)
      if sum(order['items'] for order in found[:n]) not in (*range(11), 100)
  )
  answer = Number(str(sum(order['items'] for order in found[:count])), 'items')
  return Task(
      intent=(
          f'How many items were sold in the {count} most recent'
          f' {_WORDS[status]} orders, all in all? Answer with the number.'
      ),
      goal=Goal(answer),
      steps=(*_of_status(status), stop(answer.example())),
      start=_PLAIN,
  )


def _tracking(stores: Stores, k: int) -> Task:
  row = nth(
      rows(stores, 'SELECT order_id, tracking FROM shipments ORDER BY id'), k
  )
  return Task(
      intent=(
          'A customer asks where the parcel is. Which tracking number does'
          f' order {show.number(row["order_id"])} have?'
      ),
      goal=Goal(Text(row['tracking'])),
      steps=(*_open(row['order_id']), stop(row['tracking'])),
      start=START,
  )


def _count(stores: Stores, k: int) -> Task:
  row = nth(
      rows(
          stores,
          "SELECT c.first_name || ' ' || c.last_name AS name, count(*) AS"
          ' orders FROM orders o JOIN customers c ON c.id = o.customer_id WHERE'
          " o.status = 'complete' GROUP BY c.id HAVING orders BETWEEN 11 AND 40"
          ' ORDER BY c.id',
      ),
      k,
  )
  answer = Number(str(row['orders']), 'orders')
  return Task(
      intent=(
          f'How many of the orders of {row["name"]} are complete? Answer'
          ' with the number.'
      ),
      goal=Goal(answer),
      steps=(
          *_ORDERS,
          *filters(
              fill('Bill-to Name', row['name']), choose('Status', 'Complete')
          ),
          stop(answer.example()),
      ),
      start=_PLAIN,
  )


def _becomes(key: int, status: str) -> Row:
  return Row('shop.orders', CHANGED, {'status': status}, key)


def _cancel(stores: Stores, k: int) -> Task:
  order = nth(
      rows(stores, f"{_ALL} WHERE o.status = 'pending' ORDER BY o.id"), k
  )
  key = order['id']
  return Task(
      intent=f'Cancel order {show.number(key)}.',
      goal=Goal(rows=(_becomes(key, 'canceled'),)),
      steps=(
          *_open(key),
          click_on('link', 'Cancel Order'),
          click_on('button', 'OK'),
          stop(),
      ),
      start=START,
  )


def _hold(stores: Stores, k: int) -> Task:
  order = nth(
      rows(stores, f"{_ALL} WHERE o.status = 'processing' ORDER BY o.id"), k
  )
  key = order['id']
  return Task(
      intent=(
          f'Put order {show.number(key)} of {order["customer"]} on hold'
          ' until we know more.'
      ),
      goal=Goal(rows=(_becomes(key, 'on_hold'),)),
      steps=(*_open(key), click_on('button', 'Hold'), stop()),
      start=START,
  )


def _release(stores: Stores, k: int) -> Task:
  order = nth(
      rows(
          stores,
          f"{_ALL} WHERE o.status = 'on_hold' AND o.id NOT IN (SELECT order_id"
          ' FROM invoices) AND (SELECT count(*) FROM orders h WHERE'
          " h.customer_id = o.customer_id AND h.status = 'on_hold') = 1"
          ' ORDER BY o.id',
      ),
      k,
  )
  number = show.number(order['id'])
  return Task(
      intent=(
          f'One order of {order["customer"]} is on hold. Release it from there.'
      ),
      goal=Goal(rows=(_becomes(order['id'], 'pending'),)),
      steps=(
          *_of_status('on_hold'),
          click_on('link', number),
          click_on('button', 'Unhold'),
          stop(),
      ),
      start=START,
  )


def _invoice(stores: Stores, k: int) -> Task:
  key = nth(
      rows(stores, f"{_ALL} WHERE o.status = 'pending' ORDER BY o.id"), k
  )['id']
  return Task(
      intent=(
          f'The payment for order {show.number(key)} has come. Create its'
          ' invoice.'
      ),
      goal=Goal(
          rows=(
              Row('shop.invoices', ADDED, {'order_id': key}),
              _becomes(key, 'processing'),
          )
      ),
      steps=(
          *_open(key),
          click_on('link', 'Invoice'),
          click_on('button', 'Submit Invoice'),
          stop(),
      ),
      start=START,
  )


def _ship(stores: Stores, k: int) -> Task:
  order = nth(
      rows(
          stores,
          f"{_ALL} WHERE o.status = 'processing' AND o.id IN (SELECT order_id"
          ' FROM invoices) ORDER BY o.id',
      ),
      k,
  )
  key = order['id']
  carrier, tracking = (
      ('Federal Express', '7702419385'),
      ('DHL', '5930174426'),
      ('United Parcel Service', '1487720953'),
      ('United States Postal Service', '9405581127'),
      ('DHL', '6618203974'),
  )[k]
  return Task(
      intent=(
          f'Order {show.number(key)} has left the house. Ship it with the'
          f' carrier {carrier} under the tracking number {tracking}.'
      ),
      goal=Goal(
          rows=(
              Row(
                  'shop.shipments',
                  ADDED,
                  {'order_id': key, 'carrier': carrier, 'tracking': tracking},
              ),
              _becomes(key, 'complete'),
          )
      ),
      steps=(
          *_open(key),
          click_on('link', 'Ship'),
          choose('Carrier', carrier),
          fill('Number', tracking),
          click_on('button', 'Submit Shipment'),
          stop(),
      ),
      start=START,
  )


def _notify(stores: Stores, k: int) -> Task:
  order = nth(
      rows(
          stores,
          f"{_ALL} WHERE o.status = 'pending' AND o.created_at = (SELECT"
          ' max(created_at) FROM orders WHERE customer_id = o.customer_id AND'
          " status = 'pending') ORDER BY c.id",
      ),
      k,
      4,
  )
  text = (
      'Your order will be sent on Monday.',
      'One of the articles comes a week late.',
      'Please tell us your door code.',
      'The colour that you chose is sold out.',
      'We are waiting for your payment.',
  )[k]
  number = show.number(order['id'])
  note = {'order_id': order['id'], 'text': text, 'notified': 1}
  return Task(
      intent=(
          'Write this comment to the most recent pending order of'
          f' {order["customer"]} and have the customer notified of it: "{text}"'
      ),
      goal=Goal(rows=(Row('shop.order_notes', ADDED, note),)),
      steps=(
          *_of_status('pending'),
          click_on('link', number),
          fill('Comment', text),
          click_on('checkbox', 'Notify Customer by Email'),
          click_on('button', 'Submit Comment'),
          stop(),
      ),
      start=START,
  )


def _address(stores: Stores, k: int) -> Task:
  order = nth(
      rows(
          stores,
          f"{_ALL} WHERE o.status IN ('pending', 'processing') ORDER BY o.id",
      ),
      k,
  )
  key = order['id']
  to = (
      ('12 Lantern Row', 'Albany', 'New York', '12203'),
      ('480 Cedar Terrace', 'Topeka', 'Kansas', '66604'),
      ('7 Ferry Landing', 'Mobile', 'Alabama', '36602'),
      ('2219 Granite Drive', 'Reno', 'Nevada', '89509'),
      ('63 Appletree Close', 'Dover', 'Delaware', '19901'),
  )[k]
  values = dict(zip(('street', 'city', 'region', 'postcode'), to, strict=True))
  return Task(
      intent=(
          f'Change the address of order {show.number(key)}: it goes to {to[0]}'
          f' in {to[1]}, {to[2]}, zip code {to[3]}. Name and phone number stay.'
      ),
      goal=Goal(rows=(Row('shop.orders', CHANGED, values, key),)),
      steps=(
          *_open(key),
          click_on('link', 'Edit Address'),
          fill('Street Address', to[0]),
          fill('City', to[1]),
          fill('State', to[2]),
          fill('Zip/Postal Code', to[3]),
          click_on('button', 'Save Order Address'),
          stop(),
      ),
      start=START,
  )


def _refund(stores: Stores, k: int) -> Task:
  key = nth(rows(stores, _LAST, 'complete')[:50], k)['id']
  return Task(
      intent=(
          f'Everything of order {show.number(key)} was sent back. Refund it'
          ' with a credit memo.'
      ),
      goal=Goal(
          rows=(
              Row('shop.refunds', ADDED, {'order_id': key}),
              _becomes(key, 'closed'),
          )
      ),
      steps=(
          *_open(key),
          click_on('link', 'Credit Memo'),
          click_on('button', 'Refund Offline'),
          stop(),
      ),
      start=START,
  )


def _by_status(stores: Stores, k: int) -> Task:
  del stores
  status = ('fraud', 'on_hold', 'processing', 'closed', 'canceled')[k]
  return Task(
      intent=f'Show the list of all orders with the status "{STATUS[status]}".',
      goal=Goal(url=f'http://admin/sales/order/?status={status}'),
      steps=(*_of_status(status), stop()),
      start=START,
  )


TEMPLATES = (
    Template('admin/order-total', SEEK, _total, 40),
    Template('admin/cancel-order', CHANGE, _cancel, 5, (257,)),
    Template('admin/invoice-total', SEEK, _invoice_total, 5, (274,)),
    Template('admin/orders-by-status', GO, _by_status, 5, (253,)),
    Template('admin/newest-order', SEEK, _newest, 5, (366,)),
    Template('admin/ship-order', CHANGE, _ship, 5, (284,)),
    Template('admin/last-totals', SEEK, _last_totals, 5, (367,)),
    Template('admin/notify-customer', CHANGE, _notify, 4, (280,)),
    Template('admin/items-sold', SEEK, _items, 5, (1002,)),
    Template('admin/order-address', CHANGE, _address, 5, (240,)),
    Template('admin/tracking-number', SEEK, _tracking, 5),
    Template('admin/hold-order', CHANGE, _hold, 5),
    Template('admin/orders-of-customer', SEEK, _count, 5),
    Template('admin/release-order', CHANGE, _release, 5),
    Template('admin/invoice-order', CHANGE, _invoice, 5),
    Template('admin/refund-order', CHANGE, _refund, 5),
)
