"""Values of tasks, and the steps that lead to a page of the forum."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from agentrl.sites.task import Step, Stores, click_on, fill

HOME = 'http://forum/'
FORUMS = 'http://forum/forums'  # no visitor's name, no title of a submission
MESSAGES = 'http://forum/messages'  # no name of a forum
EMMA = 1
_PER_PAGE = 20
_MOST_WORDS = 8  # that a search looks for
# Answers that those give who have read nothing.
_GUESSES = ('0', '1', '2', '3', '5', '10', '100')


def rows(stores: Stores, sql: str, *values: Any) -> list[sqlite3.Row]:
  """The rows of a query on the forum's records."""
  return stores['forum'].execute(sql, values).fetchall()


def one(stores: Stores, sql: str, *values: Any) -> Any:
  """The first column of the first row of a query."""
  return rows(stores, sql, *values)[0][0]


def pick(stores: Stores, k: int, sql: str, *values: Any) -> sqlite3.Row:
  """The k-th row of a query whose rows have an `id`, in a mixed order."""
  return mixed(rows(stores, sql, *values))[k]


def mixed(found: Sequence[sqlite3.Row]) -> list[sqlite3.Row]:
  """Rows that have an `id`, in an order that mixes old and new ones."""
  return sorted(found, key=lambda row: (row['id'] * 7919 % 10_007, row['id']))


def pick_post(stores: Stores, k: int, where: str, *values: Any) -> sqlite3.Row:
  """The k-th row of `posts` with a condition on a row `s` of `submissions`.

  The view counts comments and knows votes, which takes time: it is read for the
  one row that is picked.
  """
  found = pick(
      stores, k, f'SELECT s.id FROM submissions s WHERE {where}', *values
  )
  return post_of(stores, found['id'])


def pick_forum(
    stores: Stores,
    k: int,
    find: Callable[[sqlite3.Row], Any] = lambda row: None,
    fits: Callable[[Any], bool] = lambda found: True,
    *,
    first: int = 0,
) -> tuple[sqlite3.Row, Any]:
  """The k-th of the forums that fit, in a mixed order, and what was found.

  Args:
    stores: the records.
    k: from 0.
    find: what is looked at of a forum, such as its submissions.
    fits: whether that will do.
    first: place in the order at which to begin, so that not all templates are
      about the same forums.

  Raises:
    LookupError: fewer forums fit.
  """
  forums = mixed(rows(stores, 'SELECT * FROM forums'))
  for forum in forums[first:] + forums[:first]:
    found = find(forum)
    if fits(found):
      if k == 0:
        return forum, found
      k -= 1
  raise LookupError('too few forums fit.')


def guessed(number: int) -> bool:
  """True if a number is among the usual guesses."""
  return str(number) in _GUESSES


def first_line(text: str) -> str:
  """The part of a text that strangers have not added to."""
  return text.partition('\n')[0]


def to_forum(stores: Stores, name: str, *, at_home: bool) -> Sequence[Step]:
  """The steps to a forum's page.

  Args:
    stores: the records.
    name: of the forum.
    at_home: whether they begin on the front page, where the visitor's forums
      are linked.
  """
  mine = one(
      stores,
      'SELECT count(*) FROM subscriptions s JOIN forums f ON f.id = s.forum_id'
      ' WHERE f.name = ? AND s.user_id = ?',
      name,
      EMMA,
  )
  if mine and at_home:
    return (click_on('link', name, after='Your forums'),)
  place = one(
      stores,
      'SELECT count(*) FROM forums WHERE lower(name) < lower(?)',
      name,
  )
  return (
      click_on('link', 'Forums'),
      *(click_on('link', 'Next'),) * (place // _PER_PAGE),
      click_on('link', name),
  )


def find_forum(stores: Stores, word: str, name: str) -> Sequence[Step]:
  """The steps to a forum that a search for a word finds."""
  many = one(
      stores,
      "SELECT count(*) FROM forums WHERE name || ' ' || title || ' ' ||"
      ' description LIKE ?',
      f'%{word}%',
  )
  return (
      search(word),
      click_on('link', f'Forums ({many})'),
      click_on('link', name),
  )


def find_user(stores: Stores, name: str) -> Sequence[Step]:
  """The steps to a user's page."""
  many = one(
      stores,
      "SELECT count(*) FROM users WHERE name LIKE ? ESCAPE '\\'",
      f'%{name.replace("_", chr(92) + "_")}%',
  )
  return (
      search(name),
      click_on('link', f'Users ({many})'),
      click_on('link', name),
  )


def find_post(title: str) -> Sequence[Step]:
  """The steps to the page of a submission."""
  words = title.split()[:_MOST_WORDS]
  return (search(' '.join(words)), click_on('link', title))


def search(words: str) -> Step:
  """A query in the search field of all pages."""
  return fill('Search', words, role='searchbox', enter=True)


def menu(entry: str) -> Sequence[Step]:
  """The steps to a page of the visitor's menu."""
  return (
      click_on('DisclosureTriangle', 'emma'),
      click_on('link', entry),
  )


def post_of(stores: Stores, key: int) -> sqlite3.Row:
  """A row of `posts`."""
  return rows(stores, 'SELECT * FROM posts WHERE id = ?', key)[0]


def ranked(
    stores: Stores, forum_id: int, column: str, *, since: str = ''
) -> list[sqlite3.Row]:
  """A forum's submissions by a column of `posts`, the largest value first."""
  return rows(
      stores,
      'SELECT * FROM posts WHERE forum_id = ? AND created_at >= ? AND NOT'
      f' is_deleted ORDER BY {column} DESC, id DESC',
      forum_id,
      since,
  )
