"""Tasks that end with an order, or with a cart made from an earlier one."""

from agentrl.sites.goals import Goal, Row
from agentrl.sites.shop.tasks import picks
from agentrl.sites.task import (
    CHANGE,
    Step,
    Stores,
    Task,
    Template,
    choose,
    click_on,
    fill,
    stop,
)

_STANDARD, _EXPRESS = 'Standard Delivery', 'Express Delivery'
_DEFAULT = f'with {_STANDARD} to my default address'


def _change(intent: str, rows: tuple[Row, ...], *steps: Step) -> Task:
  return Task(
      intent=intent,
      goal=Goal(rows=rows),
      steps=(*steps, stop()),
      start=(picks.HOME,),
  )


def _buy(stores: Stores, k: int, intent: str, product, *steps: Step) -> Task:
  """Buys one piece of a product to which steps lead."""
  chosen = picks.options(stores, product['id'], k)
  wanted = f' Choose {picks.said(chosen)}.' if chosen else ''
  return _change(
      f'{intent} Order one piece {_DEFAULT}.{wanted}',
      picks.order_rows(
          picks.default_address(stores),
          _STANDARD,
          [(product, picks.said(chosen), 1)],
      ),
      *steps,
      click_on('link', product['name']),
      *picks.add_to_cart(chosen),
      *picks.check_out(1, _STANDARD),
  )


def _shown(row) -> float:
  """A product's rating as pages show it."""
  return round(row['stars'], 1)


def _best_within(stores: Stores, k: int) -> Task:
  def candidates():
    for category in picks.leaves(stores, 31):
      every = picks.products(stores, 'c.id = ?', category['id'], rated=True)
      prices = sorted(row['price_cents'] for row in every)
      low = prices[len(prices) // 3] // 500 * 5
      high = prices[len(prices) * 4 // 5] // 500 * 5 + 5
      found = [
          row
          for row in every
          if low * 100 <= row['price_cents'] <= high * 100 and row['reviews']
      ]
      product = picks.only(found, lambda row: -_shown(row))
      if len(found) > 2 and product is not None and product['quantity']:
        before = sum(
            low * 100 <= row['price_cents'] <= high * 100
            and row['id'] < product['id']
            for row in every
        )
        yield category, low, high, product, before

  category, low, high, product, before = picks.nth(candidates(), k)
  return _buy(
      stores,
      k,
      'Buy the product with the highest average rating in the category'
      f' "{category["name"]}" that costs from ${low} to ${high}.',
      product,
      *picks.open_leaf(category),
      fill('Lowest price', str(low)),
      fill('Highest price', str(high), enter=True),
      *(click_on('link', 'Next'),) * (before // 20),
  )


def _best_reviewed(stores: Stores, k: int) -> Task:
  def candidates():
    for kind in picks.kinds(stores, 61):
      found = [
          row
          for row in picks.products(stores, 'p.kind = ?', kind, rated=True)
          if row['reviews'] >= 5
      ]
      product = picks.only(
          found, lambda row: (-_shown(row), row['price_cents'])
      )
      if len(found) > 2 and product is not None and product['quantity']:
        yield kind, product

  kind, product = picks.nth(candidates(), k)
  before = sum(
      row['id'] < product['id']
      for row in picks.products(stores, 'p.kind = ?', kind)
  )
  return _buy(
      stores,
      k,
      f'Among the products called "{kind}" with at least 5 reviews, buy the'
      ' one with the highest average rating; if several have it, the cheapest'
      ' of them.',
      product,
      picks.search(kind.lower()),
      *(click_on('link', 'Next'),) * (before // 20),
  )


def _cheapest(stores: Stores, k: int) -> Task:
  def candidates():
    for category in picks.leaves(stores, 37):
      found = picks.products(stores, 'c.id = ?', category['id'])
      product = picks.only(found, lambda row: row['price_cents'])
      if product is not None and product['quantity']:
        yield category, product

  category, product = picks.nth(candidates(), k)
  return _buy(
      stores,
      k,
      f'Buy me whatever costs least in the category "{category["name"]}".',
      product,
      *picks.open_leaf(category),
      choose('Sort By', 'Price'),
  )


def _express(stores: Stores, k: int) -> Task:
  found = [
      row
      for row in picks.products(stores, 'p.quantity > 10')
      if not row['has_options']
  ]
  product = found[23 * k + 11]
  address = picks.other_addresses(stores)[k % 2]
  count = 1 + k % 3
  return _change(
      f'Order {count} {"piece" if count == 1 else "pieces"} of the'
      f' {product["name"]} with {_EXPRESS} to my address in {address["city"]}.',
      picks.order_rows(address, _EXPRESS, [(product, '', count)]),
      *picks.open_product(product['name']),
      *picks.add_to_cart((), count),
      *picks.check_out(count, _EXPRESS, address),
  )


def _with_coupon(stores: Stores, k: int) -> Task:
  found = [
      row
      for row in picks.products(
          stores, 'p.quantity > 10 AND p.price_cents > 3000'
      )
      if not row['has_options']
  ]
  product = found[13 * k + 5]
  code, percent, cents = (
      ('SUMMER23', 20, 0),
      ('FIVEOFF', 0, 500),
      ('WELCOME10', 10, 0),
      ('SORRY12', 0, 1200),
      ('SUMMER23', 20, 0),
  )[k]
  return _change(
      f'Buy one {product["name"]} with the coupon {code}. I will fetch it'
      ' myself (Store Pickup), so leave the default address.',
      picks.order_rows(
          picks.default_address(stores),
          'Store Pickup',
          [(product, '', 1)],
          coupon=code,
          discount=cents or product['price_cents'] * percent // 100,
      ),
      *picks.open_product(product['name']),
      *picks.add_to_cart(()),
      click_on('link', 'My Cart (1 items)'),
      fill('Discount code', code),
      click_on('button', 'Apply Discount'),
      *picks.check_out(1, 'Store Pickup'),
  )


def _products_of(stores: Stores, order) -> list | None:
  """Products, options and quantities of an order; None: not all to be had."""
  found = []
  for item in picks.items(stores, order['id']):
    if not item['enabled'] or item['stock'] < item['quantity']:
      return None
    (product,) = picks.rows(
        stores, 'SELECT * FROM products WHERE id = ?', item['product_id']
    )
    found.append((product, item['options'], item['quantity']))
  return found


def _canceled_again(stores: Stores, k: int) -> Task:
  canceled = picks.orders(stores, "o.status = 'canceled'")
  months = [picks.month(order['created_at']) for order in canceled]
  order, bought = picks.nth(
      (
          (order, bought)
          for order, month in zip(canceled, months, strict=True)
          for bought in [_products_of(stores, order)]
          if bought and months.count(month) == 1
      ),
      k,
  )
  return _change(
      f'In {picks.month(order["created_at"])} I ordered something, and the'
      f' order was canceled. Order the same again, {_DEFAULT}.',
      picks.order_rows(picks.default_address(stores), _STANDARD, bought),
      *picks.open_order(order),
      click_on('button', 'Reorder'),
      *picks.check_out(sum(count for *_, count in bought), _STANDARD),
  )


def _refill(stores: Stores, k: int) -> Task:
  order, bought = picks.nth(
      (
          (order, bought)
          for order in picks.orders(stores, "o.status = 'complete'")
          for bought in [_products_of(stores, order)]
          if bought and len(bought) > 1 and bought[0][0]['quantity'] > 6
      ),
      k,
  )
  (first, chosen, _), *others = bought
  count = 4 + k % 3
  label = f'Qty of {first["name"]}'
  return _change(
      f'Fill my cart with what order {order["id"]:09d} had, in the same'
      f' quantities, but with {count} pieces of the {first["name"]}. Do not'
      ' order yet.',
      (
          picks.cart_row(first['id'], chosen, count),
          *(
              picks.cart_row(product['id'], options, quantity)
              for product, options, quantity in others
          ),
      ),
      *picks.open_order(order),
      click_on('button', 'Reorder'),
      fill(f'{label} ({chosen})' if chosen else label, str(count)),
      click_on('button', 'Update Shopping Cart'),
  )


def _all_but_one(stores: Stores, k: int) -> Task:
  order, bought = picks.nth(
      (
          (order, bought)
          for order in picks.orders(stores, 'o.created_at < ?', '2022-12')
          for bought in [_products_of(stores, order)]
          if bought and len(bought) > 1
      ),
      2 * k,
  )
  *others, (last, chosen, _) = bought
  label = f'Remove {last["name"]}'
  return _change(
      f'Put all products of my order {order["id"]:09d} into the cart, as many'
      f' of each as then, without the {last["name"]}.',
      tuple(
          picks.cart_row(product['id'], options, quantity)
          for product, options, quantity in others
      ),
      *picks.open_order(order),
      click_on('button', 'Reorder'),
      click_on('button', f'{label} ({chosen})' if chosen else label),
  )


TEMPLATES = (
    Template('shop/best_within', CHANGE, _best_within, 5, (172,)),
    Template('shop/best_reviewed', CHANGE, _best_reviewed, 5, (216,)),
    Template('shop/buy_cheapest', CHANGE, _cheapest, 5),
    Template('shop/express', CHANGE, _express, 5),
    Template('shop/with_coupon', CHANGE, _with_coupon, 5),
    Template('shop/canceled_again', CHANGE, _canceled_again, 5, (156,)),
    Template('shop/refill', CHANGE, _refill, 5),
    Template('shop/all_but_one', CHANGE, _all_but_one, 5),
)
