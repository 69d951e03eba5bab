"""Questions about the user's orders."""

import sqlite3

from agentrl.sites import picking as pick, seed_data, task as t
from agentrl.sites.answers import Date, Money, Number, Several, Text
from agentrl.sites.shop.seed.orders import STATUS
from agentrl.sites.shop.tasks import paths
from agentrl.sites.shop.tasks.paths import seek

_VALUES = seed_data.read(__file__)


def _latest(db: t.Db, k: int) -> sqlite3.Row:
  status = ('canceled', 'pending', 'complete', 'processing', 'closed')[k]
  return paths.orders(db, 'o.status = ?', status)[0]


def _total(db: t.Db, k: int) -> t.Task:
  order = _latest(db, k)
  return seek(
      'What is the grand total of my latest order that is'
      f' "{STATUS[order["status"]]}"? Answer with the amount.',
      Money(order['total_cents']),
      *paths.open_order(order),
  )


def _number(db: t.Db, k: int) -> t.Task:
  order = _latest(db, k)
  return seek(
      'Which number does my most recent order with the status'
      f' "{STATUS[order["status"]]}" have?',
      paths.number(order['id']),
      *paths.open_orders(order['place']),
  )


def _detail(db: t.Db, k: int) -> t.Task:
  order = pick.kth(
      [
          each
          for each in paths.orders(db, "o.status = 'complete'")
          if each['place'] > 3
      ],
      4 * k,
  )
  sent = db.first('SELECT * FROM shipments WHERE order_id = ?', order['id'])
  what, answer = (
      ('shipping method', Text(order['shipping'])),
      ('tracking number', Text(sent['tracking'])),
      ('order date', Date(order['created_at'][:10])),
      ('postal code of the shipping address', Text(order['postcode'])),
      ('carrier', Text(sent['carrier'])),
  )[k]
  return seek(
      f'Tell me the {what} of my order number {order["id"]:09d}.',
      answer,
      *paths.open_order(order),
  )


def _early(db: t.Db, k: int) -> t.Task:
  order = paths.orders(db)[-1 - k]
  which = ('first', 'second', 'third', 'fourth', 'fifth')[k]
  return seek(
      f'On which day did I place my {which} order ever in this shop?',
      Date(order['created_at'][:10]),
      *paths.open_orders(order['place']),
  )


def _months(db: t.Db) -> dict[str, list[sqlite3.Row]]:
  """The user's orders by month, the latest first."""
  return pick.grouped(paths.orders(db), lambda x: paths.month(x['created_at']))


def _spent(db: t.Db, k: int) -> t.Task:
  month, orders = pick.kth(
      [each for each in _months(db).items() if len(each[1]) > 1], 2 * k
  )
  return seek(
      f'Add up the grand totals of all orders that I placed in {month},'
      ' whatever became of them. How much is it?',
      Money(sum(order['total_cents'] for order in orders)),
      *paths.open_orders(orders[-1]['place']),
  )


def _spent_on(db: t.Db, k: int) -> t.Task:
  def candidates():
    for order in paths.orders(db):
      shares = pick.grouped(
          paths.items(db, order['id']),
          lambda item: paths.department(db, item['product_id']),
      )
      for name, items in sorted(shares.items()):
        # More than one row, or more than one piece: a sum is asked for.
        pieces = sum(item['quantity'] for item in items)
        if len(shares) > 1 and pieces > 1 and all(x['enabled'] for x in items):
          yield order, name, [x['price_cents'] * x['quantity'] for x in items]
          break

  order, name, paid = pick.kth(candidates(), k)
  return seek(
      f'How much did I spend on {name} in my order number {order["id"]:09d}?'
      ' Count the goods alone, without shipping or discounts.',
      Money(sum(paid)),
      *paths.open_order(order),
  )


def _last_ordered(db: t.Db, k: int) -> t.Task:
  kinds = db.rows(
      'SELECT p.kind, max(o.created_at) AS created_at, count(*) AS count FROM'
      ' order_items i JOIN products p ON p.id = i.product_id JOIN orders o ON'
      ' o.id = i.order_id WHERE o.customer_id = 1 GROUP BY p.kind ORDER BY'
      ' count(*) DESC, p.kind'
  )
  last = kinds[k]
  order = paths.orders(db, 'o.created_at = ?', last['created_at'])[0]
  return seek(
      f'When did I last order {_some(last["kind"])}? Tell me the date.',
      Date(last['created_at'][:10]),
      *paths.open_order(order),
  )


def _some(kind: str) -> str:
  """A kind of product after 'order'."""
  if kind.endswith('s') or kind.split()[-1] in ('Tea', 'Coffee', 'Shampoo'):
    return kind.lower()
  return f'{"an" if kind[0] in "AEIO" else "a"} {kind.lower()}'


def _option(db: t.Db, k: int) -> t.Task:
  item = pick.kth([each for each in paths.one_item(db) if each['options']], k)
  name, _, option = item['options'].partition(', ')[0].partition(': ')
  order = paths.orders(db, 'o.id = ?', item['order_id'])[0]
  return seek(
      f'Which {name.lower()} did I choose for the {item["kind"].lower()} that I'
      f' ordered in {paths.month(item["created_at"])}?',
      Text(option),
      *paths.open_order(order),
  )


def _refund(db: t.Db, k: int) -> t.Task:
  canceled = [
      (month, [x for x in orders if x['status'] == 'canceled'])
      for month, orders in _months(db).items()
  ]
  month, orders = pick.kth([x for x in canceled if len(x[1]) == 1], k)
  return seek(
      f'My order of {month} was canceled. How much money do I get back, with'
      ' the shipping fee?',
      Money(orders[0]['total_cents']),
      *paths.open_order(orders[0]),
  )


def _completed(db: t.Db, k: int) -> t.Task:
  first, last, period = _VALUES['completed'][k]
  orders = paths.orders(
      db,
      "o.status = 'complete' AND substr(o.created_at, 1, 10) BETWEEN ? AND ?",
      first,
      last,
  )
  return seek(
      f'How many of my orders placed {period} are complete, and what do their'
      ' grand totals add up to? Answer with the number and the amount,'
      ' separated by a semicolon.',
      Several(
          (
              Number(str(len(orders)), 'orders'),
              Money(sum(x['total_cents'] for x in orders)),
          ),
          ordered=True,
      ),
      *paths.open_orders(orders[-1]['place']),
  )


def _arrival(db: t.Db, k: int) -> t.Task:
  month, orders = pick.kth(
      [
          (month, orders)
          for month, orders in _months(db).items()
          if orders[0]['status'] in ('complete', 'closed')
      ],
      2 * k,
  )
  sent = db.first('SELECT * FROM shipments WHERE order_id = ?', orders[0]['id'])
  return seek(
      f'What is the status of my last order in {month}, and when was it sent?'
      ' Answer with the status and the date, separated by a semicolon.',
      Several(
          (Text(STATUS[orders[0]['status']]), Date(sent['created_at'][:10])),
          ordered=True,
      ),
      *paths.open_order(orders[0]),
  )


def _names(db: t.Db, k: int) -> t.Task:
  order, items = pick.kth(
      [
          (order, paths.items(db, order['id']))
          for order in paths.orders(db)
          if len(paths.items(db, order['id'])) in (2, 3)
      ],
      2 * k,
  )
  return seek(
      f'Which products did I buy with order {order["id"]:09d}? Give their full'
      ' names, separated by semicolons.',
      Several(tuple(Text(item['name']) for item in items)),
      *paths.open_order(order),
  )


_HELP = (
    ('Which phone number should I call to reach customer service?',
     'Customer Service', Text('888-555-0146', ('8885550146',))),
    ('Within how many days can I send back something that I have not used?',
     'Shipping and Returns', Number('45', 'days')),
    ('How many months is a gift card of this shop valid?',
     'Gift Cards', Number('36', 'months')),
    ('How many months do I have for sending back something faulty?',
     'Shipping and Returns', Number('24', 'months')),
    ('Which phone number is there for business customers?',
     'Customer Service', Text('888-555-0171', ('8885550171',))),
)  # fmt: skip


def _help(_: t.Db, k: int) -> t.Task:
  intent, page, answer = _HELP[k]
  return seek(intent, answer, t.link(page))


TEMPLATES = (
    t.Template('shop/order_total', t.SEEK, _total, 5, (214,)),
    t.Template('shop/order_number', t.SEEK, _number, 5, (213,)),
    t.Template('shop/order_detail', t.SEEK, _detail, 5, (206,)),
    t.Template('shop/early_order', t.SEEK, _early, 5, (161,)),
    t.Template('shop/spent_in_month', t.SEEK, _spent, 5, (147,)),
    t.Template('shop/spent_on', t.SEEK, _spent_on, 5, (162,)),
    t.Template('shop/last_ordered', t.SEEK, _last_ordered, 5, (169,)),
    t.Template('shop/chosen_option', t.SEEK, _option, 5, (155,)),
    t.Template('shop/refund', t.SEEK, _refund, 5, (160,)),
    t.Template('shop/complete_orders', t.SEEK, _completed, 5, (197,)),
    t.Template('shop/arrival', t.SEEK, _arrival, 5, (193,)),
    t.Template('shop/order_names', t.SEEK, _names, 5),
    t.Template('shop/help', t.SEEK, _help, 5, (134,)),
)
