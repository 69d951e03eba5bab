"""The shopping cart."""

import dataclasses
import sqlite3
from collections.abc import Sequence

from agentrl.sites.shop.pages.product import enabled
from agentrl.sites.site import Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

_MOST = 100  # of one product


@dataclasses.dataclass(frozen=True)
class Cart:
  """What a customer is about to buy.

  Attributes:
    items: rows of products with `item_id`, `options` and `quantity`.
    coupon: its code; None: none is used.
    discount: in cents.
  """

  items: Sequence[sqlite3.Row]
  coupon: str | None
  discount: int

  @property
  def subtotal(self) -> int:
    """Cents, before the discount and shipping."""
    return sum(item['price_cents'] * item['wanted'] for item in self.items)


def of(visit: Visit) -> Cart:
  """The visitor's cart."""
  items = visit.all(
      'SELECT p.*, i.id AS item_id, i.options, i.quantity AS wanted,'
      ' d.position AS icon FROM cart_items i JOIN products p ON p.id ='
      ' i.product_id JOIN categories c ON c.id = p.category_id JOIN categories'
      ' g ON g.id = c.parent_id JOIN categories d ON d.id = g.parent_id WHERE'
      ' i.customer_id = ? ORDER BY i.id',
      visit.user,
  )
  code = visit.value(
      'SELECT coupon FROM carts WHERE customer_id = ?', visit.user
  )
  cart = Cart(items, None, 0)
  rule = _rule(visit, code) if code else None
  if rule is None:
    return cart
  discount = rule['amount']
  if rule['kind'] == 'percent':
    discount = cart.subtotal * rule['amount'] // 100
  return Cart(items, code, min(discount, cart.subtotal))


def show(visit: Visit) -> Page:
  """The cart's page."""
  return Page.of('cart.html', cart=of(visit))


def add(visit: Visit) -> Redirect:
  """Puts a product into the cart."""
  product = enabled(visit, visit.form.get('product', ''))
  chosen = []
  for name in visit.column(
      'SELECT name FROM options WHERE product_id = ? GROUP BY name'
      ' ORDER BY min(id)',
      product['id'],
  ):
    value = visit.form.get(f'option {name}', '')
    if not visit.has(
        'options', product_id=product['id'], name=name, value=value
    ):
      raise Wrong(f'Choose a value for {name}.')
    chosen.append(f'{name}: {value}')
  quantity = visit.number('quantity', 1, _MOST)
  put(visit, product, ', '.join(chosen), quantity)
  return Redirect(
      _back(visit, product),
      f'You added {product["name"]} to your shopping cart.',
  )


def put(visit: Visit, product: dict, options: str, quantity: int) -> None:
  """Adds to what the cart has of a product.

  Raises:
    Wrong: there is not so much of it in stock.
  """
  there = visit.value(
      'SELECT quantity FROM cart_items WHERE customer_id = ? AND product_id = ?'
      ' AND options = ?',
      visit.user,
      product['id'],
      options,
  )
  _check_stock(product, quantity + (there or 0))
  visit.db.execute(
      'INSERT INTO cart_items (customer_id, product_id, options, quantity)'
      ' VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET quantity = quantity +'
      ' excluded.quantity',
      (visit.user, product['id'], options, quantity),
  )


def update(visit: Visit) -> Redirect:
  """Sets the quantities of all items; 0 removes one."""
  for item in of(visit).items:
    name = f'quantity {item["item_id"]}'
    if name not in visit.form:
      continue
    wanted = visit.form[name].strip()
    if not wanted.isdecimal() or len(wanted) > 4:
      raise Wrong('Qty must be a whole number, 0 or more.')
    if int(wanted):
      _check_stock(dict(item), int(wanted))
      visit.update('cart_items', item['item_id'], quantity=int(wanted))
    else:
      visit.delete('cart_items', id=item['item_id'])
  return Redirect('/checkout/cart', 'Your shopping cart has been updated.')


def remove(visit: Visit) -> Redirect:
  """Takes an item out of the cart."""
  key = int(visit.match['id'])
  visit.find('cart_items', id=key, customer_id=visit.user)
  visit.delete('cart_items', id=key)
  return Redirect('/checkout/cart', 'The item was removed from your cart.')


def apply_coupon(visit: Visit) -> Redirect:
  """Uses a coupon for the cart."""
  code = visit.text('coupon', most=40)
  rule = _rule(visit, code)
  if rule is None:
    raise Wrong(f'The coupon code "{code}" is not valid.')
  if not of(visit).items:
    raise Wrong('Your shopping cart is empty.')
  set_coupon(visit, rule['code'])
  return Redirect('/checkout/cart', f'You used coupon code "{rule["code"]}".')


def cancel_coupon(visit: Visit) -> Redirect:
  """Does without the coupon."""
  set_coupon(visit, None)
  return Redirect('/checkout/cart', 'You canceled the coupon code.')


def set_coupon(visit: Visit, code: str | None) -> None:
  """Sets the coupon of the visitor's cart; None: it has none."""
  cart = visit.find('carts', customer_id=visit.user)
  visit.update('carts', cart['id'], coupon=code)


def _check_stock(product: dict, wanted: int) -> None:
  if not product['quantity']:
    raise Wrong(f'{product["name"]} is out of stock.')
  if wanted > min(product['quantity'], _MOST):
    raise Wrong(
        f'The requested quantity of {product["name"]} is not available.'
    )


def _rule(visit: Visit, code: str) -> sqlite3.Row | None:
  """The price rule of a coupon that is valid today."""
  return visit.db.execute(
      'SELECT * FROM price_rules WHERE code = ? COLLATE NOCASE AND active AND'
      " coalesce(starts_on, '') <= ? AND coalesce(ends_on, '9') >= ?",
      (code, NOW[:10], NOW[:10]),
  ).fetchone()


def _back(visit: Visit, product: dict) -> str:
  """Where to go on after a product was put into the cart."""
  back = visit.form.get('back', '')
  # A path of this site, and no address of another.
  if back.startswith('/') and back[1:2] not in ('/', '\\'):
    return back.replace('\n', '').replace('\r', '')
  return f'/{product["slug"]}.html'
