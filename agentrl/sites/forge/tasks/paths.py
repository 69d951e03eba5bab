"""Values of the forge's tasks, chosen from its records, and common steps."""

import datetime
import sqlite3
from collections.abc import Sequence

from agentrl.sites import picking as pick, task as t
from agentrl.sites.forge.seed import sources
from agentrl.sites.forge.seed.records import EMMA
from agentrl.sites.goals import Anything, New, Row, added

_MAKER = t.Maker('http://forge/')
seek, change, go = _MAKER.seek, _MAKER.change, _MAKER.go
PLAIN = '-/profile/preferences'  # a page that answers no question
SEARCH = 'Search Anvil'
MENU = 'Emma Brookfield'  # of the visitor's account
FREELY = Anything()


def people_not_in(
    db: t.Db, project: int, count: int, k: int
) -> Sequence[sqlite3.Row]:
  """Users without a role in a project; others for each k."""
  users = pick.shuffled(
      db.rows(
          f'SELECT * FROM users WHERE id != {EMMA} AND id NOT IN (SELECT'
          ' user_id FROM grants WHERE project_id = ?) ORDER BY id',
          project,
      ),
      f'people {project}',
  )
  return users[k * count : (k + 1) * count]


def people_in(db: t.Db, project: int) -> Sequence[sqlite3.Row]:
  """The members of a project, but the visitor, in a drawn order."""
  users = db.rows(
      'SELECT * FROM users WHERE id IN (SELECT user_id FROM grants WHERE'
      f' project_id = ?) AND id != {EMMA} ORDER BY id',
      project,
  )
  return pick.shuffled(users, f'members {project}')


def member_but(db: t.Db, project: int, *keys: int | None) -> sqlite3.Row:
  """A member of a project who has none of these ids."""
  return next(x for x in people_in(db, project) if x['id'] not in keys)


def long_day(day: str) -> str:
  """'June 15, 2023' of a day."""
  date = datetime.date.fromisoformat(day[:10])
  return f'{date:%B} {date.day}, {date.year}'


def to_project(path: str) -> Sequence[t.Step]:
  """From any page to a project's, through the search."""
  return (
      t.fill(SEARCH, path, role='searchbox', enter=True),
      t.link(shown(path)),
  )


def shown(path: str) -> str:
  """A project's path as lists of projects show it."""
  space, _, name = path.partition('/')
  return f'{space} / {sources.title_of(name)}'


def person(row: sqlite3.Row) -> str:
  """A user as lists of members offer them."""
  return f'{row["name"]} (@{row["username"]})'


def user(db: t.Db, key: int) -> sqlite3.Row:
  """The user with this id."""
  return db.first('SELECT * FROM users WHERE id = ?', key)


def to_issue(row: sqlite3.Row) -> Sequence[t.Step]:
  """From any page to an open issue, through its project's list."""
  return *to_project(row['full_path']), *_listed('Issues', row['title'])


def to_merge(row: sqlite3.Row) -> Sequence[t.Step]:
  """From any page to an open merge request, through its project's list."""
  return *to_project(row['full_path']), *_listed('Merge requests', row['title'])


def _listed(items: str, title: str) -> Sequence[t.Step]:
  return (
      t.link(items),
      t.fill('Search or filter', title, role='searchbox', enter=True),
      t.link(title),
  )


def menu(name: str) -> Sequence[t.Step]:
  """An entry of the visitor's own menu."""
  return t.click_on('DisclosureTriangle', MENU), t.link(name)


def named(people: Sequence[sqlite3.Row], *, at: str = '') -> str:
  """Usernames in a sentence: 'a, b and c'."""
  names = [at + row['username'] for row in people]
  if len(names) == 1:
    return names[0]
  return f'{", ".join(names[:-1])} and {names[-1]}'


def invited(people: Sequence[sqlite3.Row], role: str) -> Sequence[t.Step]:
  """From the page of a project or group: its members, and new ones."""
  return (
      t.link('Members'),
      t.link('Invite members'),
      t.fill('Username', ', '.join(x['username'] for x in people)),
      t.choose('Role', role),
      t.button('Invite'),
  )


def commit(branch: int | New, message: str | Anything = FREELY) -> Row:
  """A commit of the visitor's; without a message, one with any."""
  values = {'branch_id': branch, 'author_id': EMMA, 'message': message}
  return added('forge.commits', **values)
