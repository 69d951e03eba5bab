"""Values of the forge's tasks, chosen from its records, and common steps."""

import datetime
import random
import sqlite3
from collections.abc import Sequence
from typing import Any

from agentrl.sites.answers import Answer
from agentrl.sites.forge.seed import sources
from agentrl.sites.forge.seed.records import EMMA
from agentrl.sites.goals import Anything, Goal, Row
from agentrl.sites.task import Step, Stores, Task, click_on, fill, stop

HOME = 'http://forge/'
PLAIN = '-/profile/preferences'  # a page that answers no question
SEARCH = 'Search Anvil'
MENU = 'Emma Brookfield'  # of the visitor's account
FREELY = Anything()


def rows(stores: Stores, sql: str, *values: Any) -> list[sqlite3.Row]:
  """The rows of a query."""
  return stores['forge'].execute(sql, values).fetchall()


def one(stores: Stores, sql: str, *values: Any) -> Any:
  """The first column of the first row of a query; None: no row."""
  found = stores['forge'].execute(sql, values).fetchone()
  return None if found is None else found[0]


def mixed(found: Sequence[Any], key: str) -> list[Any]:
  """Values in an order that is drawn by a key."""
  order = list(found)
  random.Random(key).shuffle(order)
  return order


def pick(
    stores: Stores, k: int, key: str, sql: str, *values: Any
) -> sqlite3.Row:
  """The k-th row of a query, in an order that is drawn by a key.

  Args:
    stores: the records.
    k: number of the row, from 0.
    key: name of the draw, which stays when the query is written otherwise.
    sql: the query, with an order of its own.
    *values: of its question marks.
  """
  return nth(rows(stores, sql, *values), k, key)


def nth(found: Sequence[Any], k: int, key: str) -> Any:
  """The k-th of values in an order that is drawn by a key."""
  if k >= len(found):
    raise ValueError(f'There are only {len(found)} values: {key}')
  return mixed(found, key)[k]


def people_not_in(
    stores: Stores, project: int, count: int, k: int
) -> Sequence[sqlite3.Row]:
  """Users without a role in a project; others for each k."""
  found = mixed(
      rows(
          stores,
          'SELECT * FROM users WHERE id != ? AND id NOT IN (SELECT user_id FROM'
          ' grants WHERE project_id = ?) ORDER BY id',
          EMMA,
          project,
      ),
      f'people {project}',
  )
  return found[k * count : (k + 1) * count]


def people_in(stores: Stores, project: int) -> Sequence[sqlite3.Row]:
  """The members of a project, but the visitor, in a drawn order."""
  found = rows(
      stores,
      'SELECT * FROM users WHERE id IN (SELECT user_id FROM grants WHERE'
      ' project_id = ?) AND id != ? ORDER BY id',
      project,
      EMMA,
  )
  return mixed(found, f'members {project}')


def long_day(day: str) -> str:
  """'June 15, 2023' of a day."""
  found = datetime.date.fromisoformat(day[:10])
  return f'{found:%B} {found.day}, {found.year}'


def url(path: str) -> str:
  """The address of a path without a slash before it."""
  return HOME + path


def to_project(path: str) -> Sequence[Step]:
  """From any page to a project's, through the search."""
  return (
      fill(SEARCH, path, role='searchbox', enter=True),
      click_on('link', shown(path)),
  )


def shown(path: str) -> str:
  """A project's path as lists of projects show it."""
  space, _, name = path.partition('/')
  return f'{space} / {sources.title_of(name)}'


def person(row: sqlite3.Row) -> str:
  """A user as lists of members offer them."""
  return f'{row["name"]} (@{row["username"]})'


def user(stores: Stores, key: int) -> sqlite3.Row:
  """The user with this id."""
  return rows(stores, 'SELECT * FROM users WHERE id = ?', key)[0]


def to_issue(title: str) -> Sequence[Step]:
  """From a project's page to an open issue, through the list's search."""
  return (
      click_on('link', 'Issues'),
      fill('Search or filter', title, role='searchbox', enter=True),
      click_on('link', title),
  )


def to_merge(title: str) -> Sequence[Step]:
  """From a project's page to an open merge request."""
  return (
      click_on('link', 'Merge requests'),
      fill('Search or filter', title, role='searchbox', enter=True),
      click_on('link', title),
  )


def menu(name: str) -> Sequence[Step]:
  """An entry of the visitor's own menu."""
  return click_on('DisclosureTriangle', MENU), click_on('link', name)


def named(people: Sequence[sqlite3.Row], *, at: str = '') -> str:
  """Usernames in a sentence: 'a, b and c'."""
  names = [at + row['username'] for row in people]
  if len(names) == 1:
    return names[0]
  return f'{", ".join(names[:-1])} and {names[-1]}'


def ask(
    intent: str,
    answer: Answer,
    steps: Sequence[Step],
    start: str = '',
    *,
    at: str | None = None,
) -> Task:
  """A task whose goal is an answer, maybe given on a certain page."""
  return Task(
      intent=intent,
      goal=Goal(answer=answer, url=None if at is None else url(at)),
      steps=(*steps, stop(answer.example())),
      start=(url(start),),
  )


def change(
    intent: str, goal: Sequence[Row], steps: Sequence[Step], start: str = ''
) -> Task:
  """A task whose goal is a set of rows."""
  return Task(
      intent=intent,
      goal=Goal(rows=tuple(goal)),
      steps=(*steps, stop()),
      start=(url(start),),
  )


def go(intent: str, at: str, steps: Sequence[Step], start: str = '') -> Task:
  """A task whose goal is a page."""
  return Task(
      intent=intent,
      goal=Goal(url=url(at)),
      steps=(*steps, stop()),
      start=(url(start),),
  )
