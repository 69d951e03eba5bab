"""Rights of a visitor: projects and groups that are seen, roles in them."""

import dataclasses
import datetime
import re
import sqlite3
from collections.abc import Mapping
from typing import Any

from agentrl.sites.site import Forbidden, Missing, Page, Visit, Wrong

GUEST, REPORTER, DEVELOPER, MAINTAINER, OWNER = 10, 20, 30, 40, 50
VISIBILITIES = ('private', 'internal', 'public')
_PATH = re.compile(r'[a-z0-9_][a-z0-9_.-]*', re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Place:
  """A project that a page is about.

  Attributes:
    row: of the view `repositories`.
    role: the visitor's; 0: none.
  """

  row: sqlite3.Row
  role: int

  @property
  def id(self) -> int:
    return self.row['id']

  @property
  def url(self) -> str:
    return f'/{self.row["full_path"]}'

  def page(self, template: str, **values: Any) -> Page:
    """A page in the project's frame."""
    shown = {'project': self.row, 'role': self.role, 'url': self.url}
    return Page(template, {**shown, **values})

  def need(self, role: int) -> None:
    """Checks the visitor's role.

    Raises:
      Forbidden: it is lower.
    """
    if self.role < role:
      raise Forbidden('Your role in this project does not allow this.')


def project(visit: Visit, need: int = 0) -> Place:
  """The project of the address.

  Raises:
    Missing: there is none, or the visitor may not see it.
    Forbidden: the visitor's role is lower than needed.
  """
  row = visit.one(
      'SELECT * FROM repositories WHERE id = (SELECT id FROM paths WHERE'
      ' full_path = ? COLLATE NOCASE)',
      f'{visit.match["space"]}/{visit.match["project"]}',
  )
  role = role_in(visit, row['id'])
  if row['visibility'] == 'private' and not role:
    raise Missing
  place = Place(row, role)
  place.need(need)
  return place


def item(visit: Visit, view: str, editor: int = 0) -> tuple[Place, sqlite3.Row]:
  """A project and its issue or merge request of the address.

  The row is of `view`. `editor` is the role that may change what others opened;
  0: it is only shown.

  Raises:
    Missing: there is none.
    Forbidden: it is to be changed, and the visitor may not.
  """
  place = project(visit)
  row = visit.find(view, project_id=place.id, number=visit.match['number'])
  if not may_edit(visit, place, row, editor):
    raise Forbidden('Your role in this project does not allow this.')
  return place, row


def may_edit(visit: Visit, place: Place, row: sqlite3.Row, editor: int) -> bool:
  """True for the author of an issue or merge request, and for editors."""
  return row['author_id'] == visit.user or place.role >= editor


def choices(visit: Visit, place: Place) -> Mapping[str, Any]:
  """The values that fields of forms and filters offer."""
  milestones = visit.rows('milestones', 'title', project_id=place.id)
  return {
      'people': people(visit, place.id),
      'milestones': [row['title'] for row in milestones],
      'all_labels': [],  # of issues only
  }


def role_in(visit: Visit, project_id: int) -> int:
  """The visitor's highest role in a project; 0: none."""
  return visit.value(
      'SELECT coalesce(max(role), 0) FROM grants WHERE project_id = ?'
      ' AND user_id = ?',
      project_id,
      visit.user,
  )


def group(visit: Visit, need: int = 0) -> tuple[sqlite3.Row, int]:
  """The group of the address, and the visitor's role in it.

  Raises:
    Missing: there is none, or the visitor may not see it.
    Forbidden: the visitor's role is lower than needed.
  """
  row = visit.find('groups', path=visit.match['space'])
  role = visit.value(
      'SELECT coalesce(max(role), 0) FROM group_members WHERE group_id = ?'
      ' AND user_id = ?',
      row['id'],
      visit.user,
  )
  if row['visibility'] == 'private' and not role:
    raise Missing
  if role < need:
    raise Forbidden('Your role in this group does not allow this.')
  return row, role


def people(visit: Visit, project_id: int) -> list[sqlite3.Row]:
  """The members of a project and of its group, by name."""
  return visit.all(
      'SELECT * FROM users WHERE id IN (SELECT user_id FROM grants WHERE'
      ' project_id = ?) ORDER BY name',
      project_id,
  )


def spaces(visit: Visit) -> list[sqlite3.Row]:
  """The groups in which the visitor may create projects."""
  return visit.all(
      'SELECT g.* FROM groups g JOIN group_members m ON m.group_id = g.id'
      ' WHERE m.user_id = ? AND m.role >= ? ORDER BY g.path',
      visit.user,
      DEVELOPER,
  )


def space(visit: Visit) -> Mapping[str, int | None]:
  """The owner that a form chose: `user_id` and `group_id`, one of them None.

  Raises:
    Wrong: it is none of the visitor's.
  """
  path = visit.text('namespace')
  for each in spaces(visit):
    if each['path'] == path:
      return {'user_id': None, 'group_id': each['id']}
  me = visit.value('SELECT username FROM users WHERE id = ?', visit.user)
  if path != me:
    raise Wrong('Namespace is not one of yours.')
  return {'user_id': visit.user, 'group_id': None}


def visibility(visit: Visit) -> str:
  """The visibility that a form chose.

  Raises:
    Wrong: there is no such visibility.
  """
  value = visit.text('visibility')
  if value not in VISIBILITIES:
    raise Wrong('Visibility must be private, internal or public.')
  return value


def path_of(name: str) -> str:
  """The path of something with this name.

  Raises:
    Wrong: no path can be made of it.
  """
  path = re.sub(r'[^\w.-]+', '-', name.strip(), flags=re.ASCII).strip('-')
  if not _PATH.fullmatch(path) or path == '-':
    raise Wrong('Path can have letters, digits, "_", "-" and "." only.')
  return path


def date(visit: Visit, name: str) -> str | None:
  """A day of the form as YYYY-MM-DD; None: the field is empty.

  Raises:
    Wrong: it is no day.
  """
  text = visit.text(name, most=40, needed=False)
  if not text:
    return None
  for form in ('%Y-%m-%d', '%m/%d/%Y'):
    try:
      return str(datetime.datetime.strptime(text, form).date())
    except ValueError:
      continue
  label = name.replace('_', ' ').capitalize()
  raise Wrong(f'{label} must be a day such as 2023-12-31.')
