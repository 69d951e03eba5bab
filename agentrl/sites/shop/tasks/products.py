"""Questions about products, and about what reviews say of them."""

import itertools
import sqlite3
from collections.abc import Sequence

from agentrl.sites import picking as pick, seed_data, task as t
from agentrl.sites.answers import Money, Number, Several, Text
from agentrl.sites.shop.seed import reviews
from agentrl.sites.shop.seed.orders import USER
from agentrl.sites.shop.tasks import paths
from agentrl.sites.shop.tasks.paths import seek

_VALUES = seed_data.read(__file__)
_SEPARATED = 'separated by semicolons'


def _range(products: Sequence[sqlite3.Row]) -> Several:
  prices = [row['price_cents'] for row in products]
  return Several((Money(min(prices)), Money(max(prices))), ordered=True)


def _kind_range(db: t.Db, k: int) -> t.Task:
  kind = pick.kth(paths.kinds(db, 17), k)
  return seek(
      'What are the lowest and the highest price that this shop asks for a'
      f' product called "{kind}"? Answer with both, the lower one first,'
      ' separated by a semicolon.',
      _range(paths.of_kind(db, kind)),
      paths.search(kind.lower()),
      t.choose('Sort By', 'Price'),
      t.link('Set Descending Direction'),
  )


def _brand_range(db: t.Db, k: int) -> t.Task:
  category = pick.kth(paths.leaves(db, 29), k)
  here = paths.of_category(db, category['id'])
  brands = pick.grouped(here, lambda row: row['brand'])
  brand, products = pick.kth(
      (x for x in sorted(brands.items()) if len(x[1]) > 2), k % 3
  )
  return seek(
      f'Which range do the prices of {brand} have in the category'
      f' "{category["name"]}"? Answer with the lowest and the highest price,'
      ' separated by a semicolon.',
      _range(products),
      *paths.open_leaf(category),
      t.link(brand),
      t.choose('Sort By', 'Price'),
  )


def _brand_names(db: t.Db, k: int) -> t.Task:
  def candidates():
    for kind in paths.kinds(db, 31):
      brands = pick.grouped(paths.of_kind(db, kind), lambda x: x['brand'])
      for brand, rows in sorted(brands.items()):
        if 2 <= len(rows) <= 3:
          yield kind, brand, rows
          break

  kind, brand, products = pick.kth(candidates(), k)
  return seek(
      f'Give me the full names of all products called "{kind}" that are made'
      f' by {brand}, {_SEPARATED}.',
      Several(tuple(Text(row['name']) for row in products)),
      paths.search(f'{brand} {kind}'),
  )


def _cheapest(db: t.Db, k: int) -> t.Task:
  def candidates():
    for kind in paths.kinds(db, 41):
      cheapest = paths.cheapest(paths.of_kind(db, kind))
      if cheapest is not None:
        yield kind, cheapest

  kind, product = pick.kth(candidates(), k)
  return seek(
      f'What is the full name of the cheapest product called "{kind}"?',
      Text(product['name']),
      paths.search(kind.lower()),
      t.choose('Sort By', 'Price'),
  )


def _most_reduced(db: t.Db, k: int) -> t.Task:
  def candidates():
    for category in paths.leaves(db, 2):
      products = paths.products(
          db, 'c.id = ? AND p.list_cents IS NOT NULL', category['id']
      )
      saved = lambda row: row['price_cents'] - row['list_cents']
      product = paths.only(products, saved)
      if len(products) > 2 and product is not None:
        yield category, product

  category, product = pick.kth(candidates(), k)
  before = db.value(
      'SELECT count(*) FROM products WHERE category_id = ? AND id < ? AND'
      ' enabled',
      category['id'],
      product['id'],
  )
  return seek(
      'Look at the reduced products of the category'
      f' "{category["name"]}". Which one is reduced by the largest amount of'
      ' dollars, compared with its regular price? Give its full name.',
      Text(product['name']),
      *paths.open_leaf(category),
      *(t.link('Next'),) * (before // 20),
  )


def _rating(db: t.Db, k: int) -> t.Task:
  products = [
      row
      for row in paths.products(db, rated=True)
      if row['reviews'] > 4 and _clear(row['stars']) and row['stars'] % 1
  ]
  product = products[7 * k]
  return seek(
      f'What is the average rating of the {product["name"]}, as the shop shows'
      ' it? Answer with the number of stars to one decimal place.',
      Number(f'{product["stars"]:.1f}'),
      *paths.open_product(product['name']),
  )


def _clear(stars: float) -> bool:
  """True if an average has no doubt about its first decimal place."""
  return abs(stars * 10 % 1 - 0.5) > 0.01


def _summary(db: t.Db, k: int) -> t.Task:
  products = [
      row
      for row in paths.products(db, rated=True)
      if row['reviews'] > 5 and _clear(row['stars'])
  ]
  product = products[11 * k + 3]
  return seek(
      f'Sum up what buyers make of the {product["name"]}: how many reviews does'
      ' it have, and which average rating? Answer with the two numbers, the'
      ' average to one decimal place, separated by a semicolon.',
      Several(
          (
              Number(str(product['reviews']), 'reviews'),
              Number(f'{product["stars"]:.1f}'),
          ),
          ordered=True,
      ),
      *paths.open_product(product['name']),
  )


def _approved(db: t.Db, product_id: int) -> list[sqlite3.Row]:
  return db.rows(
      "SELECT * FROM reviews WHERE product_id = ? AND status = 'approved'"
      ' ORDER BY id',
      product_id,
  )


def _groups(db: t.Db, fits, column: str):
  """Products with 2 to 4 reviews that fit, whose column differs."""
  for product in paths.products(db, rated=True):
    if product['reviews'] < 3:
      continue
    every = _approved(db, product['id'])
    values = [row[column] for row in every if fits(row)]
    names = [row[column] for row in every]
    if (
        2 <= len(values) <= 4
        and len(values) < len(every)
        and all(names.count(name) == 1 for name in values)
    ):
      yield product, values


def _criticism(db: t.Db, k: int) -> t.Task:
  product, titles = pick.kth(
      _groups(db, lambda row: row['stars'] < 3, 'title'), 5 * k
  )
  return seek(
      f'What do critics say about this product, the {product["name"]}? Give the'
      f' titles of all reviews with one or two stars, {_SEPARATED}.',
      Several(tuple(Text(title) for title in titles)),
      start=f'{product["slug"]}.html',
  )


def _who_gave(db: t.Db, k: int) -> t.Task:
  least, most = ((4, 5), (1, 2), (5, 5), (2, 3), (3, 4))[k]
  product, names = pick.kth(
      _groups(db, lambda row: least <= row['stars'] <= most, 'nickname'),
      3 * k + 1,
  )
  stars = f'{least} or {most}' if least < most else str(least)
  return seek(
      f'Who gave {stars} stars to the {product["name"]}? List the nicknames of'
      f' these reviewers, {_SEPARATED}.',
      Several(tuple(Text(name) for name in names)),
      *paths.open_product(product['name']),
  )


def _mentions(db: t.Db, k: int) -> t.Task:
  def candidates():
    seen = set()
    for product in paths.products(db, rated=True):
      if product['reviews'] < 5:
        continue
      every = _approved(db, product['id'])
      names = [row['nickname'] for row in every]
      for topic in reviews.topics(paths.department(db, product['id'])):
        nicknames = [
            row['nickname']
            for row in every
            if any(sentence in row['text'] for sentence in topic.bad)
        ]
        if (
            2 <= len(nicknames) <= 3
            and len(nicknames) < len(every)
            and all(names.count(name) == 1 for name in nicknames)
            and topic.phrase not in seen
        ):
          seen.add(topic.phrase)
          yield product, topic, nicknames
          break

  product, topic, names = pick.kth(candidates(), k)
  return seek(
      f'Which reviewers of the {product["name"]} complain that'
      f' {topic.complaint}? List their nicknames, {_SEPARATED}.',
      Several(tuple(Text(name) for name in names)),
      *paths.open_product(product['name']),
  )


def _brand_complaints(db: t.Db, k: int) -> t.Task:
  def of_kind(kind):
    every = paths.of_kind(db, kind, rated=True)
    brands = pick.grouped(every, lambda row: row['brand'])
    for brand, of_brand in sorted(brands.items()):
      if not 2 <= len(of_brand) <= 4:
        continue
      for topic in reviews.topics(paths.department(db, of_brand[0]['id'])):
        names = [
            (product['id'], row['nickname'])
            for product in of_brand
            for row in _approved(db, product['id'])
            if any(sentence in row['text'] for sentence in topic.bad)
        ]
        if (
            len({product for product, _ in names}) > 1
            and len({name for _, name in names}) == len(names) < 5
        ):
          yield kind, brand, topic, names, of_brand

  def candidates():
    for kind in paths.kinds(db, 47):
      yield from itertools.islice(of_kind(kind), 1)

  kind, brand, topic, names, products = pick.kth(candidates(), k)
  visits: list[t.Step] = []
  for product in products:
    if product['reviews']:
      visits += paths.open_product(product['name'])
  return seek(
      f'Read the reviews of all products called "{kind}" by {brand}. Which'
      f' reviewers complain that {topic.complaint}? List their nicknames,'
      f' {_SEPARATED}.',
      Several(tuple(Text(name) for _, name in names)),
      *visits,
  )


def _review_title(db: t.Db, k: int) -> t.Task:
  def candidates():
    for product in paths.products(db, rated=True):
      if product['reviews'] < 4:
        continue
      every = _approved(db, product['id'])
      names = [row['nickname'] for row in every]
      for row in every:
        if names.count(row['nickname']) == 1:
          yield product, row
          break

  product, row = pick.kth(candidates(), 9 * k + 4)
  return seek(
      f'What did {row["nickname"]} say about the {product["name"]}? Answer with'
      ' the title of the review.',
      Text(row['title']),
      *paths.open_product(product['name']),
  )


def _my_review(db: t.Db, k: int) -> t.Task:
  rows = db.rows(
      'SELECT r.*, p.name FROM reviews r JOIN products p ON p.id = r.product_id'
      f' WHERE r.customer_id = {USER} ORDER BY r.created_at DESC'
  )
  row = rows[k]
  return seek(
      f'Under which title did I review the {row["name"]}?',
      Text(row['title']),
      t.link('My Account'),
      t.link('My Product Reviews'),
  )


def _fact(db: t.Db, k: int) -> t.Task:
  name, category, question = _VALUES['facts'][k]
  product = paths.products(db, 'c.name = ?', category)[k]
  text = question.format(product['name'])
  return seek(
      f'According to its table of facts, {text}? Answer as the table has it.',
      Text(paths.fact(db, product['id'], name)),
      *paths.open_product(product['name']),
  )


def _sku(db: t.Db, k: int) -> t.Task:
  category = pick.kth(paths.leaves(db, 7), k)
  product = min(
      paths.of_category(db, category['id']), key=lambda row: row['id']
  )
  return seek(
      f'What is the SKU of the {product["name"]}?',
      Text(product['sku']),
      t.link(product['name']),
      start=f'{category["path"]}.html',
  )


TEMPLATES = (
    t.Template('shop/price_range', t.SEEK, _kind_range, 5, (159,)),
    t.Template('shop/brand_range', t.SEEK, _brand_range, 5, (370,)),
    t.Template('shop/brand_names', t.SEEK, _brand_names, 5, (204,)),
    t.Template('shop/cheapest', t.SEEK, _cheapest, 5),
    t.Template('shop/most_reduced', t.SEEK, _most_reduced, 5, (188,)),
    t.Template('shop/rating', t.SEEK, _rating, 5, (1355,)),
    t.Template('shop/summary', t.SEEK, _summary, 5, (182,)),
    t.Template('shop/criticism', t.SEEK, _criticism, 5, (136,)),
    t.Template('shop/who_gave', t.SEEK, _who_gave, 5, (1356,)),
    t.Template('shop/mentions', t.SEEK, _mentions, 5, (222,)),
    t.Template('shop/brand_complaints', t.SEEK, _brand_complaints, 5, (666,)),
    t.Template('shop/review_title', t.SEEK, _review_title, 5, (135,)),
    t.Template('shop/my_review', t.SEEK, _my_review, 5),
    t.Template('shop/fact', t.SEEK, _fact, 5),
    t.Template('shop/sku', t.SEEK, _sku, 40),
)
