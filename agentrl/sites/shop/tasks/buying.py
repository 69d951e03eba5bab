"""Tasks that end with an order, or with a cart made from an earlier one."""

from agentrl.sites import picking as pick, seed_data, task as t
from agentrl.sites.shop.tasks import paths
from agentrl.sites.shop.tasks.paths import change

_VALUES = seed_data.read(__file__)
_STANDARD, _EXPRESS = 'Standard Delivery', 'Express Delivery'
_DEFAULT = f'with {_STANDARD} to my default address'


def _buy(db: t.Db, k: int, intent: str, product, *steps: t.Step) -> t.Task:
  """Buys one piece of a product to which steps lead."""
  chosen = paths.options(db, product['id'], k)
  wanted = f' Choose {paths.said(chosen)}.' if chosen else ''
  return change(
      f'{intent} Order one piece {_DEFAULT}.{wanted}',
      paths.order_rows(
          paths.default_address(db),
          _STANDARD,
          [(product, paths.said(chosen), 1)],
      ),
      *steps,
      t.link(product['name']),
      *paths.add_to_cart(chosen),
      *paths.check_out(1, _STANDARD),
  )


def _shown(row) -> float:
  """A product's rating as pages show it."""
  return round(row['stars'], 1)


def _best_within(db: t.Db, k: int) -> t.Task:
  def candidates():
    for category in paths.leaves(db, 31):
      every = paths.of_category(db, category['id'], rated=True)
      prices = sorted(row['price_cents'] for row in every)
      low = prices[len(prices) // 3] // 500 * 5
      high = prices[len(prices) * 4 // 5] // 500 * 5 + 5
      products = [
          row
          for row in every
          if low * 100 <= row['price_cents'] <= high * 100 and row['reviews']
      ]
      product = paths.only(products, lambda row: -_shown(row))
      if len(products) > 2 and product is not None and product['quantity']:
        before = sum(
            low * 100 <= row['price_cents'] <= high * 100
            and row['id'] < product['id']
            for row in every
        )
        yield category, low, high, product, before

  category, low, high, product, before = pick.kth(candidates(), k)
  return _buy(
      db,
      k,
      'Buy the product with the highest average rating in the category'
      f' "{category["name"]}" that costs from ${low} to ${high}.',
      product,
      *paths.open_leaf(category),
      t.fill('Lowest price', str(low)),
      t.fill('Highest price', str(high), enter=True),
      *(t.link('Next'),) * (before // 20),
  )


def _best_reviewed(db: t.Db, k: int) -> t.Task:
  def candidates():
    for kind in paths.kinds(db, 61):
      products = [
          row
          for row in paths.of_kind(db, kind, rated=True)
          if row['reviews'] >= 5
      ]
      product = paths.only(
          products, lambda row: (-_shown(row), row['price_cents'])
      )
      if len(products) > 2 and product is not None and product['quantity']:
        yield kind, product

  kind, product = pick.kth(candidates(), k)
  before = sum(row['id'] < product['id'] for row in paths.of_kind(db, kind))
  return _buy(
      db,
      k,
      f'Among the products called "{kind}" with at least 5 reviews, buy the'
      ' one with the highest average rating; if several have it, the cheapest'
      ' of them.',
      product,
      paths.search(kind.lower()),
      *(t.link('Next'),) * (before // 20),
  )


def _cheapest(db: t.Db, k: int) -> t.Task:
  def candidates():
    for category in paths.leaves(db, 37):
      products = paths.of_category(db, category['id'])
      product = paths.cheapest(products)
      if product is not None and product['quantity']:
        yield category, product

  category, product = pick.kth(candidates(), k)
  return _buy(
      db,
      k,
      f'Buy me whatever costs least in the category "{category["name"]}".',
      product,
      *paths.open_leaf(category),
      t.choose('Sort By', 'Price'),
  )


def _express(db: t.Db, k: int) -> t.Task:
  product = paths.plain(db)[23 * k + 11]
  address = paths.other_addresses(db)[k % 2]
  count = 1 + k % 3
  return change(
      f'Order {count} {"piece" if count == 1 else "pieces"} of the'
      f' {product["name"]} with {_EXPRESS} to my address in {address["city"]}.',
      paths.order_rows(address, _EXPRESS, [(product, '', count)]),
      *paths.open_product(product['name']),
      *paths.add_to_cart((), count),
      *paths.check_out(count, _EXPRESS, address),
  )


def _with_coupon(db: t.Db, k: int) -> t.Task:
  product = paths.plain(db, 'p.price_cents > 3000')[13 * k + 5]
  code, percent, cents = _VALUES['with_coupon'][k]
  return change(
      f'Buy one {product["name"]} with the coupon {code}. I will fetch it'
      ' myself (Store Pickup), so leave the default address.',
      paths.order_rows(
          paths.default_address(db),
          'Store Pickup',
          [(product, '', 1)],
          coupon=code,
          discount=cents or product['price_cents'] * percent // 100,
      ),
      *paths.open_product(product['name']),
      *paths.add_to_cart(()),
      t.link('My Cart (1 items)'),
      t.fill('Discount code', code),
      t.button('Apply Discount'),
      *paths.check_out(1, 'Store Pickup'),
  )


def _products_of(db: t.Db, order) -> list | None:
  """Products, options and quantities of an order; None: not all to be had."""
  products = []
  for item in paths.items(db, order['id']):
    if not item['enabled'] or item['stock'] < item['quantity']:
      return None
    product = db.first(
        'SELECT * FROM products WHERE id = ?', item['product_id']
    )
    products.append((product, item['options'], item['quantity']))
  return products


def _canceled_again(db: t.Db, k: int) -> t.Task:
  canceled = paths.orders(db, "o.status = 'canceled'")
  months = [paths.month(order['created_at']) for order in canceled]
  order, bought = pick.kth(
      (
          (order, bought)
          for order, month in zip(canceled, months, strict=True)
          for bought in [_products_of(db, order)]
          if bought and months.count(month) == 1
      ),
      k,
  )
  return change(
      f'In {paths.month(order["created_at"])} I ordered something, and the'
      f' order was canceled. Order the same again, {_DEFAULT}.',
      paths.order_rows(paths.default_address(db), _STANDARD, bought),
      *paths.open_order(order),
      t.button('Reorder'),
      *paths.check_out(sum(count for *_, count in bought), _STANDARD),
  )


def _refill(db: t.Db, k: int) -> t.Task:
  order, bought = pick.kth(
      (
          (order, bought)
          for order in paths.orders(db, "o.status = 'complete'")
          for bought in [_products_of(db, order)]
          if bought and len(bought) > 1 and bought[0][0]['quantity'] > 6
      ),
      k,
  )
  (first, chosen, _), *others = bought
  count = 4 + k % 3
  label = f'Qty of {first["name"]}'
  return change(
      f'Fill my cart with what order {order["id"]:09d} had, in the same'
      f' quantities, but with {count} pieces of the {first["name"]}. Do not'
      ' order yet.',
      (
          paths.cart_row(first['id'], chosen, count),
          *(
              paths.cart_row(product['id'], options, quantity)
              for product, options, quantity in others
          ),
      ),
      *paths.open_order(order),
      t.button('Reorder'),
      t.fill(f'{label} ({chosen})' if chosen else label, str(count)),
      t.button('Update Shopping Cart'),
  )


def _all_but_one(db: t.Db, k: int) -> t.Task:
  order, bought = pick.kth(
      (
          (order, bought)
          for order in paths.orders(db, 'o.created_at < ?', '2022-12')
          for bought in [_products_of(db, order)]
          if bought and len(bought) > 1
      ),
      2 * k,
  )
  *others, (last, chosen, _) = bought
  label = f'Remove {last["name"]}'
  return change(
      f'Put all products of my order {order["id"]:09d} into the cart, as many'
      f' of each as then, without the {last["name"]}.',
      tuple(
          paths.cart_row(product['id'], options, quantity)
          for product, options, quantity in others
      ),
      *paths.open_order(order),
      t.button('Reorder'),
      t.button(f'{label} ({chosen})' if chosen else label),
  )


TEMPLATES = (
    t.Template('shop/best_within', t.CHANGE, _best_within, 5, (172,)),
    t.Template('shop/best_reviewed', t.CHANGE, _best_reviewed, 5, (216,)),
    t.Template('shop/buy_cheapest', t.CHANGE, _cheapest, 5),
    t.Template('shop/express', t.CHANGE, _express, 5),
    t.Template('shop/with_coupon', t.CHANGE, _with_coupon, 5),
    t.Template('shop/canceled_again', t.CHANGE, _canceled_again, 5, (156,)),
    t.Template('shop/refill', t.CHANGE, _refill, 5),
    t.Template('shop/all_but_one', t.CHANGE, _all_but_one, 5),
)
