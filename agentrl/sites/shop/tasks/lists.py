"""Tasks that change the wish list, the cart, the comparison, or reviews."""

from agentrl.sites.goals import ADDED, CHANGED, REMOVED, Goal, Row
from agentrl.sites.shop.seed.orders import USER
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
    tab,
)


def _change(
    intent: str, rows: tuple[Row, ...], *steps: Step, start=(picks.HOME,)
) -> Task:
  return Task(
      intent=intent,
      goal=Goal(rows=rows),
      steps=(*steps, stop()),
      start=start,
  )


def _page(product) -> tuple[str, ...]:
  return (f'http://shop/{product["slug"]}.html',)


def _wish(product) -> Row:
  return Row(
      'shop.wishlist_items',
      ADDED,
      {'customer_id': USER, 'product_id': product['id']},
  )


def _unlisted(stores: Stores, where: str = '1'):
  """Products that are not on the user's wish list."""
  return picks.products(
      stores,
      'p.id NOT IN (SELECT product_id FROM wishlist_items WHERE customer_id ='
      f' {USER}) AND {where}',
  )


def _wish_this(stores: Stores, k: int) -> Task:
  product = _unlisted(stores)[3 * k]
  return _change(
      f'Put the product of this page, the {product["name"]}, on my wish list.',
      (_wish(product),),
      click_on('button', 'Add to Wish List'),
      start=_page(product),
  )


def _wish_named(stores: Stores, k: int) -> Task:
  product = _unlisted(stores)[200 + 17 * k]
  return _change(
      f'Find the {product["name"]} and add it to my wish list.',
      (_wish(product),),
      *picks.open_product(product['name']),
      click_on('button', 'Add to Wish List'),
  )


def _wish_cheapest(stores: Stores, k: int) -> Task:
  def candidates():
    listed = {row['id'] for row in _unlisted(stores)}
    for kind in picks.kinds(stores, 53):
      found = picks.only(
          picks.products(stores, 'p.kind = ?', kind),
          lambda row: row['price_cents'],
      )
      if found is not None and found['id'] in listed:
        yield kind, found

  kind, product = picks.nth(candidates(), k)
  return _change(
      'I would like to have a bargain: add the cheapest of all products called'
      f' "{kind}" to my wish list.',
      (_wish(product),),
      picks.search(kind.lower()),
      choose('Sort By', 'Price'),
      click_on('link', product['name']),
      click_on('button', 'Add to Wish List'),
  )


def _listed(stores: Stores, *, dressed: bool):
  return picks.rows(
      stores,
      'SELECT p.*, i.id AS item_id FROM wishlist_items i JOIN products p ON'
      f' p.id = i.product_id WHERE i.customer_id = {USER} AND p.enabled AND'
      ' EXISTS (SELECT 1 FROM options o WHERE o.product_id = p.id) = ?'
      ' ORDER BY i.id',
      dressed,
  )


def _unwish(stores: Stores, k: int) -> Task:
  product = _listed(stores, dressed=True)[k]
  return _change(
      f'I do not want the {product["name"]} any more: take it off my wish'
      ' list.',
      (Row('shop.wishlist_items', REMOVED, key=product['item_id']),),
      click_on('link', 'My Account'),
      click_on('link', 'Wish List'),
      click_on('button', f'Remove {product["name"]}'),
  )


def _wish_to_cart(stores: Stores, k: int) -> Task:
  product = _listed(stores, dressed=False)[k]
  return _change(
      f'Move the {product["name"]} from my wish list into the cart.',
      (
          Row('shop.wishlist_items', REMOVED, key=product['item_id']),
          picks.cart_row(product['id']),
      ),
      click_on('link', 'My Account'),
      click_on('link', 'Wish List'),
      click_on('button', f'Add {product["name"]} to Cart'),
  )


def _plain(stores: Stores, where: str = '1', *values):
  """Products in stock without options."""
  return [
      row
      for row in picks.products(stores, f'p.quantity > 10 AND {where}', *values)
      if not row['has_options']
  ]


def _dressed(stores: Stores):
  """Products in stock with options."""
  return [
      row
      for row in picks.products(stores, 'p.quantity > 10')
      if row['has_options']
  ]


def _cart_this(stores: Stores, k: int) -> Task:
  product = _plain(stores)[5 * k]
  return _change(
      f'Put one piece of the product shown here, the {product["name"]}, into my'
      ' cart.',
      (picks.cart_row(product['id']),),
      click_on('button', 'Add to Cart'),
      start=_page(product),
  )


def _cart_named(stores: Stores, k: int) -> Task:
  product = _dressed(stores)[31 * k + 2]
  chosen, count = picks.options(stores, product['id'], k), 2 + k % 3
  return _change(
      f'Put {count} pieces of the {product["name"]}'
      f'{picks.with_options(chosen)} into the cart.',
      (picks.cart_row(product['id'], picks.said(chosen), count),),
      *picks.open_product(product['name']),
      *picks.add_to_cart(chosen, count),
  )


def _two_in_cart(stores: Stores, k: int) -> Task:
  first, second = _plain(stores)[40 * k + 7], _plain(stores)[40 * k + 8]
  return _change(
      f'Into my cart, please: one {first["name"]} and 3 pieces of the'
      f' {second["name"]}.',
      (picks.cart_row(first['id']), picks.cart_row(second['id'], '', 3)),
      *picks.open_product(first['name']),
      *picks.add_to_cart(()),
      *picks.open_product(second['name']),
      *picks.add_to_cart((), 3),
  )


def _per_piece(stores: Stores, k: int) -> Task:
  kind = ('Protein Bar', 'Toothpaste', 'Brownie Mix', 'Green Tea',
          'Potato Chips')[k]  # fmt: skip
  every = _plain(stores, 'p.kind = ?', kind)
  packs = {
      row['id']: picks.value(
          stores,
          'SELECT CAST(value AS INTEGER) FROM attributes WHERE product_id = ?'
          " AND name = 'Pack'",
          row['id'],
      )
      for row in every
  }
  per_piece = lambda row: row['price_cents'] / packs[row['id']]
  ordered = sorted(every[:3], key=per_piece)
  assert per_piece(ordered[0]) < per_piece(ordered[1])
  # Now in the first tab, now in the second or third.
  tabs = sorted(every[:3], key=lambda row: row['id'])
  place = tabs.index(ordered[0])
  return _change(
      f'My tabs show three packs of the kind "{kind}". Add the one that costs'
      ' least for each piece in it to the cart, once.',
      (picks.cart_row(ordered[0]['id']),),
      *((tab(place),) if place else ()),
      *picks.add_to_cart(()),
      start=tuple(_page(row)[0] for row in tabs),
  )


def _coupon(stores: Stores, k: int) -> Task:
  code = ('SUMMER23', 'WELCOME10', 'FIVEOFF', 'SORRY12', 'SUMMER23')[k]
  product = _plain(stores)[45 * k + 21]
  cart = picks.value(stores, 'SELECT id FROM carts WHERE customer_id = ?', USER)
  return _change(
      f'Put one {product["name"]} into the cart and apply the coupon code'
      f' {code} there. Do not order yet.',
      (
          picks.cart_row(product['id']),
          Row('shop.carts', CHANGED, {'coupon': code}, key=cart),
      ),
      *picks.open_product(product['name']),
      *picks.add_to_cart(()),
      click_on('link', 'My Cart (1 items)'),
      fill('Discount code', code),
      click_on('button', 'Apply Discount'),
  )


def _compare(stores: Stores, k: int) -> Task:
  kind = picks.nth(picks.kinds(stores, 59), k)
  first, second = picks.products(stores, 'p.kind = ?', kind)[:2]
  steps = []
  for product in (first, second):
    steps += [
        *picks.open_product(product['name']),
        click_on('button', 'Add to Compare'),
    ]
  return _change(
      f'I cannot decide between the {first["name"]} and the {second["name"]}.'
      ' Put both into the comparison.',
      tuple(
          Row(
              'shop.compare_items',
              ADDED,
              {'customer_id': USER, 'product_id': product['id']},
          )
          for product in (first, second)
      ),
      *steps,
      click_on('link', 'Compare Products (2 items)'),
  )


_OPINIONS = (
    (5, 'EllaB', 'A treat', 'I would buy it again at once.'),
    (2, 'Miss Brandt', 'Not for me', 'It did not keep what it promised.'),
    (4, 'ella_shops', 'Good, not great', 'Sturdy, but I expected more.'),
    (3, 'EB from Boise', 'So so', 'It works, though I rarely use it.'),
    (1, 'Cross Ella', 'Broken on day one', 'It came to me in two pieces.'),
)


def _review(stores: Stores, k: int) -> Task:
  item = picks.nth((x for x in picks.one_item(stores, 11) if x['enabled']), k)
  stars, nickname, title, text = _OPINIONS[k]
  return _change(
      f'Review the {item["kind"].lower()} that I ordered in'
      f' {picks.month(item["created_at"])}: {stars}'
      f' {"star" if stars == 1 else "stars"}, nickname "{nickname}", summary'
      f' "{title}", and as review "{text}"',
      (
          Row(
              'shop.reviews',
              ADDED,
              {
                  'product_id': item['product_id'],
                  'customer_id': USER,
                  'stars': stars,
                  'nickname': nickname,
                  'title': title,
                  'text': text,
                  'status': 'pending',
              },
          ),
      ),
      *picks.open_order(picks.orders(stores, 'o.id = ?', item['order_id'])[0]),
      click_on('link', item['name']),
      click_on('radio', '1 star' if stars == 1 else f'{stars} stars'),
      fill('Nickname', nickname),
      fill('Summary', title),
      fill('Review', text),
      click_on('button', 'Submit Review'),
  )


TEMPLATES = (
    Template('shop/wish_this', CHANGE, _wish_this, 40, (196,)),
    Template('shop/wish_named', CHANGE, _wish_named, 5, (186,)),
    Template('shop/wish_cheapest', CHANGE, _wish_cheapest, 5, (189,)),
    Template('shop/unwish', CHANGE, _unwish, 5),
    Template('shop/wish_to_cart', CHANGE, _wish_to_cart, 5),
    Template('shop/cart_this', CHANGE, _cart_this, 40),
    Template('shop/cart_named', CHANGE, _cart_named, 5),
    Template('shop/two_in_cart', CHANGE, _two_in_cart, 5),
    Template('shop/per_piece', CHANGE, _per_piece, 5, (145,)),
    Template('shop/coupon', CHANGE, _coupon, 5),
    Template('shop/compare', CHANGE, _compare, 5),
    Template('shop/review', CHANGE, _review, 5, (194,)),
)
