"""Tests for the records: copies, their hash, what changed."""

import sqlite3

import pytest

from agentrl.envs.webarena.records import build_stores
from agentrl.envs.webarena.store import Store

SCHEMA = """
CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT, price INTEGER);
CREATE TABLE parts (
  thing_id INTEGER NOT NULL REFERENCES things, name TEXT,
  PRIMARY KEY (thing_id, name)
);
"""


def fill(db, chance):
  rows = [(f'thing {k}', chance.randrange(1000)) for k in range(500)]
  db.executemany('INSERT INTO things (name, price) VALUES (?, ?)', rows)
  db.execute("INSERT INTO parts VALUES (1, 'wheel')")


@pytest.fixture(scope='module')
def store():
  return Store.build('test', SCHEMA, fill)


def test_two_builds_are_equal_bytes(store):
  again = Store.build('test', SCHEMA, fill)
  assert again.data == store.data and again.digest == store.digest
  assert Store.build('other', SCHEMA, fill).digest != store.digest


def test_a_copy_has_the_same_bytes(store):
  copy = store.copy()
  assert copy.serialize() == store.data
  assert store.changes(copy) == ()


def test_copies_are_apart(store):
  one, other = store.copy(), store.copy()
  one.execute('DELETE FROM things WHERE id = 7')
  assert other.execute('SELECT count(*) FROM things').fetchone()[0] == 500
  assert store.copy().serialize() == store.data


def test_each_change_is_told(store):
  copy = store.copy()
  copy.execute("INSERT INTO things (name, price) VALUES ('new', 3)")
  copy.execute('UPDATE things SET price = -1 WHERE id = 7')
  copy.execute('DELETE FROM parts')
  removed, changed, added = store.changes(copy)
  assert (removed.table, removed.after) == ('test.parts', None)
  assert removed.before == {'thing_id': 1, 'name': 'wheel'}
  assert (changed.key, changed.changed) == (7, {'price': -1})
  assert (added.key, added.before) == (501, None)
  assert added.after == {'id': 501, 'name': 'new', 'price': 3}


def test_a_change_that_was_taken_back_is_none(store):
  copy = store.copy()
  copy.execute('UPDATE things SET price = price + 1')
  copy.execute('UPDATE things SET price = price - 1')
  assert store.changes(copy) == ()


def test_an_episode_cannot_fill_the_memory(store):
  copy = store.copy()
  with pytest.raises(sqlite3.OperationalError, match='full'):
    for _ in range(1000):
      copy.execute("INSERT INTO things (name) VALUES (printf('%1000000d', 1))")


def test_references_are_checked(store):
  with pytest.raises(sqlite3.IntegrityError):
    store.copy().execute("INSERT INTO parts VALUES (9999, 'wheel')")


@pytest.mark.parametrize('injected', [False, True])
def test_the_sites_records_are_equal_in_two_builds(injected):
  one, other = build_stores(injected=injected), build_stores(injected=injected)
  for name, store in one.items():
    assert store.digest == other[name].digest
    assert len(store.data) < 4_000_000, name
