"""Questions about commits, contributors and files."""

import itertools
import sqlite3
from collections.abc import Sequence

from agentrl.sites import picking as pick, seed_data, task as t
from agentrl.sites.answers import Number, Several, Text
from agentrl.sites.forge.pages import show
from agentrl.sites.forge.tasks import paths
from agentrl.sites.forge.tasks.paths import seek

_VALUES = seed_data.read(__file__)

# Commits of default branches; forks have hardly any of their own.
_COMMITS = """
FROM commits c
JOIN branches b ON b.id = c.branch_id AND b.is_default
JOIN paths p ON p.id = b.project_id
JOIN users u ON u.id = c.author_id
WHERE b.base_id IS NULL
"""
# Counts that nobody guesses.
_COUNTS = '(4, 6, 7, 8, 9, 11, 12, 13, 14)'


def _filtered(author: str) -> Sequence[t.Step]:
  return (t.link('Commits'), t.fill('Author', author), t.button('Apply'))


def _on_day(db: t.Db, k: int, at_home: bool) -> t.Task:
  row = db.row_shuffled(
      k + (0 if at_home else 20),
      'commits on a day',
      'SELECT p.full_path, u.name, date(c.created_at) AS day, count(*) AS n'
      f' {_COMMITS} GROUP BY b.id, u.id, day HAVING n IN {_COUNTS}'
      ' ORDER BY b.id, u.id, day',
  )
  path = row['full_path']
  to = f'to {path}' if at_home else 'to this project'
  return seek(
      f'How many commits did {row["name"]} make {to} on'
      f' {paths.long_day(row["day"])}? Answer with the number.',
      Number(str(row['n']), 'commits'),
      *(paths.to_project(path) if at_home else ()),
      *_filtered(row['name']),
      start='' if at_home else path,
  )


def _commits_on_day(db: t.Db, k: int) -> t.Task:
  return _on_day(db, k, True)


def _commits_here_on_day(db: t.Db, k: int) -> t.Task:
  return _on_day(db, k, False)


def _commits_in_month(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(
      k,
      'commits in a month',
      "SELECT p.full_path, u.name, strftime('%Y-%m', c.created_at) AS month,"
      f' count(*) AS n {_COMMITS} GROUP BY b.id, u.id, month HAVING n IN'
      f' {_COUNTS} AND count(DISTINCT date(c.created_at)) > 1'
      ' ORDER BY b.id, u.id, month',
  )
  month = paths.long_day(f'{row["month"]}-01').replace(' 1,', '')
  return seek(
      f'How many commits did {row["name"]} make to {row["full_path"]} during'
      f' {month}? Answer with the number.',
      Number(str(row['n']), 'commits'),
      *paths.to_project(row['full_path']),
      *_filtered(row['name']),
  )


def _ranked(db: t.Db) -> list[tuple[str, list[sqlite3.Row]]]:
  """Paths of projects with their authors, most commits first."""
  rows = db.rows(
      'SELECT p.full_path, u.id, u.name, u.username, u.email, count(*) AS n'
      f' {_COMMITS} GROUP BY b.id, u.id ORDER BY b.id, n DESC, u.id'
  )
  groups = itertools.groupby(rows, key=lambda row: row['full_path'])
  return [(path, list(people)) for path, people in groups]


def _first_are_clear(people: Sequence[sqlite3.Row], count: int) -> bool:
  counts = [row['n'] for row in people[: count + 1]]
  return (
      len(counts) > count
      and len(set(counts)) == len(counts)
      and all(row['id'] != 1 for row in people[:count])
  )


def _top(db: t.Db, k: int) -> t.Task:
  choices = [x for x in _ranked(db) if _first_are_clear(x[1], 1)]
  path, people = pick.kth_shuffled(choices, k, 'top contributor')
  return seek(
      f'Who has made the most commits to the main line of {path}? Answer with'
      ' the full name.',
      Text(people[0]['name']),
      *paths.to_project(path),
      t.link('Contributors'),
  )


def _top_three(db: t.Db, k: int) -> t.Task:
  choices = [x for x in _ranked(db) if _first_are_clear(x[1], 3)]
  path, people = pick.kth_shuffled(choices, k, 'top three')
  column = 'name' if k % 2 else 'email'
  label = 'full names' if k % 2 else 'email addresses'
  return seek(
      f'List the {label} of the three people with the most commits to the main'
      f' line of {path}, the one with the most commits first, separated by'
      ' semicolons.',
      Several([Text(row[column]) for row in people[:3]], ordered=True),
      *paths.to_project(path),
      t.link('Contributors'),
  )


def _top_of_branch(db: t.Db, k: int) -> t.Task:
  rows = db.rows(
      'SELECT b.id, b.name, p.full_path, d.name AS home, u.id AS user, u.email,'
      ' count(*) AS n FROM branches b JOIN branches d ON d.id = b.base_id AND'
      ' d.project_id = b.project_id JOIN paths p ON p.id = b.project_id JOIN'
      ' commits c ON c.branch_id = b.id OR (c.branch_id = d.id AND'
      ' c.created_at <= b.created_at) JOIN users u ON u.id = c.author_id'
      ' WHERE b.id % 4 = 1 GROUP BY b.id, u.id ORDER BY b.id, n DESC, u.id'
  )
  clear = []
  for _, group in itertools.groupby(rows, key=lambda row: row['id']):
    people = list(group)
    if len(people) > 1 and people[0]['n'] > people[1]['n']:
      clear.append(people[0])
  row = pick.kth_shuffled(clear, k, 'top of branch')
  return seek(
      'Give me the email address of the contributor with the most commits on'
      f' the branch {row["name"]} of this project, {row["full_path"]}.',
      Text(row['email']),
      t.link('Contributors'),
      t.click_on('DisclosureTriangle', f'Branch: {row["home"]}'),
      t.link(row['name']),
      start=row['full_path'],
  )


def _commit_author(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(
      k,
      'message of one author',
      'SELECT p.full_path, c.message, min(u.name) AS name, count(*) AS n,'
      f' max(u.id) AS user {_COMMITS} GROUP BY b.id, c.message HAVING n = 1 AND'
      " user != 1 AND length(c.message) > 30 AND c.message NOT LIKE '%\"%'"
      ' ORDER BY b.id, c.message',
  )
  return seek(
      f'Who committed "{row["message"]}" to {row["full_path"]}? Answer with the'
      ' full name.',
      Text(row['name']),
      *paths.to_project(row['full_path']),
      t.link('Commits'),
      t.fill('Search by message', row['message'], role='searchbox'),
      t.button('Apply'),
  )


_SETTINGS = _VALUES['settings']


def _setting(db: t.Db, k: int) -> t.Task:
  name = list(_SETTINGS)[k % 4]
  row = db.row_shuffled(
      k,
      'default setting',
      'SELECT p.full_path, f.content FROM files f JOIN branches b ON b.id ='
      ' f.branch_id JOIN paths p ON p.id = b.project_id WHERE f.path ='
      " 'config/defaults.toml' AND b.is_default AND f.content NOT LIKE"
      " '%= 10' ORDER BY p.id",
  )
  lines = dict(x.split(' = ') for x in row['content'].split('\n'))
  return seek(
      f'What {_SETTINGS[name]} does config/defaults.toml set in'
      f' {row["full_path"]}? Answer with the number.',
      Number(lines[name]),
      *paths.to_project(row['full_path']),
      t.link('config/'),
      t.link('defaults.toml'),
  )


def _clone(db: t.Db, k: int) -> t.Task:
  path = db.row_shuffled(
      k,
      'clone',
      'SELECT full_path FROM repositories WHERE forked_from_id IS NULL AND'
      ' stars > 9 ORDER BY id',
  )[0]
  way = 'HTTP' if k % 2 else 'SSH'
  address = show.https(path) if k % 2 else show.ssh(path)
  return seek(
      f'Give me the git command that clones {path} over {way}, without any'
      ' options.',
      Text(f'git clone {address}'),
      *paths.to_project(path),
      t.click_on('DisclosureTriangle', 'Clone'),
  )


def _license(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(
      k,
      'license',
      'SELECT p.full_path, f.content FROM files f JOIN branches b ON b.id ='
      ' f.branch_id JOIN paths p ON p.id = b.project_id WHERE f.path ='
      " 'LICENSE' AND b.is_default ORDER BY p.id",
  )
  name, _, rest = row['content'].partition('\n\nSPDX-License-Identifier: ')
  return seek(
      f'Under which license is {row["full_path"]}? Answer with its SPDX'
      ' identifier.',
      Text(rest.partition('\n')[0], (name,)),
      *paths.to_project(row['full_path']),
      t.link('LICENSE'),
  )


TEMPLATES = (
    t.Template('forge/commits-on-day', t.SEEK, _commits_on_day, 5, (322,)),
    t.Template(
        'forge/commits-here-on-day', t.SEEK, _commits_here_on_day, 5, (320,)
    ),
    t.Template('forge/commits-in-month', t.SEEK, _commits_in_month, 5, (321,)),
    t.Template('forge/top-contributor', t.SEEK, _top, 5, (323,)),
    t.Template('forge/top-three', t.SEEK, _top_three, 5, (324,)),
    t.Template('forge/top-of-branch', t.SEEK, _top_of_branch, 5, (316,)),
    t.Template('forge/commit-author', t.SEEK, _commit_author, 5),
    t.Template('forge/setting', t.SEEK, _setting, 5),
    t.Template('forge/license', t.SEEK, _license, 5),
    t.Template('forge/clone', t.SEEK, _clone, 5, (329,)),
)
