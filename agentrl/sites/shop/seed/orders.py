"""The orders that the shop has had."""

import datetime
import random
import sqlite3

from agentrl.sites import seed_data
from agentrl.sites.store import NOW
from agentrl.sites.writes import insert, insert_all

_DATA = seed_data.read(__file__)
# Name -> cents.
SHIPPING = _DATA['shipping']
STATUS = _DATA['status']
ORDERS = 1500
USER = 1  # the customer for whom the shop is signed in
# The user's orders, the oldest first.
_OF_USER = 'ccxcccclcccxccccxcccclccxccccxcccclrhpcxrp'


def add(db: sqlite3.Connection, chance: random.Random) -> None:
  """Inserts orders of two years with what was ordered and sent."""
  customers = db.execute(
      'SELECT id, created_at FROM customers ORDER BY id'
  ).fetchall()
  addresses: dict[int, list[sqlite3.Row]] = {}
  for row in db.execute('SELECT * FROM addresses ORDER BY id'):
    addresses.setdefault(row['customer_id'], []).append(row)
  goods = _Goods(db, chance)
  every = (ORDERS - 5) // len(_OF_USER)
  of_user = {
      (place + 1) * every - chance.randrange(1, every): _DATA['letters'][letter]
      for place, letter in enumerate(_OF_USER)
  }
  # Some buy far more than others.
  keen = [key for key, _ in customers for _ in range(chance.randrange(1, 5))]
  joined = dict(tuple(row) for row in customers)
  for place, stamp in enumerate(times(ORDERS, 729, chance)):
    if place in of_user:
      customer, status = USER, of_user[place]
    else:
      can = [k for k in keen if k != USER and joined[k] < stamp]
      customer, status = chance.choice(can), _status(stamp, chance)
    _add_order(db, customer, status, stamp, addresses[customer], goods, chance)


def times(count: int, days: int, chance: random.Random) -> list[str]:
  """Different times of the last days before NOW, the oldest first."""
  now = datetime.datetime.fromisoformat(NOW)
  hours = chance.sample(list(range(1, days * 24)), count)
  return [
      str(now - datetime.timedelta(hours=x, seconds=chance.randrange(3600)))
      for x in sorted(hours, reverse=True)
  ]


class _Goods:
  """The products that can be bought, and who has bought which."""

  def __init__(self, db: sqlite3.Connection, chance: random.Random):
    self._chance = chance
    self._all = db.execute(
        'SELECT id, sku, name, kind, price_cents FROM products WHERE enabled'
        ' ORDER BY id'
    ).fetchall()
    self._options: dict[int, dict[str, list[str]]] = {}
    for key, name, value in db.execute(
        'SELECT product_id, name, value FROM options ORDER BY id'
    ):
      self._options.setdefault(key, {}).setdefault(name, []).append(value)
    self._of_user: dict[str, sqlite3.Row] = {}  # by kind

  def draw(self, customer: int) -> sqlite3.Row:
    """A product for a customer; the user has one product of each kind."""
    if customer != USER:
      # Squared, so that some sell well.
      return self._all[int(len(self._all) * self._chance.random() ** 2)]
    if len(self._of_user) > 9 and self._chance.random() < 0.15:
      return self._chance.choice(list(self._of_user.values()))
    product = self._chance.choice(self._all)
    return self._of_user.setdefault(product['kind'], product)

  def choice(self, product: int) -> str:
    """Options of a product that were chosen."""
    return ', '.join(
        f'{name}: {self._chance.choice(values)}'
        for name, values in self._options.get(product, {}).items()
    )


def _status(stamp: str, chance: random.Random) -> str:
  draw = chance.randrange(100)
  if stamp > '2023-06-01':
    return ('pending', 'processing', 'complete', 'canceled')[
        (draw >= 40) + (draw >= 75) + (draw >= 93)
    ]
  if stamp > '2023-03-01' and draw < 6:
    return 'on_hold' if draw < 3 else 'fraud'
  if draw < 80:
    return 'complete'
  return 'canceled' if draw < 93 else 'closed'


def _add_order(
    db: sqlite3.Connection,
    customer: int,
    status: str,
    stamp: str,
    addresses: list[sqlite3.Row],
    goods: _Goods,
    chance: random.Random,
) -> None:
  items: dict[int, tuple] = {}
  for _ in range(chance.choice([1, 1, 1, 2, 2, 3, 4])):
    product = goods.draw(customer)
    # Prices of old were a little lower.
    price = product['price_cents']
    if stamp < '2022-09-01':
      price = price * chance.randrange(90, 101) // 100
    items[product['id']] = (
        product['id'],
        product['name'],
        product['sku'],
        goods.choice(product['id']),
        price,
        chance.choice([1, 1, 1, 1, 1, 2, 2, 3]),
    )
  subtotal = sum(item[4] * item[5] for item in items.values())
  coupon, discount = None, 0
  draw = chance.randrange(100)
  if draw < 6:
    coupon, discount = 'WELCOME10', subtotal // 10
  elif draw < 9 and subtotal > 1000:
    coupon, discount = 'FIVEOFF', 500
  shipping = chance.choice(list(SHIPPING))
  to = dict(chance.choice(addresses))
  del to['id'], to['customer_id']
  values = dict(
      customer_id=customer,
      status=status,
      **to,
      shipping=shipping,
      shipping_cents=SHIPPING[shipping],
      coupon=coupon,
      discount_cents=discount,
      created_at=stamp,
      updated_at=stamp,
  )
  key = insert(db, 'orders', **values)
  columns = 'order_id, product_id, name, sku, options, price_cents, quantity'
  rows = [(key, *item) for item in items.values()]
  insert_all(db, 'order_items', columns, rows)
  if status in ('complete', 'closed'):
    insert(
        db,
        'shipments',
        order_id=key,
        carrier=chance.choice(_DATA['carriers']),
        tracking=str(chance.randrange(10**9, 10**10)),
        created_at=min(later(stamp, chance.randrange(20, 90)), NOW),
    )


def later(stamp: str, hours: int) -> str:
  """A time so many hours later."""
  then = datetime.datetime.fromisoformat(stamp)
  return str(then + datetime.timedelta(hours=hours))
