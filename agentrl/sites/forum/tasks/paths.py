"""Values of tasks, and the steps that lead to a page of the forum."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from agentrl.sites import picking as pick, task as t

_MAKER = t.Maker('http://forum/')
seek, change, go = _MAKER.seek, _MAKER.change, _MAKER.go
HOME = ''
FORUMS = 'forums'  # no visitor's name, no title of a submission
MESSAGES = 'messages'  # no name of a forum
EMMA = 1
_PER_PAGE = 20
_MOST_WORDS = 8  # that a search looks for
# Answers that those give who have read nothing.
_GUESSES = ('0', '1', '2', '3', '5', '10', '100')


def pick_post(db: t.Db, k: int, where: str, *values: Any) -> sqlite3.Row:
  """The k-th row of `posts` with a condition on a row `s` of `submissions`.

  The view counts comments and knows votes, which takes time: it is read for the
  one row that is picked.
  """
  row = db.row_mixed(
      k, f'SELECT s.id FROM submissions s WHERE {where}', *values
  )
  return post_of(db, row['id'])


def pick_forum(
    db: t.Db,
    k: int,
    find: Callable[[sqlite3.Row], Any] = lambda row: row,
    fits: Callable[[Any], bool] = lambda value: True,
    *,
    first: int = 0,
) -> tuple[str, Any]:
  """The name of the k-th forum that fits, in a mixed order, and what was found.

  Args:
    db: the records.
    k: from 0.
    find: what is looked at of a forum, such as its submissions; else its row.
    fits: whether that will do.
    first: place in the order at which to begin, so that not all templates are
      about the same forums.

  Raises:
    LookupError: fewer forums fit.
  """
  forums = pick.mixed(db.rows('SELECT * FROM forums'))
  for forum in forums[first:] + forums[:first]:
    value = find(forum)
    if fits(value):
      if k == 0:
        return forum['name'], value
      k -= 1
  raise LookupError('too few forums fit.')


def guessed(number: int) -> bool:
  """True if a number is among the usual guesses."""
  return str(number) in _GUESSES


def first_line(text: str) -> str:
  """The part of a text that strangers have not added to."""
  return text.partition('\n')[0]


def to_forum(db: t.Db, name: str, *, at_home: bool) -> Sequence[t.Step]:
  """The steps to a forum's page.

  Args:
    db: the records.
    name: of the forum.
    at_home: whether they begin on the front page, where the visitor's forums
      are linked.
  """
  mine = db.value(
      'SELECT count(*) FROM subscriptions s JOIN forums f ON f.id = s.forum_id'
      ' WHERE f.name = ? AND s.user_id = ?',
      name,
      EMMA,
  )
  if mine and at_home:
    return (t.link(name, after='Your forums'),)
  place = db.value(
      'SELECT count(*) FROM forums WHERE lower(name) < lower(?)', name
  )
  return (
      t.link('Forums'),
      *(t.link('Next'),) * (place // _PER_PAGE),
      t.link(name),
  )


def find_forum(db: t.Db, word: str, name: str) -> Sequence[t.Step]:
  """The steps to a forum that a search for a word finds."""
  many = db.value(
      "SELECT count(*) FROM forums WHERE name || ' ' || title || ' ' ||"
      ' description LIKE ?',
      f'%{word}%',
  )
  return (search(word), t.link(f'Forums ({many})'), t.link(name))


def find_user(db: t.Db, name: str) -> Sequence[t.Step]:
  """The steps to a user's page."""
  many = db.value(
      "SELECT count(*) FROM users WHERE name LIKE ? ESCAPE '\\'",
      f'%{name.replace("_", chr(92) + "_")}%',
  )
  return (search(name), t.link(f'Users ({many})'), t.link(name))


def find_post(title: str) -> Sequence[t.Step]:
  """The steps to the page of a submission."""
  words = title.split()[:_MOST_WORDS]
  return (search(' '.join(words)), t.link(title))


def search(words: str) -> t.Step:
  """A query in the search field of all pages."""
  return t.fill('Search', words, role='searchbox', enter=True)


def menu(entry: str) -> Sequence[t.Step]:
  """The steps to a page of the visitor's menu."""
  return (t.click_on('DisclosureTriangle', 'emma'), t.link(entry))


def post_of(db: t.Db, key: int) -> sqlite3.Row:
  """A row of `posts`."""
  return db.first('SELECT * FROM posts WHERE id = ?', key)


def ranked(
    db: t.Db, forum_id: int, column: str, *, since: str = ''
) -> list[sqlite3.Row]:
  """A forum's submissions by a column of `posts`, the largest value first."""
  return db.rows(
      'SELECT * FROM posts WHERE forum_id = ? AND created_at >= ? AND NOT'
      f' is_deleted ORDER BY {column} DESC, id DESC',
      forum_id,
      since,
  )
