"""The checkout: where an order goes and how, and the order itself."""

from agentrl.sites.shop.pages import addresses, cart as cart_lib
from agentrl.sites.shop.pages.cart import Cart
from agentrl.sites.shop.seed.orders import SHIPPING
from agentrl.sites.site import Answer, Missing, Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

_EMPTY = Redirect('/checkout/cart', 'You have no items in your shopping cart.')


def shipping(visit: Visit) -> Answer:
  """The first step: an address and a way of delivery."""
  cart = cart_lib.of(visit)
  if not cart.items:
    return _EMPTY
  return Page.of(
      'shipping.html',
      cart=cart,
      methods=SHIPPING,
      addresses=addresses.all_of(visit),
  )


def payment(visit: Visit) -> Answer:
  """The second step: all that is going to be ordered."""
  cart = cart_lib.of(visit)
  if not cart.items:
    return _EMPTY
  method = visit.query.get('shipping', '')
  if method not in SHIPPING:
    raise Missing
  return Page.of(
      'payment.html',
      cart=cart,
      method=method,
      cost=SHIPPING[method],
      address=addresses.own(visit, visit.query.get('address', '')),
  )


def place(visit: Visit) -> Answer:
  """Makes an order of the cart, and empties it."""
  cart = cart_lib.of(visit)
  if not cart.items:
    return _EMPTY
  method = visit.form.get('shipping', '')
  if method not in SHIPPING:
    raise Wrong('Choose a shipping method.')
  address = addresses.own(visit, visit.form.get('address', ''))
  for item in cart.items:
    if not item['enabled'] or item['wanted'] > item['quantity']:
      raise Wrong(f'{item["name"]} is not available any more.')
  order = visit.insert(
      'orders',
      customer_id=visit.user,
      status='pending',
      **{name: address[name] for name in addresses.FIELDS},
      shipping=method,
      shipping_cents=SHIPPING[method],
      coupon=cart.coupon,
      discount_cents=cart.discount,
      created_at=NOW,
      updated_at=NOW,
  )
  _move(visit, cart, order)
  return Redirect(f'/checkout/success?order={order}')


def success(visit: Visit) -> Page:
  """The thanks after an order."""
  number = visit.query.get('order', '')
  if not number.isdecimal() or len(number) > 9:
    raise Missing
  order = visit.find('orders', id=int(number), customer_id=visit.user)
  return Page.of('success.html', order=order)


def _move(visit: Visit, cart: Cart, order: int) -> None:
  """Moves the items of the cart to an order."""
  for item in cart.items:
    visit.insert(
        'order_items',
        order_id=order,
        product_id=item['id'],
        name=item['name'],
        sku=item['sku'],
        options=item['options'],
        price_cents=item['price_cents'],
        quantity=item['wanted'],
    )
  visit.delete('cart_items', customer_id=visit.user)
  cart_lib.set_coupon(visit, None)
