"""Tasks that end on a page: categories, searches, sorted lists, products."""

import urllib.parse

from agentrl.sites.goals import Goal
from agentrl.sites.shop.seed.orders import STATUS
from agentrl.sites.shop.tasks import picks
from agentrl.sites.task import (
    GO,
    Step,
    Stores,
    Task,
    Template,
    choose,
    click_on,
    fill,
    stop,
)

_DIRECTIONS = {'asc': 'cheapest first', 'desc': 'most expensive first'}


def _go(intent: str, path: str, *steps: Step) -> Task:
  return Task(
      intent=intent,
      goal=Goal(url=f'http://shop{path}'),
      steps=(*steps, stop()),
      start=(picks.HOME,),
  )


def _browse(stores: Stores, k: int) -> Task:
  row = picks.nth(picks.leaves(stores), k)
  return _go(
      f'Show me the products of the category "{row["name"]}".',
      f'/{row["path"]}.html',
      *picks.open_leaf(row),
  )


def _search(stores: Stores, k: int) -> Task:
  words = picks.nth(picks.kinds(stores, 3), k).lower()
  return _go(
      f'Search the shop for "{words}".',
      f'/catalogsearch/result?{urllib.parse.urlencode({"q": words})}',
      picks.search(words),
  )


def _sort(direction: str) -> tuple[Step, ...]:
  steps: tuple[Step, ...] = (choose('Sort By', 'Price'),)
  if direction == 'desc':
    steps += (click_on('link', 'Set Descending Direction'),)
  return steps


def _sorted_category(stores: Stores, k: int) -> Task:
  row = picks.nth(picks.leaves(stores, 5), k)
  direction = list(_DIRECTIONS)[k % 2]
  return _go(
      f'List the products of the category "{row["name"]}" sorted by price,'
      f' {_DIRECTIONS[direction]}.',
      f'/{row["path"]}.html?order=price&dir={direction}',
      *picks.open_leaf(row),
      *_sort(direction),
  )


def _sorted_search(stores: Stores, k: int) -> Task:
  words = picks.nth(picks.kinds(stores, 7), k).lower()
  direction = list(_DIRECTIONS)[(k + 1) % 2]
  query = urllib.parse.urlencode(
      {'q': words, 'order': 'price', 'dir': direction}
  )
  return _go(
      f'Search for "{words}" and have the results sorted by price,'
      f' {_DIRECTIONS[direction]}.',
      f'/catalogsearch/result?{query}',
      picks.search(words),
      *_sort(direction),
  )


def _up_to(stores: Stores, k: int) -> Task:
  row = picks.nth(picks.leaves(stores, 13), k)
  prices = sorted(
      each['price_cents']
      for each in picks.products(stores, 'c.id = ?', row['id'])
  )
  most = prices[len(prices) // 3] // 500 * 5 + 5
  return _go(
      f'Show only those products of the category "{row["name"]}" whose price'
      f' is ${most} or less; set {most} as the highest price.',
      f'/{row["path"]}.html?price_to={most}',
      *picks.open_leaf(row),
      fill('Highest price', str(most), enter=True),
  )


def _by_brand(stores: Stores, k: int) -> Task:
  row = picks.nth(picks.leaves(stores, 19), k)
  brand = picks.products(stores, 'c.id = ?', row['id'])[k]['brand']
  query = urllib.parse.urlencode({'brand': brand})
  return _go(
      f'Filter the category "{row["name"]}" so that it shows the brand'
      f' {brand} alone.',
      f'/{row["path"]}.html?{query}',
      *picks.open_leaf(row),
      click_on('link', brand),
  )


def _dearest(stores: Stores, k: int) -> Task:
  def candidates():
    for row in picks.leaves(stores, 23):
      found = picks.only(
          picks.products(stores, 'c.id = ?', row['id']),
          lambda each: -each['price_cents'],
      )
      if found is not None:
        yield row, found

  row, product = picks.nth(candidates(), k)
  return _go(
      'For a market survey, open the page of the most expensive product in the'
      f' category "{row["name"]}".',
      f'/{product["slug"]}.html',
      *picks.open_leaf(row),
      *_sort('desc'),
      click_on('link', product['name']),
  )


def _latest_order(stores: Stores, k: int) -> Task:
  status = ('canceled', 'complete', 'processing', 'closed', 'on_hold')[k]
  order = picks.orders(stores, 'o.status = ?', status)[0]
  return _go(
      'Open the details of my most recent order with the status'
      f' "{STATUS[status]}".',
      f'/sales/order/view/{order["id"]}',
      *picks.open_order(order),
  )


def _measured(stores: Stores, kind: str, low: int) -> list:
  """Products of a kind with at least this measure, as `(measure, row)`."""
  found = []
  for row in picks.products(stores, 'p.kind = ?', kind):
    measure = picks.value(
        stores,
        'SELECT CAST(value AS INTEGER) FROM attributes WHERE product_id = ?'
        " AND name = 'Capacity'",
        row['id'],
    )
    if measure >= low:
      found.append((measure, row))
  return found


def _card_case(stores: Stores, k: int) -> Task:
  need = (7, 11, 14, 21, 27)[k]
  found = _measured(stores, 'Game Card Case', need)
  fitting = picks.only(found, lambda x: (x[0], x[1]['price_cents']))
  assert fitting is not None  # the records have no such tie
  _, product = fitting
  return _go(
      f'I own {need} game cards. Open the page of the game card case with the'
      ' smallest capacity that still holds all of them; if several have that'
      ' capacity, take the cheapest of these.',
      f'/{product["slug"]}.html',
      picks.search('game card case'),
      *_sort('asc'),
      *_page_of(stores, product),
      click_on('link', product['name']),
  )


def _page_of(stores: Stores, product) -> tuple[Step, ...]:
  """Steps from the first page of a kind, cheapest first, to a product's."""
  before = sum(
      row['price_cents'] < product['price_cents']
      for row in picks.products(stores, 'p.kind = ?', product['kind'])
  )
  return (click_on('link', 'Next'),) * (before // 20)


def _shoe_rack(stores: Stores, k: int) -> Task:
  kind = ('Shoe Rack', 'Shoe Cabinet')[k % 2]
  need = (9, 13, 17, 21, 26)[k]
  found = _measured(stores, kind, need)
  fitting = picks.only(found, lambda x: x[1]['price_cents'])
  assert fitting is not None  # the records have no such tie
  _, product = fitting
  return _go(
      f'Show me the cheapest {kind.lower()} that has room for at least {need}'
      ' pairs, on its own page.',
      f'/{product["slug"]}.html',
      picks.search(kind.lower()),
      *_sort('asc'),
      *_page_of(stores, product),
      click_on('link', product['name']),
  )


def _model_year(stores: Stores, k: int) -> Task:
  def candidates():
    for kind in ('Racing Wheel', 'Wireless Controller', 'Fight Stick'):
      of_year: dict[str, list] = {}
      for row in picks.products(stores, 'p.kind = ?', kind):
        year = picks.value(
            stores,
            'SELECT value FROM attributes WHERE product_id = ? AND name ='
            " 'Model Year'",
            row['id'],
        )
        of_year.setdefault(year, []).append(row)
      for year in sorted(of_year, reverse=True):
        product = picks.only(of_year[year], lambda row: row['price_cents'])
        if len(of_year[year]) > 1 and product is not None:
          yield kind.lower(), year, product

  kind, year, product = picks.nth(candidates(), 2 * k)
  return _go(
      f'Find the cheapest {kind} of model year {year} (the facts of a product'
      ' name its model year) and open its page.',
      f'/{product["slug"]}.html',
      picks.search(kind),
      *_sort('asc'),
      click_on('link', product['name']),
  )


def _for_a_use(stores: Stores, k: int) -> Task:
  def candidates():
    for kind in picks.kinds(stores, 11):
      uses: dict[str, list] = {}
      for row in picks.products(stores, 'p.kind = ?', kind):
        use = row['description'].partition('Recommended for ')[2]
        uses.setdefault(use.partition('.')[0], []).append(row)
      for use, found in sorted(uses.items()):
        product = picks.only(found, lambda row: row['price_cents'])
        if len(found) > 1 and product is not None:
          yield kind, use, product
          break

  kind, use, product = picks.nth(candidates(), k)
  return _go(
      f'I need something for {use}. Among the products called "{kind}", open'
      ' the page of the cheapest one whose description recommends it for'
      ' this.',
      f'/{product["slug"]}.html',
      click_on('link', 'Advanced Search'),
      fill('Product Name', kind),
      fill('Description', use),
      click_on('button', 'Search catalog'),
      *_sort('asc'),
      click_on('link', product['name']),
  )


TEMPLATES = (
    Template('shop/browse', GO, _browse, 40, (211,)),
    Template('shop/search', GO, _search, 40, (212,)),
    Template('shop/sorted_category', GO, _sorted_category, 5, (137,)),
    Template('shop/sorted_search', GO, _sorted_search, 5, (208,)),
    Template('shop/up_to_price', GO, _up_to, 5, (139,)),
    Template('shop/by_brand', GO, _by_brand, 5),
    Template('shop/dearest', GO, _dearest, 5, (138,)),
    Template('shop/latest_order', GO, _latest_order, 5, (180,)),
    Template('shop/card_case', GO, _card_case, 5, (171,)),
    Template('shop/shoe_rack', GO, _shoe_rack, 5, (207,)),
    Template('shop/model_year', GO, _model_year, 5, (210,)),
    Template('shop/for_a_use', GO, _for_a_use, 5, (151,)),
)
