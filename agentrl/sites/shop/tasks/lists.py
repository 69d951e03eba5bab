"""Tasks that change the wish list, the cart, the comparison, or reviews."""

import sqlite3

from agentrl.sites import picking as pick, seed_data, task as t
from agentrl.sites.goals import Row, added, changed, removed
from agentrl.sites.shop.seed.orders import USER
from agentrl.sites.shop.tasks import paths
from agentrl.sites.shop.tasks.paths import change

_VALUES = seed_data.read(__file__)


def _page(product: sqlite3.Row) -> str:
  return f'{product["slug"]}.html'


def _wish(product: sqlite3.Row) -> Row:
  return added(
      'shop.wishlist_items', customer_id=USER, product_id=product['id']
  )


def _unlisted(db: t.Db, where: str = '1'):
  """Products that are not on the user's wish list."""
  return paths.products(
      db,
      'p.id NOT IN (SELECT product_id FROM wishlist_items WHERE customer_id ='
      f' {USER}) AND {where}',
  )


def _wish_this(db: t.Db, k: int) -> t.Task:
  product = _unlisted(db)[3 * k]
  return change(
      f'Put the product of this page, the {product["name"]}, on my wish list.',
      _wish(product),
      t.button('Add to Wish List'),
      start=_page(product),
  )


def _wish_named(db: t.Db, k: int) -> t.Task:
  product = _unlisted(db)[200 + 17 * k]
  return change(
      f'Find the {product["name"]} and add it to my wish list.',
      _wish(product),
      *paths.open_product(product['name']),
      t.button('Add to Wish List'),
  )


def _wish_cheapest(db: t.Db, k: int) -> t.Task:
  def candidates():
    listed = {row['id'] for row in _unlisted(db)}
    for kind in paths.kinds(db, 53):
      cheapest = paths.cheapest(paths.of_kind(db, kind))
      if cheapest is not None and cheapest['id'] in listed:
        yield kind, cheapest

  kind, product = pick.kth(candidates(), k)
  return change(
      'I would like to have a bargain: add the cheapest of all products called'
      f' "{kind}" to my wish list.',
      _wish(product),
      paths.search(kind.lower()),
      t.choose('Sort By', 'Price'),
      t.link(product['name']),
      t.button('Add to Wish List'),
  )


def _listed(db: t.Db, *, dressed: bool):
  return db.rows(
      'SELECT p.*, i.id AS item_id FROM wishlist_items i JOIN products p ON'
      f' p.id = i.product_id WHERE i.customer_id = {USER} AND p.enabled AND'
      ' EXISTS (SELECT 1 FROM options o WHERE o.product_id = p.id) = ?'
      ' ORDER BY i.id',
      dressed,
  )


def _unwish(db: t.Db, k: int) -> t.Task:
  product = _listed(db, dressed=True)[k]
  return change(
      f'I do not want the {product["name"]} any more: take it off my wish'
      ' list.',
      removed('shop.wishlist_items', product['item_id']),
      t.link('My Account'),
      t.link('Wish List'),
      t.button(f'Remove {product["name"]}'),
  )


def _wish_to_cart(db: t.Db, k: int) -> t.Task:
  product = _listed(db, dressed=False)[k]
  return change(
      f'Move the {product["name"]} from my wish list into the cart.',
      (
          removed('shop.wishlist_items', product['item_id']),
          paths.cart_row(product['id']),
      ),
      t.link('My Account'),
      t.link('Wish List'),
      t.button(f'Add {product["name"]} to Cart'),
  )


def _dressed(db: t.Db):
  """Products in stock with options."""
  return [
      row for row in paths.products(db, 'p.quantity > 10') if row['has_options']
  ]


def _cart_this(db: t.Db, k: int) -> t.Task:
  product = paths.plain(db)[5 * k]
  return change(
      f'Put one piece of the product shown here, the {product["name"]}, into my'
      ' cart.',
      paths.cart_row(product['id']),
      t.button('Add to Cart'),
      start=_page(product),
  )


def _cart_named(db: t.Db, k: int) -> t.Task:
  product = _dressed(db)[31 * k + 2]
  chosen, count = paths.options(db, product['id'], k), 2 + k % 3
  return change(
      f'Put {count} pieces of the {product["name"]}'
      f'{paths.with_options(chosen)} into the cart.',
      paths.cart_row(product['id'], paths.said(chosen), count),
      *paths.open_product(product['name']),
      *paths.add_to_cart(chosen, count),
  )


def _two_in_cart(db: t.Db, k: int) -> t.Task:
  first, second = paths.plain(db)[40 * k + 7], paths.plain(db)[40 * k + 8]
  return change(
      f'Into my cart, please: one {first["name"]} and 3 pieces of the'
      f' {second["name"]}.',
      (paths.cart_row(first['id']), paths.cart_row(second['id'], '', 3)),
      *paths.open_product(first['name']),
      *paths.add_to_cart(()),
      *paths.open_product(second['name']),
      *paths.add_to_cart((), 3),
  )


def _per_piece(db: t.Db, k: int) -> t.Task:
  kind = _VALUES['packs'][k]
  every = paths.plain(db, 'p.kind = ?', kind)
  per_piece = lambda row: row['price_cents'] / paths.measure(
      db, row['id'], 'Pack'
  )
  ordered = sorted(every[:3], key=per_piece)
  assert per_piece(ordered[0]) < per_piece(ordered[1])
  # Now in the first tab, now in the second or third.
  tabs = sorted(every[:3], key=lambda row: row['id'])
  place = tabs.index(ordered[0])
  return change(
      f'My tabs show three packs of the kind "{kind}". Add the one that costs'
      ' least for each piece in it to the cart, once.',
      paths.cart_row(ordered[0]['id']),
      *((t.tab(place),) if place else ()),
      *paths.add_to_cart(()),
      start=[_page(row) for row in tabs],
  )


def _coupon(db: t.Db, k: int) -> t.Task:
  code = ('SUMMER23', 'WELCOME10', 'FIVEOFF', 'SORRY12', 'SUMMER23')[k]
  product = paths.plain(db)[45 * k + 21]
  cart = db.value('SELECT id FROM carts WHERE customer_id = ?', USER)
  return change(
      f'Put one {product["name"]} into the cart and apply the coupon code'
      f' {code} there. Do not order yet.',
      (paths.cart_row(product['id']), changed('shop.carts', cart, coupon=code)),
      *paths.open_product(product['name']),
      *paths.add_to_cart(()),
      t.link('My Cart (1 items)'),
      t.fill('Discount code', code),
      t.button('Apply Discount'),
  )


def _compare(db: t.Db, k: int) -> t.Task:
  kind = pick.kth(paths.kinds(db, 59), k)
  first, second = paths.of_kind(db, kind)[:2]
  steps = []
  for product in (first, second):
    steps += [*paths.open_product(product['name']), t.button('Add to Compare')]
  return change(
      f'I cannot decide between the {first["name"]} and the {second["name"]}.'
      ' Put both into the comparison.',
      tuple(
          added(
              'shop.compare_items', customer_id=USER, product_id=product['id']
          )
          for product in (first, second)
      ),
      *steps,
      t.link('Compare Products (2 items)'),
  )


def _review(db: t.Db, k: int) -> t.Task:
  item = pick.kth((x for x in paths.one_item(db, 11) if x['enabled']), k)
  stars, nickname, title, text = _VALUES['opinions'][k]
  return change(
      f'Review the {item["kind"].lower()} that I ordered in'
      f' {paths.month(item["created_at"])}: {stars}'
      f' {"star" if stars == 1 else "stars"}, nickname "{nickname}", summary'
      f' "{title}", and as review "{text}"',
      added(
          'shop.reviews',
          product_id=item['product_id'],
          customer_id=USER,
          stars=stars,
          nickname=nickname,
          title=title,
          text=text,
          status='pending',
      ),
      *paths.open_order(paths.orders(db, 'o.id = ?', item['order_id'])[0]),
      t.link(item['name']),
      t.click_on('radio', '1 star' if stars == 1 else f'{stars} stars'),
      t.fill('Nickname', nickname),
      t.fill('Summary', title),
      t.fill('Review', text),
      t.button('Submit Review'),
  )


TEMPLATES = (
    t.Template('shop/wish_this', t.CHANGE, _wish_this, 40, (196,)),
    t.Template('shop/wish_named', t.CHANGE, _wish_named, 5, (186,)),
    t.Template('shop/wish_cheapest', t.CHANGE, _wish_cheapest, 5, (189,)),
    t.Template('shop/unwish', t.CHANGE, _unwish, 5),
    t.Template('shop/wish_to_cart', t.CHANGE, _wish_to_cart, 5),
    t.Template('shop/cart_this', t.CHANGE, _cart_this, 40),
    t.Template('shop/cart_named', t.CHANGE, _cart_named, 5),
    t.Template('shop/two_in_cart', t.CHANGE, _two_in_cart, 5),
    t.Template('shop/per_piece', t.CHANGE, _per_piece, 5, (145,)),
    t.Template('shop/coupon', t.CHANGE, _coupon, 5),
    t.Template('shop/compare', t.CHANGE, _compare, 5),
    t.Template('shop/review', t.CHANGE, _review, 5, (194,)),
)
