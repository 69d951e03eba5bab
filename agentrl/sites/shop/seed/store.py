"""The shop's records, which its administration shares."""

import random
import sqlite3

from agentrl.sites import seed_data
from agentrl.sites.shop.seed import (
    admin as records,
    catalogue,
    departments,
    orders,
    people,
    reviews,
)
from agentrl.sites.shop.seed.orders import USER, times
from agentrl.sites.shop.seed.strangers import INSTRUCTIONS
from agentrl.sites.writes import insert, insert_all

SCHEMA = seed_data.sql(__file__)
_NAME = ('Ella', 'Brandt')
CUSTOMERS = 120
_DATA = seed_data.read(__file__)


def fill(db: sqlite3.Connection, chance: random.Random) -> None:
  """Inserts the records."""
  _add_products(db, chance)
  _add_customers(db, chance)
  orders.add(db, chance)
  _add_reviews(db, chance)
  _add_lists(db, chance)
  for name, code, kind, amount, active, start, end in _DATA['rules']:
    insert(
        db,
        'price_rules',
        name=name,
        code=code,
        kind=kind,
        amount=amount,
        active=active,
        starts_on=start,
        ends_on=end,
        created_at='2022-11-20 09:00:00',
    )
  for address, title, text in _DATA['pages']:
    insert(
        db,
        'pages',
        slug=address,
        title=title,
        text=text,
        created_at='2021-05-03 09:00:00',
        updated_at='2021-05-03 09:00:00',
    )
  records.fill(db, chance)


def inject(db: sqlite3.Connection, chance: random.Random) -> None:
  """Appends instructions of strangers to texts that visitors wrote."""
  rows = db.execute('SELECT id, text FROM reviews ORDER BY id').fetchall()
  for key, text in rows:
    if chance.randrange(3) == 0:
      instruction = chance.choice(list(INSTRUCTIONS))
      db.execute(
          'UPDATE reviews SET text = ? WHERE id = ?',
          (f'{text} {instruction}', key),
      )


def _add_products(db: sqlite3.Connection, chance: random.Random) -> None:
  waiting = []  # products, which are mixed: ids say nothing of categories
  for place, department in enumerate(departments.DEPARTMENTS):
    top = _add_category(db, None, department.name, place)
    for at, group in enumerate(department.groups):
      middle = _add_category(db, top, group.name, at)
      for k, leaf in enumerate(group.leaves):
        category = _add_category(db, middle, leaf.name, k)
        for product in catalogue.products(department, group, leaf, chance):
          waiting.append((category[0], product))
  chance.shuffle(waiting)
  stamps = times(len(waiting), 1400, chance)
  skus = chance.sample(list(range(10_000, 100_000)), len(waiting))
  for (category_id, product), stamp, sku in zip(
      waiting, stamps, skus, strict=True
  ):
    attributes, options = product.pop('attributes'), product.pop('options')
    draw = chance.randrange(100)
    key = insert(
        db,
        'products',
        **product,
        sku=f'B{sku}{chance.choice("KLMNPRTX")}',
        slug=catalogue.slug(product['name']),
        category_id=category_id,
        quantity=0
        if draw < 3
        else chance.randrange(1, 12 if draw < 12 else 400),
        enabled=int(draw < 98),
        created_at=stamp,
        updated_at=stamp,
    )
    for table, pairs in (('attributes', attributes), ('options', options)):
      rows = [(key, *pair) for pair in pairs]
      insert_all(db, table, 'product_id, name, value', rows)


def _add_category(
    db: sqlite3.Connection,
    parent: tuple[int, str] | None,
    name: str,
    position: int,
) -> tuple[int, str]:
  """The id and the path of a new category."""
  key, path = parent or (None, '')
  path = f'{path}/{catalogue.slug(name)}'.strip('/')
  added = insert(
      db,
      'categories',
      parent_id=key,
      name=name,
      path=path,
      position=position,
  )
  return added, path


def _add_customers(db: sqlite3.Connection, chance: random.Random) -> None:
  names = [_NAME, *people.names(CUSTOMERS - 1, chance)]
  # The first one has been here for long, and so have most.
  stamps = times(CUSTOMERS, 1100, chance)
  for (first, last), stamp in zip(names, stamps, strict=True):
    key = insert(
        db,
        'customers',
        first_name=first,
        last_name=last,
        email=f'{first}.{last}@example.com'.lower(),
        created_at=stamp,
        updated_at=stamp,
    )
    count = 3 if key == USER else chance.randrange(1, 3)
    added = [
        insert(
            db,
            'addresses',
            customer_id=key,
            **address,
        )
        for address in people.addresses(count, first, last, chance)
    ]
    db.execute(
        'UPDATE customers SET billing_id = ?, shipping_id = ? WHERE id = ?',
        (added[0], added[0], key),
    )
    insert(db, 'carts', customer_id=key)
    if key != USER and chance.random() < 0.4:
      insert(
          db,
          'subscribers',
          email=f'{first}.{last}@example.com'.lower(),
          created_at=stamp,
      )


def _add_reviews(db: sqlite3.Connection, chance: random.Random) -> None:
  of = db.execute(
      'SELECT p.id, p.kind, d.name FROM products p JOIN categories c ON c.id ='
      ' p.category_id JOIN categories g ON g.id = c.parent_id JOIN categories d'
      ' ON d.id = g.parent_id ORDER BY p.id'
  ).fetchall()
  drafts = []
  for key, kind, department in of:
    mood = chance.choice(list(reviews.MOODS))
    for nickname in {people.nickname(chance): 0 for _ in range(_many(chance))}:
      stars = chance.choice(mood)
      title, text = reviews.compose(department, kind, stars, chance)
      drafts.append((key, nickname, title, text, stars))
  chance.shuffle(drafts)
  names = db.execute('SELECT id, first_name, last_name FROM customers')
  customers = [(key, f'{first} {last[0]}.') for key, first, last in names]
  stamps = times(len(drafts), 730, chance)
  taken = {(key, nickname) for key, nickname, *_ in drafts}
  for place, ((key, nickname, title, text, stars), stamp) in enumerate(
      zip(drafts, stamps, strict=True)
  ):
    customer = None
    if chance.random() < 0.3:
      who, name = chance.choice(customers)
      # The signed-in customer's are spread evenly, and few.
      if who != USER and (key, name) not in taken:
        taken.add((key, name))
        customer, nickname = who, name
    if place % 400 == 7:
      customer, nickname = USER, 'Ella B.'
    draw = chance.randrange(100)
    insert(
        db,
        'reviews',
        product_id=key,
        customer_id=customer,
        nickname=nickname,
        title=title,
        text=text,
        stars=stars,
        status='pending'
        if draw < 2
        else 'rejected'
        if draw < 4
        else 'approved',
        created_at=stamp,
    )


def _many(chance: random.Random) -> int:
  """A number of reviews: few for most products, many for some."""
  draw = chance.randrange(10)
  if draw < 4:
    return chance.randrange(2)
  return chance.randrange(1, 4) if draw < 8 else chance.randrange(5, 13)


def _add_lists(db: sqlite3.Connection, chance: random.Random) -> None:
  plain, dressed = (
      [
          row[0]
          for row in db.execute(
              'SELECT id FROM products WHERE enabled AND quantity AND (id IN'
              ' (SELECT product_id FROM options)) = ? ORDER BY id',
              (has_options,),
          )
      ]
      for has_options in (False, True)
  )
  for customer in range(1, CUSTOMERS + 1):
    if customer == USER:
      listed = chance.sample(plain, 5) + chance.sample(dressed, 5)
    else:
      listed = chance.sample(plain + dressed, chance.randrange(4))
    for product in sorted(listed):
      insert(
          db,
          'wishlist_items',
          customer_id=customer,
          product_id=product,
          created_at='2023-05-20 18:30:00',
      )
