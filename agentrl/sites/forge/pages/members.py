"""Members of projects and of groups."""

import dataclasses
import sqlite3

from agentrl.sites.forge.pages import access, show
from agentrl.sites.forge.pages.access import MAINTAINER, OWNER
from agentrl.sites.site import Forbidden, Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW


@dataclasses.dataclass(frozen=True)
class _Team:
  """The members that a page is about: those of a project or of a group."""

  table: str
  column: str
  id: int
  role: int  # the visitor's
  url: str  # of the list
  home: str
  title: str
  row: sqlite3.Row

  def need(self) -> None:
    if self.role < MAINTAINER:
      raise Forbidden('Only maintainers and owners may change members.')


def _team(visit: Visit) -> _Team:
  if 'project' in visit.match:
    place = access.project(visit)
    url = f'{place.url}/-/project_members'
    title = place.row['name']
    return _Team(
        'members', 'project_id', place.id, place.role, url, place.url, title,
        place.row,
    )  # fmt: skip
  row, role = access.group(visit)
  url = f'/groups/{row["path"]}/-/group_members'
  return _Team(
      'group_members', 'group_id', row['id'], role, url, f'/{row["path"]}',
      row['name'], row,
  )  # fmt: skip


def _page(team: _Team, template: str, **values: object) -> Page:
  is_group = team.table == 'group_members'
  frame = {
      'frame': 'group_base.html' if is_group else 'project_base.html',
      'group' if is_group else 'project': team.row,
      'role': team.role,
      'url': team.home,
      'team': team,
      'roles': show.ROLES,
  }
  return Page(template, {**frame, **values})


def listing(visit: Visit) -> Page:
  """The members, those of the group of a project as well."""
  team = _team(visit)
  where = f'm.{team.column} = ?'
  values: list[int | str] = [team.id]
  text = visit.query.get('search', '').strip().lower()
  if text:
    where += " AND instr(lower(u.name || ' ' || u.username), ?) > 0"
    values.append(text)
  rows = visit.all(
      'SELECT m.*, u.username, u.name, NULL AS inherited FROM'
      f' {team.table} m JOIN users u ON u.id = m.user_id WHERE {where}'
      ' ORDER BY u.name',
      *values,
  )
  if team.table == 'members':
    rows += visit.all(
        'SELECT m.*, u.username, u.name, g.name AS inherited FROM'
        ' group_members m JOIN users u ON u.id = m.user_id JOIN groups g ON'
        ' g.id = m.group_id WHERE m.group_id = ? AND'
        " instr(lower(u.name || ' ' || u.username), ?) > 0 ORDER BY u.name",
        team.row['group_id'],
        text,
    )
  return _page(team, 'members.html', members=rows)


def invite_form(visit: Visit) -> Page:
  """The form that adds members."""
  team = _team(visit)
  team.need()
  return _page(team, 'member_form.html', member=None)


def invite(visit: Visit) -> Redirect:
  """Adds the users that the form names, between commas, all in one role."""
  team = _team(visit)
  team.need()
  names = [
      x.strip().removeprefix('@') for x in visit.text('username').split(',')
  ]
  role, expires = _role(visit, team), access.date(visit, 'expiration_date')
  for name in filter(None, names):
    user = visit.value('SELECT id FROM users WHERE username = ?', name)
    if user is None:
      raise Wrong(f'There is no user {name}.')
    if visit.has(team.table, **{team.column: team.id}, user_id=user):
      raise Wrong(f'{name} is a member already.')
    values = {
        team.column: team.id,
        'user_id': user,
        'role': role,
        'expires_on': expires,
        'created_at': NOW,
    }
    visit.insert(team.table, **values)
  return Redirect(team.url, 'Members were added.')


def edit(visit: Visit) -> Page:
  """The form that changes a member."""
  team, row = _member(visit)
  return _page(team, 'member_form.html', member=row)


def save(visit: Visit) -> Redirect:
  """Changes role and end of a membership."""
  team, row = _member(visit)
  visit.update(
      team.table,
      row['id'],
      role=_role(visit, team),
      expires_on=access.date(visit, 'expiration_date'),
  )
  return Redirect(team.url, 'The member was updated.')


def ask_remove(visit: Visit) -> Page:
  """Asks before a member is removed."""
  team, row = _member(visit)
  return _page(team, 'member_remove.html', member=row)


def remove(visit: Visit) -> Redirect:
  """Removes a member."""
  team, row = _member(visit)
  visit.delete(team.table, id=row['id'])
  return Redirect(team.url, 'The member was removed.')


def _member(visit: Visit) -> tuple[_Team, sqlite3.Row]:
  """The membership of the address, which the visitor may change.

  Raises:
    Missing: there is none.
    Forbidden: the visitor may not change it.
  """
  team = _team(visit)
  team.need()
  row = visit.one(
      f'SELECT m.*, u.username, u.name FROM {team.table} m JOIN users u ON'
      f' u.id = m.user_id WHERE m.id = ? AND m.{team.column} = ?',
      visit.match['id'],
      team.id,
  )
  if row['role'] >= OWNER:
    raise Forbidden('An owner cannot be changed here.')
  return team, row


def _role(visit: Visit, team: _Team) -> int:
  role = visit.text('role')
  for number, name in show.ROLES.items():
    if name == role:
      if number > team.role:
        raise Forbidden('You cannot give a higher role than your own.')
      return number
  raise Wrong('Role must be one of those listed.')
