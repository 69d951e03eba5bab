"""Projects: lists, their pages, new ones, forks, settings."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from agentrl.sites.forge.pages import access, code, lists
from agentrl.sites.forge.pages.access import MAINTAINER, OWNER, Place
from agentrl.sites.forge.seed import starters
from agentrl.sites.site import Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

_MINE = 'id IN (SELECT project_id FROM grants WHERE user_id = ?)'
_STARRED = 'id IN (SELECT project_id FROM stars WHERE user_id = ?)'


def mine(visit: Visit) -> Page:
  """The projects in which the visitor has a role."""
  values = lists.projects(visit, _MINE, visit.user)
  return _list('Your projects', values)


def personal(visit: Visit) -> Page:
  """The visitor's own projects."""
  values = lists.projects(visit, 'user_id = ?', visit.user)
  return _list('Personal projects', values)


def starred(visit: Visit) -> Page:
  """The projects that the visitor has starred."""
  values = lists.projects(visit, _STARRED, visit.user)
  return _list('Starred projects', values)


def explore(visit: Visit) -> Page:
  """All projects that the visitor may see."""
  return _list('Explore projects', lists.projects(visit, '1'), 'explore')


def explore_starred(visit: Visit) -> Page:
  """All projects, most stars first."""
  values = lists.projects(visit, '1', sort='stars_desc')
  return _list('Explore projects', values, 'explore')


def _list(
    heading: str, values: Mapping[str, Any], part: str = 'dashboard'
) -> Page:
  return Page.of('projects.html', heading=heading, part=part, **values)


def show(visit: Visit) -> Page:
  """A project's page: counts, files and README."""
  place = access.project(visit)
  tree: Mapping[str, sqlite3.Row] = {}
  commits = 0
  if place.row['branch_id'] is not None:
    line = code.lineage(visit, code.branch(visit, place, place.row['branch']))
    tree = code.tree_of(visit, line)
    where, values = code.in_line(line)
    commits = visit.value(
        f'SELECT count(*) FROM commits c WHERE {where}', *values
    )
  origin = visit.value(
      'SELECT full_path FROM paths WHERE id = ?', place.row['forked_from_id']
  )
  return place.page(
      'project.html',
      branch=place.row['branch'],
      branches=code.branch_names(visit, place),
      entries=code.entries(tree, ''),
      readme=tree['README.md']['content'] if 'README.md' in tree else '',
      commits=commits,
      origin=origin,
      is_starred=_is_starred(visit, place),
      folder='',
  )


def _is_starred(visit: Visit, place: Place) -> bool:
  return visit.has('stars', project_id=place.id, user_id=visit.user)


def star(visit: Visit) -> Redirect:
  """Stars a project."""
  place = access.project(visit)
  if not _is_starred(visit, place):
    visit.insert('stars', project_id=place.id, user_id=visit.user)
  return Redirect(place.url)


def unstar(visit: Visit) -> Redirect:
  """Takes the visitor's star back."""
  place = access.project(visit)
  visit.delete('stars', project_id=place.id, user_id=visit.user)
  return Redirect(place.url)


def starrers(visit: Visit) -> Page:
  """The users who starred a project."""
  place = access.project(visit)
  people, paging = visit.shown(
      place.row['stars'],
      'SELECT u.* FROM stars s JOIN users u ON u.id = s.user_id WHERE'
      ' s.project_id = ? ORDER BY u.name, u.id',
      place.id,
  )
  return place.page('starrers.html', people=people, paging=paging)


def forks(visit: Visit) -> Page:
  """The forks of a project."""
  place = access.project(visit)
  values = lists.projects(visit, 'forked_from_id = ?', place.id)
  return place.page('forks.html', **values)


def new_fork(visit: Visit) -> Page:
  """The form that forks a project."""
  place = access.project(visit)
  return place.page('fork_form.html', spaces=access.spaces(visit))


def create_fork(visit: Visit) -> Redirect:
  """Forks a project."""
  place = access.project(visit)
  if place.row['branch_id'] is None:
    raise Wrong('An empty repository cannot be forked.')
  name = visit.text('project_name', most=100)
  values = {
      **access.space(visit),
      'forked_from_id': place.id,
      'path': access.path_of(place.row['path']),
      'name': name,
      'description': place.row['description'],
      'topics': place.row['topics'],
      'visibility': access.visibility(visit),
      'created_at': NOW,
  }
  key = _insert(visit, values)
  visit.insert(
      'branches',
      project_id=key,
      base_id=place.row['branch_id'],
      name=place.row['branch'],
      is_default=1,
      created_at=NOW,
  )
  return Redirect(_url(visit, key), 'The project was forked.')


def new(visit: Visit) -> Page:
  """The ways to make a project."""
  return Page('project_new.html')


def new_blank(visit: Visit) -> Page:
  """The form of a project without a template."""
  return _form(visit, ())


def new_from_template(visit: Visit) -> Page:
  """The form of a project from a template."""
  return _form(visit, tuple(starters.STARTERS))


def _form(visit: Visit, templates: tuple[str, ...]) -> Page:
  return Page.of(
      'project_form.html',
      templates=templates,
      spaces=access.spaces(visit),
      chosen=visit.query.get('namespace', ''),
  )


def create(visit: Visit) -> Redirect:
  """Adds a project, which the visitor then owns."""
  name = visit.text('project_name', most=100)
  description = visit.text('project_description', most=500, needed=False)
  template = visit.text('template', needed=False)
  if template and template not in starters.STARTERS:
    raise Wrong('There is no such project template.')
  values = {
      **access.space(visit),
      'path': access.path_of(visit.text('project_slug', needed=False) or name),
      'name': name,
      'description': description,
      'visibility': access.visibility(visit),
      'created_at': NOW,
  }
  key = _insert(visit, values)
  files = dict(starters.STARTERS.get(template, {}))
  if 'readme' in visit.form:
    files['README.md'] = f'# {name}\n\n{description}'.strip()
  if files:
    branch = visit.insert(
        'branches', project_id=key, name='main', is_default=1, created_at=NOW
    )
    commit = code.add_commit(visit, branch, 'Initial commit')
    for path, content in files.items():
      visit.insert(
          'files',
          branch_id=branch,
          commit_id=commit,
          path=path,
          content=content,
      )
  return Redirect(_url(visit, key), 'The project was created.')


def _insert(visit: Visit, values: Mapping[str, Any]) -> int:
  """Adds a project with the visitor as its owner; returns its id."""
  if visit.value(
      'SELECT 1 FROM projects WHERE user_id IS ? AND group_id IS ?'
      ' AND path = ?',
      values['user_id'],
      values['group_id'],
      values['path'],
  ):
    raise Wrong('Path has already been taken in this namespace.')
  key = visit.insert('projects', **values)
  visit.insert(
      'members', project_id=key, user_id=visit.user, role=OWNER, created_at=NOW
  )
  return key


def _url(visit: Visit, key: int) -> str:
  return '/' + visit.value('SELECT full_path FROM paths WHERE id = ?', key)


def settings(visit: Visit) -> Page:
  """The form that changes a project's settings."""
  return access.project(visit, MAINTAINER).page('project_settings.html')


def save(visit: Visit) -> Redirect:
  """Changes a project's settings."""
  place = access.project(visit, MAINTAINER)
  visit.update(
      'projects',
      place.id,
      name=visit.text('project_name', most=100),
      description=visit.text('project_description', most=500, needed=False),
      topics=', '.join(
          x.strip()
          for x in visit.text('topics', most=200, needed=False).split(',')
          if x.strip()
      ),
      visibility=access.visibility(visit),
  )
  return Redirect(f'{place.url}/edit', 'The project was updated.')


def delete(visit: Visit) -> Redirect:
  """Removes a project and all that belongs to it."""
  place = access.project(visit, OWNER)
  if visit.text('confirm_path', needed=False) != place.row['full_path']:
    raise Wrong('Enter the path of the project to confirm.')
  visit.delete('projects', id=place.id)
  return Redirect('/', 'The project was deleted.')
