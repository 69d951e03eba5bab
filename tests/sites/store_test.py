"""Tests for the records: copies, their hash, what changed."""

import sqlite3

import pytest

from agentrl.sites.records import build_stores
from agentrl.sites.store import Store, lasting

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
  return Store.build('test', SCHEMA, fill=fill)


def test_two_builds_are_equal_bytes(store):
  again = Store.build('test', SCHEMA, fill=fill)
  assert again.data == store.data and again.digest == store.digest
  assert Store.build('other', SCHEMA, fill=fill).digest != store.digest


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


LISTS = """
CREATE TABLE people (
  id INTEGER PRIMARY KEY, name TEXT, city TEXT, updated_at TEXT
);
CREATE TABLE letters (
  id INTEGER PRIMARY KEY, sender INTEGER REFERENCES people, body TEXT,
  is_deleted INTEGER NOT NULL DEFAULT 0, created_at TEXT, updated_at TEXT
);
CREATE TABLE answers (
  id INTEGER PRIMARY KEY, letter INTEGER REFERENCES letters, body TEXT
);
"""


def fill_lists(db, chance):
  del chance
  db.executescript("""
  INSERT INTO people VALUES (1, 'Ada', 'Bern', 'old'), (2, 'Ben', 'Bern', 'old');
  INSERT INTO letters VALUES (1, 1, 'hello', 0, 'old', 'old'),
    (2, 1, 'more', 0, 'old', NULL), (3, 2, 'last', 0, 'old', NULL);
  INSERT INTO answers VALUES (1, 1, 'thanks');
  """)


UNDONE = {
    'only a time': "UPDATE people SET updated_at = 'now'",
    'times of several tables': (
        "UPDATE people SET updated_at = 'now';"
        "UPDATE letters SET updated_at = 'now', created_at = 'now'"
    ),
    'removed and added again': (
        'DELETE FROM letters WHERE id = 2;'
        "INSERT INTO letters (id, sender, body) VALUES (9, 1, 'more')"
    ),
    'the last one, which gets its id again': (
        'DELETE FROM letters WHERE id = 3;'
        "INSERT INTO letters (sender, body, created_at) VALUES (2, 'last', 'n')"
    ),
    'the last two, which get the ids of each other': (
        'DELETE FROM letters WHERE id > 1;'
        "INSERT INTO letters (sender, body) VALUES (2, 'last'), (1, 'more')"
    ),
    'added and deleted': (
        "INSERT INTO letters (sender, body, is_deleted) VALUES (1, 'oh', 1)"
    ),
    'deleted and written again': (
        'UPDATE letters SET is_deleted = 1 WHERE id = 2;'
        "INSERT INTO letters (sender, body) VALUES (1, 'more')"
    ),
}
LEFT = {
    'another value': "UPDATE people SET city = 'Rome' WHERE id = 1",
    'added again with another value': (
        'DELETE FROM letters WHERE id = 2;'
        "INSERT INTO letters (sender, body) VALUES (1, 'More')"
    ),
    'added twice': (
        'DELETE FROM letters WHERE id = 2;'
        "INSERT INTO letters (sender, body) VALUES (1, 'more'), (1, 'more')"
    ),
    'removed': 'DELETE FROM letters WHERE id = 3',
    'deleted': 'UPDATE letters SET is_deleted = 1 WHERE id = 2',
    # Its answers are lost to the new one.
    'answered, deleted and written again': (
        'UPDATE letters SET is_deleted = 1 WHERE id = 1;'
        "INSERT INTO letters (sender, body) VALUES (1, 'hello')"
    ),
    # Their letters are now by each other.
    'people who have swapped names': (
        "UPDATE people SET name = CASE id WHEN 1 THEN 'Ben' ELSE 'Ada' END"
    ),
    'added': "INSERT INTO letters (sender, body) VALUES (1, 'new')",
}


@pytest.fixture(scope='module')
def lists():
  return Store.build('lists', LISTS, fill=fill_lists)


@pytest.mark.parametrize('what', UNDONE)
def test_a_change_that_leaves_the_records_as_they_were_does_not_last(
    lists, what
):
  copy = lists.copy()
  copy.executescript(UNDONE[what])
  assert lists.changes(copy)  # it is told
  assert lasting(lists.changes(copy)) == ()


@pytest.mark.parametrize('what', LEFT)
def test_a_change_that_leaves_something_else_lasts(lists, what):
  copy = lists.copy()
  copy.executescript(LEFT[what])
  assert lasting(lists.changes(copy))


def test_of_a_row_whose_id_went_to_another_one_the_new_one_lasts(lists):
  copy = lists.copy()
  copy.executescript("""
  DELETE FROM letters WHERE id > 1;
  INSERT INTO letters (sender, body) VALUES (2, 'last'), (2, 'new');
  """)
  removed, added = lasting(lists.changes(copy))
  assert (removed.before['body'], removed.after) == ('more', None)
  assert (added.before, added.after['body']) == (None, 'new')


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
