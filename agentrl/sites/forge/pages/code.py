"""Branches, commits and files of a project."""

import sqlite3
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.sites.forge.pages import access, show
from agentrl.sites.forge.pages.access import DEVELOPER, Place
from agentrl.sites.forge.seed import words
from agentrl.sites.site import Missing, Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

_AUTHORED = (
    'SELECT c.*, u.username, u.name, u.email FROM commits c JOIN users u ON'
    ' u.id = c.author_id WHERE '
)


def branch_names(visit: Visit, place: Place) -> Sequence[str]:
  """The names of a project's branches, the default one first."""
  return visit.column(
      'SELECT name FROM branches WHERE project_id = ? ORDER BY is_default DESC,'
      ' name',
      place.id,
  )


def branch(visit: Visit, place: Place, name: str) -> sqlite3.Row:
  """A branch of a project by its name.

  Raises:
    Missing: there is none.
  """
  return visit.find('branches', project_id=place.id, name=name)


def lineage(visit: Visit, row: sqlite3.Row) -> list[tuple[int, str]]:
  """A branch and its bases: ids, and the time until which each one counts."""
  line = [(row['id'], '9999')]
  while row['base_id'] is not None:
    created_at = row['created_at']
    row = visit.find('branches', id=row['base_id'])
    line.append((row['id'], min(created_at, line[-1][1])))
  return line


def in_line(line: Sequence[tuple[int, str]]) -> tuple[str, list[Any]]:
  """SQL, with its values, that a commit `c` of such a line fulfils."""
  where = ' OR '.join(['(c.branch_id = ? AND c.created_at <= ?)'] * len(line))
  return f'({where})', [value for pair in line for value in pair]


def add_commit(visit: Visit, branch_id: int, message: str) -> int:
  """Adds a commit of the visitor's; returns its id."""
  return visit.insert(
      'commits',
      branch_id=branch_id,
      author_id=visit.user,
      message=message,
      created_at=NOW,
  )


def tree_of(
    visit: Visit, line: Sequence[tuple[int, str]]
) -> Mapping[str, sqlite3.Row]:
  """The files of a branch by path: its own ones go before those of its base."""
  files: dict[str, sqlite3.Row] = {}
  for key, _ in reversed(line):
    for row in visit.all(
        'SELECT f.*, c.message, c.created_at FROM files f JOIN commits c ON'
        ' c.id = f.commit_id WHERE f.branch_id = ? ORDER BY f.path',
        key,
    ):
      files[row['path']] = row
  return files


def entries(
    tree: Mapping[str, sqlite3.Row], folder: str
) -> list[Mapping[str, Any]]:
  """Folders, then files, that lie directly in a folder ('' is the root).

  Raises:
    Missing: nothing lies there.
  """
  start = f'{folder}/' if folder else ''
  folders: dict[str, sqlite3.Row] = {}
  files = []
  for path in sorted(tree):
    if not path.startswith(start):
      continue
    name, inside, _ = path[len(start) :].partition('/')
    if inside:
      old = folders.get(name)
      if old is None or old['created_at'] < tree[path]['created_at']:
        folders[name] = tree[path]
    else:
      files.append((name, tree[path]))
  if folder and not folders and not files:
    raise Missing
  return [
      {'name': name, 'path': start + name, 'kind': kind, 'last': row}
      for kind, pairs in (('tree', folders.items()), ('blob', files))
      for name, row in pairs
  ]


def tree(visit: Visit) -> Page:
  """A folder of a branch."""
  place, row, line = _at(visit)
  folder = visit.match.get('path', '').strip('/')
  return place.page(
      'tree.html',
      branch=row['name'],
      branches=branch_names(visit, place),
      folder=folder,
      entries=entries(tree_of(visit, line), folder),
  )


def blob(visit: Visit) -> Page:
  """A file of a branch."""
  place, row, file = _file(visit)
  return place.page('blob.html', branch=row['name'], file=file)


def edit_file(visit: Visit) -> Page:
  """The form that changes a file."""
  place, row, file = _file(visit)
  place.need(DEVELOPER)
  return place.page(
      'file_form.html',
      branch=row['name'],
      file=file,
      path=file['path'],
      licenses=_licenses(file['path']),
  )


def new_file(visit: Visit) -> Page:
  """The form that adds a file."""
  place = access.project(visit, DEVELOPER)
  name = visit.match['branch']
  if place.row['branch_id'] is not None:
    branch(visit, place, name)
  path = visit.query.get('path', '').strip('/')
  return place.page(
      'file_form.html',
      branch=name,
      file=None,
      path=f'{path}/' if path else '',
      licenses=list(words.LICENSES),
  )


def save_file(visit: Visit) -> Redirect:
  """Commits a file: the form's text, or the license that was chosen."""
  place = access.project(visit, DEVELOPER)
  name = visit.match['branch']
  if place.row['branch_id'] is None:
    first = _first_branch(visit, place, name)
    line = [(first, '9999')]
  else:
    line = lineage(visit, branch(visit, place, name))
  old = visit.match.get('path')
  tree = tree_of(visit, line)
  if old is not None and old not in tree:
    raise Missing
  path = old or _path(visit)
  if old is None and path in tree:
    raise Wrong('A file with this name already exists.')
  content = visit.text('content', most=50_000, needed=False)
  chosen = visit.text('license_template', needed=False)
  if chosen:
    if chosen not in words.LICENSES:
      raise Wrong('There is no such license template.')
    content = words.license_text(chosen)
  file = path.rpartition('/')[2]
  default = f'{"Update" if old else "Add"} {file}'
  message = visit.text('commit_message', needed=False) or default
  commit = add_commit(visit, line[0][0], message)
  values = {'commit_id': commit, 'content': content}
  if old is not None and tree[old]['branch_id'] == line[0][0]:
    visit.update('files', tree[old]['id'], **values)
  else:
    values |= {'branch_id': line[0][0], 'path': path}
    visit.insert('files', **values)
  return Redirect(
      f'{place.url}/-/blob/{name}/{urllib.parse.quote(path)}',
      'Your changes have been committed.',
  )


def _path(visit: Visit) -> str:
  path = visit.text('file_name', most=200).strip('/')
  if any(part in ('', '.', '..') for part in path.split('/')):
    raise Wrong('File name is not a path within the repository.')
  return path


def _first_branch(visit: Visit, place: Place, name: str) -> int:
  """The branch that an empty repository gets with its first file."""
  return visit.insert(
      'branches', project_id=place.id, name=name, is_default=1, created_at=NOW
  )


def _licenses(path: str) -> Sequence[str]:
  return list(words.LICENSES) if path.startswith('LICENSE') else ()


def commits(visit: Visit) -> Page:
  """The commits of a branch by days, newest first."""
  place, row, line = _at(visit)
  where, values = in_line(line)
  author = visit.query.get('author', '').strip().removeprefix('@')
  if author:
    where += (
        ' AND (u.username = ? COLLATE NOCASE OR instr(lower(u.name), ?) > 0)'
    )
    values += [author, author.lower()]
  for word in visit.query.get('search', '').split()[:10]:
    where += ' AND instr(lower(c.message), ?) > 0'
    values.append(word.lower())
  days = visit.pairs(
      'SELECT date(c.created_at), count(*) FROM commits c JOIN users u ON'
      f' u.id = c.author_id WHERE {where} GROUP BY 1',
      *values,
  )
  rows, paging = visit.shown(
      sum(days.values()),
      f'{_AUTHORED}{where} ORDER BY c.created_at DESC, c.id DESC',
      *values,
  )
  return place.page(
      'commits.html',
      branch=row['name'],
      branches=branch_names(visit, place),
      commits=rows,
      days=days,
      paging=paging,
  )


def commit(visit: Visit) -> Page:
  """One commit."""
  place = access.project(visit)
  key = show.commit_of(visit.match['sha'])
  # A fork shows the commits of its original until then, too.
  lines = {
      base
      for name in branch_names(visit, place)
      for base in lineage(visit, branch(visit, place, name))
  }
  where, values = in_line(sorted(lines))
  row = visit.one(f'{_AUTHORED} c.id = ? AND {where}', key, *values)
  return place.page(
      'commit.html',
      commit=row,
      home=visit.find('branches', id=row['branch_id']),
      files=visit.rows('files', 'path', commit_id=key),
  )


def contributors(visit: Visit) -> Page:
  """The authors of a branch's commits, by their number."""
  place, row, line = _at(visit)
  where, values = in_line(line)
  return place.page(
      'contributors.html',
      branch=row['name'],
      branches=branch_names(visit, place),
      people=visit.all(
          'SELECT u.username, u.name, u.email, count(*) AS commits,'
          ' min(c.created_at) AS first, max(c.created_at) AS last FROM commits'
          f' c JOIN users u ON u.id = c.author_id WHERE {where} GROUP BY u.id'
          ' ORDER BY 4 DESC, u.name',
          *values,
      ),
  )


def branches(visit: Visit) -> Page:
  """The branches of a project."""
  place = access.project(visit)
  where = 'b.project_id = ?'
  values: list[int | str] = [place.id]
  text = visit.query.get('search', '').strip()
  if text:
    where += ' AND instr(lower(b.name), ?) > 0'
    values.append(text.lower())
  return place.page(
      'branches.html',
      branches=visit.all(
          'SELECT b.*, c.id AS commit_id, c.message, max(c.created_at) AS'
          ' last, count(c.id) AS commits, u.name AS author FROM branches b'
          ' LEFT JOIN commits c ON c.branch_id = b.id LEFT JOIN users u ON'
          f' u.id = c.author_id WHERE {where} GROUP BY b.id ORDER BY'
          ' b.is_default DESC, b.name',
          *values,
      ),
  )


def new_branch(visit: Visit) -> Page:
  """The form that adds a branch."""
  place = access.project(visit, DEVELOPER)
  return place.page('branch_form.html', branches=branch_names(visit, place))


def create_branch(visit: Visit) -> Redirect:
  """Adds a branch."""
  place = access.project(visit, DEVELOPER)
  name = visit.text('branch_name', most=100)
  if access.path_of(name) != name:
    raise Wrong('Branch name can have letters, digits, "_", "-" and "." only.')
  if name in branch_names(visit, place):
    raise Wrong('A branch with this name already exists.')
  source = visit.text('create_from')
  if source not in branch_names(visit, place):
    raise Wrong('Create from must be a branch of the project.')
  visit.insert(
      'branches',
      project_id=place.id,
      base_id=branch(visit, place, source)['id'],
      name=name,
      created_at=NOW,
  )
  return Redirect(f'{place.url}/-/tree/{name}', 'The branch was created.')


def delete_branch(visit: Visit) -> Redirect:
  """Removes a branch, but never the default one."""
  place = access.project(visit, DEVELOPER)
  row = branch(visit, place, visit.match['branch'])
  if row['is_default']:
    raise Wrong('The default branch cannot be deleted.')
  visit.delete('branches', id=row['id'])
  return Redirect(f'{place.url}/-/branches', 'The branch was deleted.')


def _at(visit: Visit) -> tuple[Place, sqlite3.Row, Sequence[tuple[int, str]]]:
  """The project and the branch of the address, and the branch's line."""
  place = access.project(visit)
  row = branch(visit, place, visit.match['branch'])
  return place, row, lineage(visit, row)


def _file(visit: Visit) -> tuple[Place, sqlite3.Row, sqlite3.Row]:
  place, row, line = _at(visit)
  file = tree_of(visit, line).get(visit.match['path'])
  if file is None:
    raise Missing
  return place, row, file
