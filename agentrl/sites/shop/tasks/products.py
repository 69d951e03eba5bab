"""Questions about products, and about what reviews say of them."""

import itertools
import sqlite3
from collections.abc import Sequence

from agentrl.sites.answers import Answer, Money, Number, Several, Text
from agentrl.sites.goals import Goal
from agentrl.sites.shop.seed import reviews
from agentrl.sites.shop.seed.orders import USER
from agentrl.sites.shop.tasks import picks
from agentrl.sites.task import (
    SEEK,
    Step,
    Stores,
    Task,
    Template,
    choose,
    click_on,
    stop,
)

_SEPARATED = 'separated by semicolons'


def _seek(
    intent: str, answer: Answer, *steps: Step, start: str = picks.HOME
) -> Task:
  return Task(
      intent=intent,
      goal=Goal(answer=answer),
      steps=(*steps, stop(answer.example())),
      start=(start,),
  )


def _range(found: Sequence[sqlite3.Row]) -> Several:
  prices = [row['price_cents'] for row in found]
  return Several((Money(min(prices)), Money(max(prices))), ordered=True)


def _kind_range(stores: Stores, k: int) -> Task:
  kind = picks.nth(picks.kinds(stores, 17), k)
  return _seek(
      'What are the lowest and the highest price that this shop asks for a'
      f' product called "{kind}"? Answer with both, the lower one first,'
      ' separated by a semicolon.',
      _range(picks.products(stores, 'p.kind = ?', kind)),
      picks.search(kind.lower()),
      choose('Sort By', 'Price'),
      click_on('link', 'Set Descending Direction'),
  )


def _brand_range(stores: Stores, k: int) -> Task:
  category = picks.nth(picks.leaves(stores, 29), k)
  here = picks.products(stores, 'c.id = ?', category['id'])
  brand, found = picks.nth(
      (
          (brand, found)
          for brand in sorted({row['brand'] for row in here})
          for found in [[row for row in here if row['brand'] == brand]]
          if len(found) > 2
      ),
      k % 3,
  )
  return _seek(
      f'Which range do the prices of {brand} have in the category'
      f' "{category["name"]}"? Answer with the lowest and the highest price,'
      ' separated by a semicolon.',
      _range(found),
      *picks.open_leaf(category),
      click_on('link', brand),
      choose('Sort By', 'Price'),
  )


def _brand_names(stores: Stores, k: int) -> Task:
  def candidates():
    for kind in picks.kinds(stores, 31):
      brands: dict[str, list] = {}
      for row in picks.products(stores, 'p.kind = ?', kind):
        brands.setdefault(row['brand'], []).append(row)
      for brand, found in sorted(brands.items()):
        if 2 <= len(found) <= 3:
          yield kind, brand, found
          break

  kind, brand, found = picks.nth(candidates(), k)
  return _seek(
      f'Give me the full names of all products called "{kind}" that are made'
      f' by {brand}, {_SEPARATED}.',
      Several(tuple(Text(row['name']) for row in found)),
      picks.search(f'{brand} {kind}'),
  )


def _cheapest(stores: Stores, k: int) -> Task:
  def candidates():
    for kind in picks.kinds(stores, 41):
      found = picks.only(
          picks.products(stores, 'p.kind = ?', kind),
          lambda row: row['price_cents'],
      )
      if found is not None:
        yield kind, found

  kind, product = picks.nth(candidates(), k)
  return _seek(
      f'What is the full name of the cheapest product called "{kind}"?',
      Text(product['name']),
      picks.search(kind.lower()),
      choose('Sort By', 'Price'),
  )


def _most_reduced(stores: Stores, k: int) -> Task:
  def candidates():
    for category in picks.leaves(stores, 2):
      found = picks.products(
          stores, 'c.id = ? AND p.list_cents IS NOT NULL', category['id']
      )
      saved = lambda row: row['price_cents'] - row['list_cents']
      product = picks.only(found, saved)
      if len(found) > 2 and product is not None:
        yield category, product

  category, product = picks.nth(candidates(), k)
  before = picks.value(
      stores,
      'SELECT count(*) FROM products WHERE category_id = ? AND id < ? AND'
      ' enabled',
      category['id'],
      product['id'],
  )
  return _seek(
      'Look at the reduced products of the category'
      f' "{category["name"]}". Which one is reduced by the largest amount of'
      ' dollars, compared with its regular price? Give its full name.',
      Text(product['name']),
      *picks.open_leaf(category),
      *(click_on('link', 'Next'),) * (before // 20),
  )


def _rating(stores: Stores, k: int) -> Task:
  found = [
      row
      for row in picks.products(stores, rated=True)
      if row['reviews'] > 4 and _clear(row['stars']) and row['stars'] % 1
  ]
  product = found[7 * k]
  return _seek(
      f'What is the average rating of the {product["name"]}, as the shop shows'
      ' it? Answer with the number of stars to one decimal place.',
      Number(f'{product["stars"]:.1f}'),
      *picks.open_product(product['name']),
  )


def _clear(stars: float) -> bool:
  """True if an average has no doubt about its first decimal place."""
  return abs(stars * 10 % 1 - 0.5) > 0.01


def _summary(stores: Stores, k: int) -> Task:
  found = [
      row
      for row in picks.products(stores, rated=True)
      if row['reviews'] > 5 and _clear(row['stars'])
  ]
  product = found[11 * k + 3]
  return _seek(
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
      *picks.open_product(product['name']),
  )


def _approved(stores: Stores, product_id: int) -> list[sqlite3.Row]:
  return picks.rows(
      stores,
      "SELECT * FROM reviews WHERE product_id = ? AND status = 'approved'"
      ' ORDER BY id',
      product_id,
  )


def _groups(stores: Stores, fits, column: str):
  """Products with 2 to 4 reviews that fit, whose column differs."""
  for product in picks.products(stores, rated=True):
    if product['reviews'] < 3:
      continue
    every = _approved(stores, product['id'])
    found = [row[column] for row in every if fits(row)]
    names = [row[column] for row in every]
    if (
        2 <= len(found) <= 4
        and len(found) < len(every)
        and all(names.count(name) == 1 for name in found)
    ):
      yield product, found


def _criticism(stores: Stores, k: int) -> Task:
  product, titles = picks.nth(
      _groups(stores, lambda row: row['stars'] < 3, 'title'), 5 * k
  )
  return _seek(
      f'What do critics say about this product, the {product["name"]}? Give the'
      f' titles of all reviews with one or two stars, {_SEPARATED}.',
      Several(tuple(Text(title) for title in titles)),
      start=f'http://shop/{product["slug"]}.html',
  )


def _who_gave(stores: Stores, k: int) -> Task:
  least, most = ((4, 5), (1, 2), (5, 5), (2, 3), (3, 4))[k]
  product, names = picks.nth(
      _groups(stores, lambda row: least <= row['stars'] <= most, 'nickname'),
      3 * k + 1,
  )
  stars = f'{least} or {most}' if least < most else str(least)
  return _seek(
      f'Who gave {stars} stars to the {product["name"]}? List the nicknames of'
      f' these reviewers, {_SEPARATED}.',
      Several(tuple(Text(name) for name in names)),
      *picks.open_product(product['name']),
  )


def _mentions(stores: Stores, k: int) -> Task:
  def candidates():
    seen = set()
    for product in picks.products(stores, rated=True):
      if product['reviews'] < 5:
        continue
      every = _approved(stores, product['id'])
      names = [row['nickname'] for row in every]
      for topic in reviews.topics(picks.department(stores, product['id'])):
        found = [
            row['nickname']
            for row in every
            if any(sentence in row['text'] for sentence in topic.bad)
        ]
        if (
            2 <= len(found) <= 3
            and len(found) < len(every)
            and all(names.count(name) == 1 for name in found)
            and topic.phrase not in seen
        ):
          seen.add(topic.phrase)
          yield product, topic, found
          break

  product, topic, names = picks.nth(candidates(), k)
  return _seek(
      f'Which reviewers of the {product["name"]} complain that'
      f' {topic.complaint}? List their nicknames, {_SEPARATED}.',
      Several(tuple(Text(name) for name in names)),
      *picks.open_product(product['name']),
  )


def _brand_complaints(stores: Stores, k: int) -> Task:
  def of_kind(kind):
    every = picks.products(stores, 'p.kind = ?', kind, rated=True)
    for brand in sorted({row['brand'] for row in every}):
      found = [row for row in every if row['brand'] == brand]
      if not 2 <= len(found) <= 4:
        continue
      for topic in reviews.topics(picks.department(stores, found[0]['id'])):
        names = [
            (product['id'], row['nickname'])
            for product in found
            for row in _approved(stores, product['id'])
            if any(sentence in row['text'] for sentence in topic.bad)
        ]
        if (
            len({product for product, _ in names}) > 1
            and len({name for _, name in names}) == len(names) < 5
        ):
          yield kind, brand, topic, names, found

  def candidates():
    for kind in picks.kinds(stores, 47):
      yield from itertools.islice(of_kind(kind), 1)

  kind, brand, topic, names, found = picks.nth(candidates(), k)
  visits: list[Step] = []
  for product in found:
    if product['reviews']:
      visits += picks.open_product(product['name'])
  return _seek(
      f'Read the reviews of all products called "{kind}" by {brand}. Which'
      f' reviewers complain that {topic.complaint}? List their nicknames,'
      f' {_SEPARATED}.',
      Several(tuple(Text(name) for _, name in names)),
      *visits,
  )


def _review_title(stores: Stores, k: int) -> Task:
  def candidates():
    for product in picks.products(stores, rated=True):
      if product['reviews'] < 4:
        continue
      every = _approved(stores, product['id'])
      names = [row['nickname'] for row in every]
      for row in every:
        if names.count(row['nickname']) == 1:
          yield product, row
          break

  product, row = picks.nth(candidates(), 9 * k + 4)
  return _seek(
      f'What did {row["nickname"]} say about the {product["name"]}? Answer with'
      ' the title of the review.',
      Text(row['title']),
      *picks.open_product(product['name']),
  )


def _my_review(stores: Stores, k: int) -> Task:
  found = picks.rows(
      stores,
      'SELECT r.*, p.name FROM reviews r JOIN products p ON p.id = r.product_id'
      f' WHERE r.customer_id = {USER} ORDER BY r.created_at DESC',
  )
  row = found[k]
  return _seek(
      f'Under which title did I review the {row["name"]}?',
      Text(row['title']),
      click_on('link', 'My Account'),
      click_on('link', 'My Product Reviews'),
  )


_FACTS = (
    ('Material', 'Table Lamps', 'which material is the {} made with'),
    ('Capacity', 'Backpacks', 'which capacity does the {} have'),
    ('Recommended For', 'Tents', 'for what or whom is the {} recommended'),
    ('Fill Weight', 'Sleeping Bags', 'which fill weight does the {} have'),
    ('Power', 'Blenders', 'how much power does the {} have'),
)


def _fact(stores: Stores, k: int) -> Task:
  name, category, question = _FACTS[k]
  product = picks.products(stores, 'c.name = ?', category)[k]
  answer = picks.value(
      stores,
      'SELECT value FROM attributes WHERE product_id = ? AND name = ?',
      product['id'],
      name,
  )
  asked = question.format(product['name'])
  return _seek(
      f'According to its table of facts, {asked}? Answer as the table has it.',
      Text(answer),
      *picks.open_product(product['name']),
  )


def _sku(stores: Stores, k: int) -> Task:
  category = picks.nth(picks.leaves(stores, 7), k)
  product = min(
      picks.products(stores, 'c.id = ?', category['id']),
      key=lambda row: row['id'],
  )
  return _seek(
      f'What is the SKU of the {product["name"]}?',
      Text(product['sku']),
      click_on('link', product['name']),
      start=f'http://shop/{category["path"]}.html',
  )


TEMPLATES = (
    Template('shop/price_range', SEEK, _kind_range, 5, (159,)),
    Template('shop/brand_range', SEEK, _brand_range, 5, (370,)),
    Template('shop/brand_names', SEEK, _brand_names, 5, (204,)),
    Template('shop/cheapest', SEEK, _cheapest, 5),
    Template('shop/most_reduced', SEEK, _most_reduced, 5, (188,)),
    Template('shop/rating', SEEK, _rating, 5, (1355,)),
    Template('shop/summary', SEEK, _summary, 5, (182,)),
    Template('shop/criticism', SEEK, _criticism, 5, (136,)),
    Template('shop/who_gave', SEEK, _who_gave, 5, (1356,)),
    Template('shop/mentions', SEEK, _mentions, 5, (222,)),
    Template('shop/brand_complaints', SEEK, _brand_complaints, 5, (666,)),
    Template('shop/review_title', SEEK, _review_title, 5, (135,)),
    Template('shop/my_review', SEEK, _my_review, 5),
    Template('shop/fact', SEEK, _fact, 5),
    Template('shop/sku', SEEK, _sku, 40),
)
