"""Values for tasks, chosen from the records, and steps that many experts do."""

import datetime
import functools
import itertools
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from agentrl.sites import picking as pick, task as t
from agentrl.sites.answers import Money, Text
from agentrl.sites.goals import New, Row, added
from agentrl.sites.shop.seed.orders import SHIPPING, USER

_MAKER = t.Maker('http://shop/')
seek, change, go = _MAKER.seek, _MAKER.change, _MAKER.go
T = TypeVar('T')
_PRODUCTS = (
    'SELECT p.*, c.name AS category, c.path, p.id IN (SELECT product_id FROM'
    ' options) AS has_options {} FROM products p JOIN categories c ON c.id ='
    ' p.category_id {} WHERE p.enabled AND ({}) ORDER BY (p.id * 7919) % 1511,'
    ' p.id'
)
_RATED = (
    ', s.stars, coalesce(s.reviews, 0) AS reviews',
    (
        'LEFT JOIN (SELECT product_id, avg(stars) AS stars, count(*) AS reviews'
        " FROM reviews WHERE status = 'approved' GROUP BY product_id) s ON"
        ' s.product_id = p.id'
    ),
)


def products(
    db: t.Db, where: str = '1', *values: Any, rated: bool = False
) -> list[sqlite3.Row]:
  """Products that can be seen, with their category.

  Args:
    db: the records.
    where: SQL; p is a product, c its category.
    *values: of its question marks.
    rated: whether to add `stars`, the average, and `reviews`, their number.

  Returns:
    The rows in an order that follows nothing that pages show.
  """
  columns, join = _RATED if rated else ('', '')
  return db.rows(_PRODUCTS.format(columns, join, where), *values)


def of_kind(db: t.Db, kind: str, *, rated: bool = False) -> list[sqlite3.Row]:
  """As `products`, those of a kind."""
  return products(db, 'p.kind = ?', kind, rated=rated)


def of_category(
    db: t.Db, key: int, *, rated: bool = False
) -> list[sqlite3.Row]:
  """As `products`, those of a category."""
  return products(db, 'c.id = ?', key, rated=rated)


def plain(db: t.Db, where: str = '1', *values: Any) -> list[sqlite3.Row]:
  """As `products`, those in stock that have no options."""
  rows = products(db, f'p.quantity > 10 AND {where}', *values)
  return [row for row in rows if not row['has_options']]


def fact(db: t.Db, product_id: int, name: str) -> str:
  """The value of a row of a product's table of facts."""
  return db.value(
      'SELECT value FROM attributes WHERE product_id = ? AND name = ?',
      product_id,
      name,
  )


def measure(db: t.Db, product_id: int, name: str) -> int:
  """The number with which a fact of a product begins."""
  return int(fact(db, product_id, name).split()[0])


def department(db: t.Db, product_id: int) -> str:
  """The name of the category at the top that a product is in."""
  return db.value(
      'SELECT d.name FROM products p JOIN categories c ON c.id = p.category_id'
      ' JOIN categories g ON g.id = c.parent_id JOIN categories d ON d.id ='
      ' g.parent_id WHERE p.id = ?',
      product_id,
  )


def kinds(db: t.Db, start: int = 0) -> Iterator[str]:
  """Kinds of product that a search for their name finds, and nothing else.

  Args:
    db: the records.
    start: where to begin among them.
  """
  clear_kinds = _clear(
      tuple(
          (row['kind'], row['name'].lower())
          for row in db.rows('SELECT kind, name FROM products')
      )
  )
  for place in range(len(clear_kinds)):
    # A prime that does not divide their number: each comes once.
    yield clear_kinds[(start + 19 * place) % len(clear_kinds)]


@functools.cache
def _clear(named: Sequence[tuple[str, str]]) -> Sequence[str]:
  """The kinds whose words stand together in no name of another kind.

  Args:
    named: the kind and the name, in lower case, of each product.
  """
  clear_kinds = []
  for kind in sorted({kind for kind, _ in named}):
    words = [word.removesuffix('s') for word in kind.lower().split()]
    if not any(
        other != kind and all(word in name for word in words)
        for other, name in named
    ):
      clear_kinds.append(kind)
  return clear_kinds


def leaves(db: t.Db, start: int = 0) -> Iterator[sqlite3.Row]:
  """Categories that hold products, with `above`, the name of theirs."""
  categories = db.rows(
      'SELECT c.*, g.name AS above FROM categories c JOIN categories g ON g.id'
      ' = c.parent_id WHERE g.parent_id IS NOT NULL ORDER BY c.id'
  )
  for place in range(len(categories)):
    yield categories[(start + 11 * place) % len(categories)]


def only(values: Sequence[T], key: Callable[[T], Any]) -> T | None:
  """The first by a key; None: several are, or there is none."""
  ordered = sorted(values, key=key)
  if not ordered or (len(ordered) > 1 and key(ordered[0]) == key(ordered[1])):
    return None
  return ordered[0]


def cheapest(rows: Sequence[sqlite3.Row]) -> sqlite3.Row | None:
  """The product with the lowest price; None: several have it, or none is."""
  return only(rows, lambda row: row['price_cents'])


def options(db: t.Db, product_id: int, k: int) -> Sequence[tuple[str, str]]:
  """A choice of a product's options: pairs of a name and a value."""
  rows = db.rows(
      'SELECT name, value FROM options WHERE product_id = ? ORDER BY id',
      product_id,
  )
  names = pick.grouped(rows, lambda row: row['name'])
  return [(name, x[k % len(x)]['value']) for name, x in names.items()]


def said(chosen: Sequence[tuple[str, str]]) -> str:
  """Options as carts and orders hold them."""
  return ', '.join(f'{name}: {value}' for name, value in chosen)


def with_options(chosen: Sequence[tuple[str, str]]) -> str:
  """Options as an objective names them; '' where there are none."""
  return f' ({said(chosen)})' if chosen else ''


def orders(db: t.Db, where: str = '1', *values: Any) -> list[sqlite3.Row]:
  """The user's orders with their totals and their place, the latest first."""
  return db.rows(
      'SELECT o.*, t.subtotal_cents, t.total_cents, (SELECT count(*) FROM'
      ' orders x WHERE x.customer_id = o.customer_id AND x.created_at >'
      ' o.created_at) AS place FROM orders o JOIN order_totals t ON t.order_id'
      f' = o.id WHERE o.customer_id = {USER} AND ({where}) ORDER BY'
      ' o.created_at DESC',
      *values,
  )


def items(db: t.Db, order_id: int) -> list[sqlite3.Row]:
  """The items of an order, with the product's kind."""
  return db.rows(
      'SELECT i.*, p.kind, p.enabled, p.quantity AS stock FROM order_items i'
      ' JOIN products p ON p.id = i.product_id WHERE order_id = ? ORDER BY'
      ' i.id',
      order_id,
  )


def one_item(db: t.Db, start: int = 0) -> Iterator[sqlite3.Row]:
  """Items of the user's orders whose kind no other order has in that month.

  Rows of items with the columns of the order that are asked for most.
  """
  rows = db.rows(
      'SELECT i.*, p.kind, p.enabled, o.created_at, o.status FROM order_items i'
      ' JOIN products p ON p.id = i.product_id JOIN orders o ON o.id ='
      f' i.order_id WHERE o.customer_id = {USER} AND (SELECT count(*) FROM'
      ' order_items j JOIN products q ON q.id = j.product_id JOIN orders n ON'
      ' n.id = j.order_id WHERE n.customer_id = o.customer_id AND q.kind ='
      ' p.kind AND substr(n.created_at, 1, 7) = substr(o.created_at, 1, 7)) ='
      ' 1 ORDER BY (i.id * 7919) % 1511, i.id'
  )
  return itertools.chain(rows[start:], rows[:start])


def month(stamp: str) -> str:
  """The month of a time, such as 'May 2023'."""
  return f'{datetime.datetime.fromisoformat(stamp):%B %Y}'


def dollars(cents: int) -> str:
  """An amount, such as '$12.50'."""
  return Money(cents).example()


def number(order_id: int) -> Text:
  """An order's number as an answer."""
  return Text(
      f'{order_id:09d}', (str(order_id), f'#{order_id:09d}', f'#{order_id}')
  )


def search(words: str) -> t.Step:
  """A search from any page."""
  return t.fill('Search', words, enter=True)


def open_product(name: str) -> tuple[t.Step, ...]:
  """From any page to a product."""
  return search(name), t.link(name)


def open_leaf(category: sqlite3.Row) -> tuple[t.Step, ...]:
  """From the home page to a category that holds products."""
  return t.link(category['above']), t.link(category['name'])


def open_orders(place: int = 0) -> tuple[t.Step, ...]:
  """From any page to the list of orders that has the one at a place."""
  return (
      t.link('My Account'),
      t.link('My Orders'),
      *(t.link('Next'),) * (place // 10),
  )


def open_order(order: sqlite3.Row) -> tuple[t.Step, ...]:
  """From any page to an order of `orders`."""
  return (*open_orders(order['place']), t.link(f'View Order {order["id"]:09d}'))


def add_to_cart(
    chosen: Sequence[tuple[str, str]], quantity: int = 1
) -> tuple[t.Step, ...]:
  """On a product's page: the options, the quantity, the button."""
  steps = [t.choose(name, option) for name, option in chosen]
  if quantity != 1:
    steps.append(t.fill('Qty', str(quantity)))
  return *steps, t.button('Add to Cart')


def check_out(
    in_cart: int, shipping: str, address: sqlite3.Row | None = None
) -> tuple[t.Step, ...]:
  """From any page: an order of what is in the cart.

  Args:
    in_cart: pieces, as the link to the cart says.
    shipping: name of the method.
    address: where it goes; None: to the default address.
  """
  steps = [t.link(f'My Cart ({in_cart} items)'), t.link('Proceed to Checkout')]
  if address is not None:
    steps.append(t.click_on('radio', address_line(address)))
  if shipping != next(iter(SHIPPING)):
    cost = dollars(SHIPPING[shipping])
    steps.append(t.click_on('radio', f'{shipping} {cost}'))
  return *steps, t.button('Next'), t.button('Place Order')


def address_line(address: sqlite3.Row) -> str:
  """An address as the checkout shows it."""
  return (
      f'{address["first_name"]} {address["last_name"]}, {address["street"]},'
      f' {address["city"]}, {address["region"]}, {address["postcode"]}'
  )


def default_address(db: t.Db) -> sqlite3.Row:
  """The user's default address for deliveries."""
  return db.first(
      'SELECT a.* FROM addresses a JOIN customers c ON c.shipping_id = a.id'
      f' WHERE c.id = {USER}'
  )


def other_addresses(db: t.Db) -> list[sqlite3.Row]:
  """The user's addresses that are no default."""
  return db.rows(
      'SELECT a.* FROM addresses a JOIN customers c ON c.id = a.customer_id'
      f' WHERE c.id = {USER} AND a.id NOT IN (c.shipping_id, c.billing_id)'
      ' ORDER BY a.id'
  )


def cart_row(product_id: int, chosen: str = '', quantity: int = 1) -> Row:
  """An item that was put into the cart."""
  return added(
      'shop.cart_items',
      customer_id=USER,
      product_id=product_id,
      options=chosen,
      quantity=quantity,
  )


def order_rows(
    address: sqlite3.Row,
    shipping: str,
    bought: Sequence[tuple[sqlite3.Row, str, int]],
    *,
    coupon: str | None = None,
    discount: int = 0,
) -> tuple[Row, ...]:
  """An order that was placed.

  Args:
    address: where it goes.
    shipping: name of the method.
    bought: products with their options and quantities.
    coupon: its code.
    discount: in cents.
  """
  columns = 'first_name last_name street city region postcode phone'
  order = {name: address[name] for name in columns.split()}
  return (
      added(
          'shop.orders',
          **order,
          customer_id=USER,
          status='pending',
          shipping=shipping,
          shipping_cents=SHIPPING[shipping],
          coupon=coupon,
          discount_cents=discount,
      ),
      *(
          added(
              'shop.order_items',
              order_id=New('shop.orders'),
              product_id=product['id'],
              name=product['name'],
              sku=product['sku'],
              options=chosen,
              price_cents=product['price_cents'],
              quantity=quantity,
          )
          for product, chosen, quantity in bought
      ),
  )
