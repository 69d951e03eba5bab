"""Tasks that end on a page: categories, searches, sorted lists, products."""

import sqlite3
import urllib.parse

from agentrl.sites import picking as pick, task as t
from agentrl.sites.shop.seed.orders import STATUS
from agentrl.sites.shop.tasks import paths
from agentrl.sites.shop.tasks.paths import go

_DIRECTIONS = {'asc': 'cheapest first', 'desc': 'most expensive first'}


def _browse(db: t.Db, k: int) -> t.Task:
  row = pick.kth(paths.leaves(db), k)
  return go(
      f'Show me the products of the category "{row["name"]}".',
      f'{row["path"]}.html',
      *paths.open_leaf(row),
  )


def _search(db: t.Db, k: int) -> t.Task:
  words = pick.kth(paths.kinds(db, 3), k).lower()
  return go(
      f'Search the shop for "{words}".',
      f'catalogsearch/result?{urllib.parse.urlencode({"q": words})}',
      paths.search(words),
  )


def _sort(direction: str) -> tuple[t.Step, ...]:
  steps: tuple[t.Step, ...] = (t.choose('Sort By', 'Price'),)
  if direction == 'desc':
    steps += (t.link('Set Descending Direction'),)
  return steps


def _sorted_category(db: t.Db, k: int) -> t.Task:
  row = pick.kth(paths.leaves(db, 5), k)
  direction = list(_DIRECTIONS)[k % 2]
  return go(
      f'List the products of the category "{row["name"]}" sorted by price,'
      f' {_DIRECTIONS[direction]}.',
      f'{row["path"]}.html?order=price&dir={direction}',
      *paths.open_leaf(row),
      *_sort(direction),
  )


def _sorted_search(db: t.Db, k: int) -> t.Task:
  words = pick.kth(paths.kinds(db, 7), k).lower()
  direction = list(_DIRECTIONS)[(k + 1) % 2]
  query = urllib.parse.urlencode(
      {'q': words, 'order': 'price', 'dir': direction}
  )
  return go(
      f'Search for "{words}" and have the results sorted by price,'
      f' {_DIRECTIONS[direction]}.',
      f'catalogsearch/result?{query}',
      paths.search(words),
      *_sort(direction),
  )


def _up_to(db: t.Db, k: int) -> t.Task:
  row = pick.kth(paths.leaves(db, 13), k)
  prices = sorted(
      each['price_cents'] for each in paths.of_category(db, row['id'])
  )
  most = prices[len(prices) // 3] // 500 * 5 + 5
  return go(
      f'Show only those products of the category "{row["name"]}" whose price'
      f' is ${most} or less; set {most} as the highest price.',
      f'{row["path"]}.html?price_to={most}',
      *paths.open_leaf(row),
      t.fill('Highest price', str(most), enter=True),
  )


def _by_brand(db: t.Db, k: int) -> t.Task:
  row = pick.kth(paths.leaves(db, 19), k)
  brand = paths.of_category(db, row['id'])[k]['brand']
  query = urllib.parse.urlencode({'brand': brand})
  return go(
      f'Filter the category "{row["name"]}" so that it shows the brand'
      f' {brand} alone.',
      f'{row["path"]}.html?{query}',
      *paths.open_leaf(row),
      t.link(brand),
  )


def _dearest(db: t.Db, k: int) -> t.Task:
  def candidates():
    for row in paths.leaves(db, 23):
      dearest = paths.only(
          paths.of_category(db, row['id']), lambda each: -each['price_cents']
      )
      if dearest is not None:
        yield row, dearest

  row, product = pick.kth(candidates(), k)
  return go(
      'For a market survey, open the page of the most expensive product in the'
      f' category "{row["name"]}".',
      f'{product["slug"]}.html',
      *paths.open_leaf(row),
      *_sort('desc'),
      t.link(product['name']),
  )


def _latest_order(db: t.Db, k: int) -> t.Task:
  status = ('canceled', 'complete', 'processing', 'closed', 'on_hold')[k]
  order = paths.orders(db, 'o.status = ?', status)[0]
  return go(
      'Open the details of my most recent order with the status'
      f' "{STATUS[status]}".',
      f'sales/order/view/{order["id"]}',
      *paths.open_order(order),
  )


def _measured(db: t.Db, kind: str, low: int) -> list:
  """Products of a kind with at least this measure, as `(measure, row)`."""
  pairs = []
  for row in paths.of_kind(db, kind):
    measure = paths.measure(db, row['id'], 'Capacity')
    if measure >= low:
      pairs.append((measure, row))
  return pairs


def _card_case(db: t.Db, k: int) -> t.Task:
  need = (7, 11, 14, 21, 27)[k]
  pairs = _measured(db, 'Game Card Case', need)
  fitting = paths.only(pairs, lambda x: (x[0], x[1]['price_cents']))
  assert fitting is not None  # the records have no such tie
  _, product = fitting
  return go(
      f'I own {need} game cards. Open the page of the game card case with the'
      ' smallest capacity that still holds all of them; if several have that'
      ' capacity, take the cheapest of these.',
      f'{product["slug"]}.html',
      paths.search('game card case'),
      *_sort('asc'),
      *_page_of(db, product),
      t.link(product['name']),
  )


def _page_of(db: t.Db, product: sqlite3.Row) -> tuple[t.Step, ...]:
  """Steps from the first page of a kind, cheapest first, to a product's."""
  before = sum(
      row['price_cents'] < product['price_cents']
      for row in paths.of_kind(db, product['kind'])
  )
  return (t.link('Next'),) * (before // 20)


def _shoe_rack(db: t.Db, k: int) -> t.Task:
  kind = ('Shoe Rack', 'Shoe Cabinet')[k % 2]
  need = (9, 13, 17, 21, 26)[k]
  pairs = _measured(db, kind, need)
  fitting = paths.only(pairs, lambda x: x[1]['price_cents'])
  assert fitting is not None  # the records have no such tie
  _, product = fitting
  return go(
      f'Show me the cheapest {kind.lower()} that has room for at least {need}'
      ' pairs, on its own page.',
      f'{product["slug"]}.html',
      paths.search(kind.lower()),
      *_sort('asc'),
      *_page_of(db, product),
      t.link(product['name']),
  )


def _model_year(db: t.Db, k: int) -> t.Task:
  def candidates():
    for kind in ('Racing Wheel', 'Wireless Controller', 'Fight Stick'):
      of_year = pick.grouped(
          paths.of_kind(db, kind),
          lambda row: paths.fact(db, row['id'], 'Model Year'),
      )
      for year in sorted(of_year, reverse=True):
        product = paths.cheapest(of_year[year])
        if len(of_year[year]) > 1 and product is not None:
          yield kind.lower(), year, product

  kind, year, product = pick.kth(candidates(), 2 * k)
  return go(
      f'Find the cheapest {kind} of model year {year} (the facts of a product'
      ' name its model year) and open its page.',
      f'{product["slug"]}.html',
      paths.search(kind),
      *_sort('asc'),
      t.link(product['name']),
  )


def _use(product: sqlite3.Row) -> str:
  """The use that a product's description recommends it for."""
  use = product['description'].partition('Recommended for ')[2]
  return use.partition('.')[0]


def _for_a_use(db: t.Db, k: int) -> t.Task:
  def candidates():
    for kind in paths.kinds(db, 11):
      uses = pick.grouped(paths.of_kind(db, kind), _use)
      for use, products in sorted(uses.items()):
        product = paths.cheapest(products)
        if len(products) > 1 and product is not None:
          yield kind, use, product
          break

  kind, use, product = pick.kth(candidates(), k)
  return go(
      f'I need something for {use}. Among the products called "{kind}", open'
      ' the page of the cheapest one whose description recommends it for'
      ' this.',
      f'{product["slug"]}.html',
      t.link('Advanced Search'),
      t.fill('Product Name', kind),
      t.fill('Description', use),
      t.button('Search catalog'),
      *_sort('asc'),
      t.link(product['name']),
  )


TEMPLATES = (
    t.Template('shop/browse', t.GO, _browse, 40, (211,)),
    t.Template('shop/search', t.GO, _search, 40, (212,)),
    t.Template('shop/sorted_category', t.GO, _sorted_category, 5, (137,)),
    t.Template('shop/sorted_search', t.GO, _sorted_search, 5, (208,)),
    t.Template('shop/up_to_price', t.GO, _up_to, 5, (139,)),
    t.Template('shop/by_brand', t.GO, _by_brand, 5),
    t.Template('shop/dearest', t.GO, _dearest, 5, (138,)),
    t.Template('shop/latest_order', t.GO, _latest_order, 5, (180,)),
    t.Template('shop/card_case', t.GO, _card_case, 5, (171,)),
    t.Template('shop/shoe_rack', t.GO, _shoe_rack, 5, (207,)),
    t.Template('shop/model_year', t.GO, _model_year, 5, (210,)),
    t.Template('shop/for_a_use', t.GO, _for_a_use, 5, (151,)),
)
