"""The administration's own records, which lie beside the shop's."""

import datetime
import random
import sqlite3

from agentrl.sites.store import NOW

SCHEMA = """
CREATE TABLE invoices (  -- of whole orders; its number is its id
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL UNIQUE REFERENCES orders,
  created_at TEXT NOT NULL
);
CREATE TABLE refunds (  -- of whole orders; its number is its id
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL UNIQUE REFERENCES orders,
  created_at TEXT NOT NULL
);
CREATE TABLE order_notes (
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL REFERENCES orders,
  text TEXT NOT NULL,
  notified INTEGER NOT NULL,  -- 1: it was sent to the customer
  created_at TEXT NOT NULL
);
CREATE INDEX order_notes_by_order ON order_notes (order_id);
CREATE TABLE search_terms (
  id INTEGER PRIMARY KEY,
  text TEXT NOT NULL UNIQUE,
  results INTEGER NOT NULL,
  uses INTEGER NOT NULL,
  updated_at TEXT NOT NULL
);
CREATE TABLE themes (
  id INTEGER PRIMARY KEY,
  title TEXT NOT NULL UNIQUE,
  parent_id INTEGER REFERENCES themes,
  path TEXT NOT NULL,
  colours TEXT NOT NULL  -- text, background and accent
);
"""
_TERMS = 90
_HABITS = [
    'cheap {}', 'best {}', '{} sale', '{} gift', 'small {}', '{} black',
]  # fmt: skip
_NOTES = [
    'Customer asked on the phone when it will be sent.',
    'Address was checked, all is fine.',
    'Please wrap as a present.',
    'Payment came a day late.',
    'Leave the parcel with the neighbours.',
    'Customer called to say thank you.',
    'One box was damaged in the warehouse and packed anew.',
    'Waiting for goods from the supplier.',
]
_THEMES = (
    ('Plain', None, 'base/plain', '#222222 #ffffff #2266aa'),
    ('Harbor', 1, 'shop/harbor', '#10263a #eef4f8 #0b7285'),
    ('Orchard', 1, 'shop/orchard', '#2b2a1f #faf7ee #5c7c2f'),
    ('Midnight', 2, 'shop/midnight', '#e8e8f0 #171a2b #b08cff'),
    ('Paperback', 3, 'shop/paperback', '#33261d #f6efe2 #a4442a'),
)


def fill(db: sqlite3.Connection, chance: random.Random) -> None:
  """Inserts the records; the shop's are there."""
  _add_papers(db, chance)
  _add_search_terms(db, chance)
  db.executemany(
      'INSERT INTO themes (title, parent_id, path, colours) VALUES (?, ?, ?,'
      ' ?)',
      _THEMES,
  )


def _later(stamp: str, minutes: int) -> str:
  """A time so much later, or NOW."""
  then = datetime.datetime.fromisoformat(stamp)
  return min(str(then + datetime.timedelta(minutes=minutes)), NOW)


def _add_papers(db: sqlite3.Connection, chance: random.Random) -> None:
  """Inserts invoices, refunds and notes, in the order of their times."""
  invoices, refunds, notes = [], [], []
  for key, status, stamp in db.execute(
      'SELECT id, status, created_at FROM orders ORDER BY id'
  ):
    if status in ('processing', 'complete', 'closed'):
      paid = _later(stamp, chance.randrange(5, 900))
      invoices.append((paid, key))
    if status == 'closed':
      refunds.append((_later(stamp, chance.randrange(9000, 30_000)), key))
    if chance.random() < 0.15:
      notes.append((
          _later(stamp, chance.randrange(60, 4000)),
          key,
          chance.choice(_NOTES),
          chance.randrange(2),
      ))
  db.executemany(
      'INSERT INTO invoices (created_at, order_id) VALUES (?, ?)',
      sorted(invoices),
  )
  db.executemany(
      'INSERT INTO refunds (created_at, order_id) VALUES (?, ?)',
      sorted(refunds),
  )
  db.executemany(
      'INSERT INTO order_notes (created_at, order_id, text, notified) VALUES'
      ' (?, ?, ?, ?)',
      sorted(notes),
  )


def _add_search_terms(db: sqlite3.Connection, chance: random.Random) -> None:
  """Inserts terms of brands and kinds; no two were used equally often."""
  goods = db.execute(
      'SELECT brand, kind, count(*) FROM products GROUP BY brand, kind ORDER BY'
      ' brand, kind'
  ).fetchall()
  brands: dict[str, int] = {}
  kinds: dict[str, int] = {}
  for brand, kind, count in goods:
    brands[brand] = brands.get(brand, 0) + count
    kinds[kind] = kinds.get(kind, 0) + count
  # A few brands are asked for in many ways.
  loved = chance.sample(sorted(brands), 4)
  terms = {brand: brands[brand] for brand in sorted(brands)[::2]}
  for brand, kind, count in goods:
    if brand in loved:
      terms[f'{brand} {kind}'] = count
  for place, kind in enumerate(sorted(kinds)):
    habit = '{}' if place % 2 else chance.choice(_HABITS)
    terms[habit.format(kind)] = kinds[kind]
  texts = sorted(terms)
  chance.shuffle(texts)
  texts = texts[:_TERMS]
  uses = chance.sample(list(range(2, 700)), len(texts))
  for text, count in zip(texts, uses, strict=True):
    stamp = _later('2023-05-01 08:00:00', chance.randrange(60_000))
    db.execute(
        'INSERT INTO search_terms (text, results, uses, updated_at) VALUES (?,'
        ' ?, ?, ?)',
        (text.lower(), terms[text], count, stamp),
    )
