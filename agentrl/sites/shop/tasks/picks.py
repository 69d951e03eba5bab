"""Values for tasks, chosen from the records, and steps that many experts do."""

import datetime
import functools
import itertools
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from agentrl.sites.answers import Money, Text
from agentrl.sites.goals import ADDED, New, Row
from agentrl.sites.shop.seed.orders import SHIPPING, USER
from agentrl.sites.task import Step, Stores, choose, click_on, fill

HOME = 'http://shop/'
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


def rows(stores: Stores, sql: str, *values: Any) -> list[sqlite3.Row]:
  """The rows of a query of the shop's records."""
  return stores['shop'].execute(sql, values).fetchall()


def value(stores: Stores, sql: str, *values: Any) -> Any:
  """The one value that a query finds."""
  ((found,),) = rows(stores, sql, *values)
  return found


def products(
    stores: Stores, where: str = '1', *values: Any, rated: bool = False
) -> list[sqlite3.Row]:
  """Products that can be seen, with their category.

  Args:
    stores: the records.
    where: SQL; p is a product, c its category.
    *values: of its question marks.
    rated: whether to add `stars`, the average, and `reviews`, their number.

  Returns:
    The rows in an order that follows nothing that pages show.
  """
  columns, join = _RATED if rated else ('', '')
  return rows(stores, _PRODUCTS.format(columns, join, where), *values)


def department(stores: Stores, product_id: int) -> str:
  """The name of the category at the top that a product is in."""
  return value(
      stores,
      'SELECT d.name FROM products p JOIN categories c ON c.id = p.category_id'
      ' JOIN categories g ON g.id = c.parent_id JOIN categories d ON d.id ='
      ' g.parent_id WHERE p.id = ?',
      product_id,
  )


def nth(found: Iterable[T], k: int) -> T:
  """The k-th that fits, from 0.

  Raises:
    LookupError: there are not so many.
  """
  for each in itertools.islice(found, k, None):
    return each
  raise LookupError(f'There is no value number {k} for this task.')


def kinds(stores: Stores, start: int = 0) -> Iterator[str]:
  """Kinds of product that a search for their name finds, and nothing else.

  Args:
    stores: the records.
    start: where to begin among them.
  """
  found = _clear(
      tuple(
          (row['kind'], row['name'].lower())
          for row in rows(stores, 'SELECT kind, name FROM products')
      )
  )
  for place in range(len(found)):
    # A prime that does not divide their number: each comes once.
    yield found[(start + 19 * place) % len(found)]


@functools.cache
def _clear(named: Sequence[tuple[str, str]]) -> Sequence[str]:
  """The kinds whose words stand together in no name of another kind.

  Args:
    named: the kind and the name, in lower case, of each product.
  """
  found = []
  for kind in sorted({kind for kind, _ in named}):
    words = [word.removesuffix('s') for word in kind.lower().split()]
    if not any(
        other != kind and all(word in name for word in words)
        for other, name in named
    ):
      found.append(kind)
  return found


def leaves(stores: Stores, start: int = 0) -> Iterator[sqlite3.Row]:
  """Categories that hold products, with `above`, the name of theirs."""
  found = rows(
      stores,
      'SELECT c.*, g.name AS above FROM categories c JOIN categories g ON g.id'
      ' = c.parent_id WHERE g.parent_id IS NOT NULL ORDER BY c.id',
  )
  for place in range(len(found)):
    yield found[(start + 11 * place) % len(found)]


def only(found: Sequence[T], key) -> T | None:
  """The first by a key; None: several are, or there is none."""
  ordered = sorted(found, key=key)
  if not ordered or (len(ordered) > 1 and key(ordered[0]) == key(ordered[1])):
    return None
  return ordered[0]


def options(
    stores: Stores, product_id: int, k: int
) -> Sequence[tuple[str, str]]:
  """A choice of a product's options: pairs of a name and a value."""
  names: dict[str, list[str]] = {}
  for row in rows(
      stores,
      'SELECT name, value FROM options WHERE product_id = ? ORDER BY id',
      product_id,
  ):
    names.setdefault(row['name'], []).append(row['value'])
  return [(name, found[k % len(found)]) for name, found in names.items()]


def said(chosen: Sequence[tuple[str, str]]) -> str:
  """Options as carts and orders hold them."""
  return ', '.join(f'{name}: {value}' for name, value in chosen)


def with_options(chosen: Sequence[tuple[str, str]]) -> str:
  """Options as an objective names them; '' where there are none."""
  return f' ({said(chosen)})' if chosen else ''


def orders(stores: Stores, where: str = '1', *values: Any) -> list[sqlite3.Row]:
  """The user's orders with their totals and their place, the latest first."""
  return rows(
      stores,
      'SELECT o.*, t.subtotal_cents, t.total_cents, (SELECT count(*) FROM'
      ' orders x WHERE x.customer_id = o.customer_id AND x.created_at >'
      ' o.created_at) AS place FROM orders o JOIN order_totals t ON t.order_id'
      f' = o.id WHERE o.customer_id = {USER} AND ({where}) ORDER BY'
      ' o.created_at DESC',
      *values,
  )


def items(stores: Stores, order_id: int) -> list[sqlite3.Row]:
  """The items of an order, with the product's kind."""
  return rows(
      stores,
      'SELECT i.*, p.kind, p.enabled, p.quantity AS stock FROM order_items i'
      ' JOIN products p ON p.id = i.product_id WHERE order_id = ? ORDER BY'
      ' i.id',
      order_id,
  )


def one_item(stores: Stores, start: int = 0) -> Iterator[sqlite3.Row]:
  """Items of the user's orders whose kind no other order has in that month.

  Rows of items with the columns of the order that are asked for most.
  """
  found = rows(
      stores,
      'SELECT i.*, p.kind, p.enabled, o.created_at, o.status FROM order_items i'
      ' JOIN products p ON p.id = i.product_id JOIN orders o ON o.id ='
      f' i.order_id WHERE o.customer_id = {USER} AND (SELECT count(*) FROM'
      ' order_items j JOIN products q ON q.id = j.product_id JOIN orders n ON'
      ' n.id = j.order_id WHERE n.customer_id = o.customer_id AND q.kind ='
      ' p.kind AND substr(n.created_at, 1, 7) = substr(o.created_at, 1, 7)) ='
      ' 1 ORDER BY (i.id * 7919) % 1511, i.id',
  )
  return itertools.chain(found[start:], found[:start])


def month(stamp: str) -> str:
  """The month of a time, such as 'May 2023'."""
  return f'{datetime.datetime.fromisoformat(stamp):%B %Y}'


def day(stamp: str) -> str:
  """The day of a time, such as 'May 26, 2023'."""
  found = datetime.datetime.fromisoformat(stamp)
  return f'{found:%B} {found.day}, {found.year}'


def dollars(cents: int) -> str:
  """An amount, such as '$12.50'."""
  return Money(cents).example()


def number(order_id: int) -> Text:
  """An order's number as an answer."""
  return Text(
      f'{order_id:09d}', (str(order_id), f'#{order_id:09d}', f'#{order_id}')
  )


def search(words: str) -> Step:
  """A search from any page."""
  return fill('Search', words, enter=True)


def open_product(name: str) -> tuple[Step, ...]:
  """From any page to a product."""
  return search(name), click_on('link', name)


def open_leaf(category: sqlite3.Row) -> tuple[Step, ...]:
  """From the home page to a category that holds products."""
  return click_on('link', category['above']), click_on('link', category['name'])


def open_orders(place: int = 0) -> tuple[Step, ...]:
  """From any page to the list of orders that has the one at a place."""
  return (
      click_on('link', 'My Account'),
      click_on('link', 'My Orders'),
      *(click_on('link', 'Next'),) * (place // 10),
  )


def open_order(order: sqlite3.Row) -> tuple[Step, ...]:
  """From any page to an order of `orders`."""
  return (
      *open_orders(order['place']),
      click_on('link', f'View Order {order["id"]:09d}'),
  )


def add_to_cart(
    chosen: Sequence[tuple[str, str]], quantity: int = 1
) -> tuple[Step, ...]:
  """On a product's page: the options, the quantity, the button."""
  steps = [choose(name, option) for name, option in chosen]
  if quantity != 1:
    steps.append(fill('Qty', str(quantity)))
  return *steps, click_on('button', 'Add to Cart')


def check_out(
    in_cart: int, shipping: str, address: sqlite3.Row | None = None
) -> tuple[Step, ...]:
  """From any page: an order of what is in the cart.

  Args:
    in_cart: pieces, as the link to the cart says.
    shipping: name of the method.
    address: where it goes; None: to the default address.
  """
  steps = [
      click_on('link', f'My Cart ({in_cart} items)'),
      click_on('link', 'Proceed to Checkout'),
  ]
  if address is not None:
    steps.append(click_on('radio', address_line(address)))
  if shipping != next(iter(SHIPPING)):
    cost = dollars(SHIPPING[shipping])
    steps.append(click_on('radio', f'{shipping} {cost}'))
  return *steps, click_on('button', 'Next'), click_on('button', 'Place Order')


def address_line(address: sqlite3.Row) -> str:
  """An address as the checkout shows it."""
  return (
      f'{address["first_name"]} {address["last_name"]}, {address["street"]},'
      f' {address["city"]}, {address["region"]}, {address["postcode"]}'
  )


def default_address(stores: Stores) -> sqlite3.Row:
  """The user's default address for deliveries."""
  (found,) = rows(
      stores,
      'SELECT a.* FROM addresses a JOIN customers c ON c.shipping_id = a.id'
      f' WHERE c.id = {USER}',
  )
  return found


def other_addresses(stores: Stores) -> list[sqlite3.Row]:
  """The user's addresses that are no default."""
  return rows(
      stores,
      'SELECT a.* FROM addresses a JOIN customers c ON c.id = a.customer_id'
      f' WHERE c.id = {USER} AND a.id NOT IN (c.shipping_id, c.billing_id)'
      ' ORDER BY a.id',
  )


def cart_row(product_id: int, chosen: str = '', quantity: int = 1) -> Row:
  """An item that was put into the cart."""
  return Row(
      'shop.cart_items',
      ADDED,
      {
          'customer_id': USER,
          'product_id': product_id,
          'options': chosen,
          'quantity': quantity,
      },
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
  order = {
      name: address[name]
      for name in (
          'first_name', 'last_name', 'street', 'city', 'region', 'postcode',
          'phone',
      )
  }  # fmt: skip
  return (
      Row(
          'shop.orders',
          ADDED,
          {
              **order,
              'customer_id': USER,
              'status': 'pending',
              'shipping': shipping,
              'shipping_cents': SHIPPING[shipping],
              'coupon': coupon,
              'discount_cents': discount,
          },
      ),
      *(
          Row(
              'shop.order_items',
              ADDED,
              {
                  'order_id': New('shop.orders'),
                  'product_id': product['id'],
                  'name': product['name'],
                  'sku': product['sku'],
                  'options': chosen,
                  'price_cents': product['price_cents'],
                  'quantity': quantity,
              },
          )
          for product, chosen, quantity in bought
      ),
  )
