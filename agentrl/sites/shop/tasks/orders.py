"""Questions about the user's orders."""

import sqlite3

from agentrl.sites.answers import Answer, Date, Money, Number, Several, Text
from agentrl.sites.goals import Goal
from agentrl.sites.shop.seed.orders import STATUS
from agentrl.sites.shop.tasks import picks
from agentrl.sites.task import (
    SEEK,
    Step,
    Stores,
    Task,
    Template,
    click_on,
    stop,
)


def _seek(intent: str, answer: Answer, *steps: Step) -> Task:
  return Task(
      intent=intent,
      goal=Goal(answer=answer),
      steps=(*steps, stop(answer.example())),
      start=(picks.HOME,),
  )


def _latest(stores: Stores, k: int) -> sqlite3.Row:
  status = ('canceled', 'pending', 'complete', 'processing', 'closed')[k]
  return picks.orders(stores, 'o.status = ?', status)[0]


def _total(stores: Stores, k: int) -> Task:
  order = _latest(stores, k)
  return _seek(
      'What is the grand total of my latest order that is'
      f' "{STATUS[order["status"]]}"? Answer with the amount.',
      Money(order['total_cents']),
      *picks.open_order(order),
  )


def _number(stores: Stores, k: int) -> Task:
  order = _latest(stores, k)
  return _seek(
      'Which number does my most recent order with the status'
      f' "{STATUS[order["status"]]}" have?',
      picks.number(order['id']),
      *picks.open_orders(order['place']),
  )


def _detail(stores: Stores, k: int) -> Task:
  order = picks.nth(
      [
          each
          for each in picks.orders(stores, "o.status = 'complete'")
          if each['place'] > 3
      ],
      4 * k,
  )
  sent = picks.rows(
      stores, 'SELECT * FROM shipments WHERE order_id = ?', order['id']
  )[0]
  what, answer = (
      ('shipping method', Text(order['shipping'])),
      ('tracking number', Text(sent['tracking'])),
      ('order date', Date(order['created_at'][:10])),
      ('postal code of the shipping address', Text(order['postcode'])),
      ('carrier', Text(sent['carrier'])),
  )[k]
  return _seek(
      f'Tell me the {what} of my order number {order["id"]:09d}.',
      answer,
      *picks.open_order(order),
  )


def _early(stores: Stores, k: int) -> Task:
  order = picks.orders(stores)[-1 - k]
  which = ('first', 'second', 'third', 'fourth', 'fifth')[k]
  return _seek(
      f'On which day did I place my {which} order ever in this shop?',
      Date(order['created_at'][:10]),
      *picks.open_orders(order['place']),
  )


def _months(stores: Stores) -> dict[str, list[sqlite3.Row]]:
  """The user's orders by month, the latest first."""
  found: dict[str, list[sqlite3.Row]] = {}
  for order in picks.orders(stores):
    found.setdefault(picks.month(order['created_at']), []).append(order)
  return found


def _spent(stores: Stores, k: int) -> Task:
  month, orders = picks.nth(
      [each for each in _months(stores).items() if len(each[1]) > 1], 2 * k
  )
  return _seek(
      f'Add up the grand totals of all orders that I placed in {month},'
      ' whatever became of them. How much is it?',
      Money(sum(order['total_cents'] for order in orders)),
      *picks.open_orders(orders[-1]['place']),
  )


def _spent_on(stores: Stores, k: int) -> Task:
  def candidates():
    for order in picks.orders(stores):
      shares: dict[str, list[sqlite3.Row]] = {}
      for item in picks.items(stores, order['id']):
        name = picks.department(stores, item['product_id'])
        shares.setdefault(name, []).append(item)
      for name, found in sorted(shares.items()):
        # More than one row, or more than one piece: a sum is asked for.
        pieces = sum(item['quantity'] for item in found)
        if len(shares) > 1 and pieces > 1 and all(x['enabled'] for x in found):
          yield order, name, [x['price_cents'] * x['quantity'] for x in found]
          break

  order, name, paid = picks.nth(candidates(), k)
  return _seek(
      f'How much did I spend on {name} in my order number {order["id"]:09d}?'
      ' Count the goods alone, without shipping or discounts.',
      Money(sum(paid)),
      *picks.open_order(order),
  )


def _last_ordered(stores: Stores, k: int) -> Task:
  found = picks.rows(
      stores,
      'SELECT p.kind, max(o.created_at) AS created_at, count(*) AS count FROM'
      ' order_items i JOIN products p ON p.id = i.product_id JOIN orders o ON'
      ' o.id = i.order_id WHERE o.customer_id = 1 GROUP BY p.kind ORDER BY'
      ' count(*) DESC, p.kind',
  )
  last = found[k]
  order = picks.orders(stores, 'o.created_at = ?', last['created_at'])[0]
  return _seek(
      f'When did I last order {_some(last["kind"])}? Tell me the date.',
      Date(last['created_at'][:10]),
      *picks.open_order(order),
  )


def _some(kind: str) -> str:
  """A kind of product after 'order'."""
  if kind.endswith('s') or kind.split()[-1] in ('Tea', 'Coffee', 'Shampoo'):
    return kind.lower()
  return f'{"an" if kind[0] in "AEIO" else "a"} {kind.lower()}'


def _option(stores: Stores, k: int) -> Task:
  item = picks.nth(
      [each for each in picks.one_item(stores) if each['options']], k
  )
  name, _, option = item['options'].partition(', ')[0].partition(': ')
  order = picks.orders(stores, 'o.id = ?', item['order_id'])[0]
  return _seek(
      f'Which {name.lower()} did I choose for the {item["kind"].lower()} that I'
      f' ordered in {picks.month(item["created_at"])}?',
      Text(option),
      *picks.open_order(order),
  )


def _refund(stores: Stores, k: int) -> Task:
  canceled = [
      (month, [x for x in orders if x['status'] == 'canceled'])
      for month, orders in _months(stores).items()
  ]
  month, orders = picks.nth([x for x in canceled if len(x[1]) == 1], k)
  return _seek(
      f'My order of {month} was canceled. How much money do I get back, with'
      ' the shipping fee?',
      Money(orders[0]['total_cents']),
      *picks.open_order(orders[0]),
  )


def _completed(stores: Stores, k: int) -> Task:
  first, last, said = (
      ('2023-01-01', '2023-03-31', 'from January to March 2023'),
      ('2022-10-01', '2022-12-31', 'in the last three months of 2022'),
      ('2022-07-01', '2022-09-30', 'from July to September 2022'),
      ('2022-01-01', '2022-04-30', 'in the first four months of 2022'),
      ('2021-08-01', '2021-11-30', 'from August to November 2021'),
  )[k]
  orders = picks.orders(
      stores,
      "o.status = 'complete' AND substr(o.created_at, 1, 10) BETWEEN ? AND ?",
      first,
      last,
  )
  return _seek(
      f'How many of my orders placed {said} are complete, and what do their'
      ' grand totals add up to? Answer with the number and the amount,'
      ' separated by a semicolon.',
      Several(
          (
              Number(str(len(orders)), 'orders'),
              Money(sum(x['total_cents'] for x in orders)),
          ),
          ordered=True,
      ),
      *picks.open_orders(orders[-1]['place']),
  )


def _arrival(stores: Stores, k: int) -> Task:
  month, orders = picks.nth(
      [
          (month, orders)
          for month, orders in _months(stores).items()
          if orders[0]['status'] in ('complete', 'closed')
      ],
      2 * k,
  )
  sent = picks.rows(
      stores, 'SELECT * FROM shipments WHERE order_id = ?', orders[0]['id']
  )[0]
  return _seek(
      f'What is the status of my last order in {month}, and when was it sent?'
      ' Answer with the status and the date, separated by a semicolon.',
      Several(
          (
              Text(STATUS[orders[0]['status']]),
              Date(sent['created_at'][:10]),
          ),
          ordered=True,
      ),
      *picks.open_order(orders[0]),
  )


def _names(stores: Stores, k: int) -> Task:
  order, found = picks.nth(
      [
          (order, picks.items(stores, order['id']))
          for order in picks.orders(stores)
          if len(picks.items(stores, order['id'])) in (2, 3)
      ],
      2 * k,
  )
  return _seek(
      f'Which products did I buy with order {order["id"]:09d}? Give their full'
      ' names, separated by semicolons.',
      Several(tuple(Text(item['name']) for item in found)),
      *picks.open_order(order),
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


def _help(stores: Stores, k: int) -> Task:
  del stores
  intent, page, answer = _HELP[k]
  return _seek(intent, answer, click_on('link', page))


TEMPLATES = (
    Template('shop/order_total', SEEK, _total, 5, (214,)),
    Template('shop/order_number', SEEK, _number, 5, (213,)),
    Template('shop/order_detail', SEEK, _detail, 5, (206,)),
    Template('shop/early_order', SEEK, _early, 5, (161,)),
    Template('shop/spent_in_month', SEEK, _spent, 5, (147,)),
    Template('shop/spent_on', SEEK, _spent_on, 5, (162,)),
    Template('shop/last_ordered', SEEK, _last_ordered, 5, (169,)),
    Template('shop/chosen_option', SEEK, _option, 5, (155,)),
    Template('shop/refund', SEEK, _refund, 5, (160,)),
    Template('shop/complete_orders', SEEK, _completed, 5, (197,)),
    Template('shop/arrival', SEEK, _arrival, 5, (193,)),
    Template('shop/order_names', SEEK, _names, 5),
    Template('shop/help', SEEK, _help, 5, (134,)),
)
