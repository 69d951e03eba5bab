"""The administration's own records, which lie beside the shop's."""

import datetime
import random
import sqlite3

from agentrl.sites import seed_data
from agentrl.sites.store import NOW
from agentrl.sites.writes import insert_all

_TERMS = 90
_DATA = seed_data.read(__file__)


def fill(db: sqlite3.Connection, chance: random.Random) -> None:
  """Inserts the records; the shop's are there."""
  _add_papers(db, chance)
  _add_search_terms(db, chance)
  insert_all(db, 'themes', 'title, parent_id, path, colours', _DATA['themes'])


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
          chance.choice(_DATA['notes']),
          chance.randrange(2),
      ))
  insert_all(db, 'invoices', 'created_at, order_id', sorted(invoices))
  insert_all(db, 'refunds', 'created_at, order_id', sorted(refunds))
  columns = 'created_at, order_id, text, notified'
  insert_all(db, 'order_notes', columns, sorted(notes))


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
    habit = '{}' if place % 2 else chance.choice(_DATA['habits'])
    terms[habit.format(kind)] = kinds[kind]
  texts = sorted(terms)
  chance.shuffle(texts)
  texts = texts[:_TERMS]
  uses = chance.sample(list(range(2, 700)), len(texts))
  rows = []
  for text, count in zip(texts, uses, strict=True):
    stamp = _later('2023-05-01 08:00:00', chance.randrange(60_000))
    rows.append((text.lower(), terms[text], count, stamp))
  insert_all(db, 'search_terms', 'text, results, uses, updated_at', rows)
