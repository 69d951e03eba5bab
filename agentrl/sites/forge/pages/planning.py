"""Labels and milestones of a project."""

import re
import sqlite3

from agentrl.sites.forge.pages import access
from agentrl.sites.forge.pages.access import REPORTER, Place
from agentrl.sites.site import Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

_COLOR = re.compile('#[0-9a-f]{6}', re.IGNORECASE)


def labels(visit: Visit) -> Page:
  """The labels of a project."""
  place = access.project(visit)
  rows = visit.all(
      'SELECT l.*, count(i.id) AS issues FROM labels l LEFT JOIN issue_labels x'
      ' ON x.label_id = l.id LEFT JOIN issues i ON i.id = x.issue_id AND'
      " i.state = 'opened' WHERE l.project_id = ? GROUP BY l.id ORDER BY"
      ' l.name',
      place.id,
  )
  return place.page('labels.html', labels=rows)


def new_label(visit: Visit) -> Page:
  """The form that adds a label."""
  place = access.project(visit, REPORTER)
  return place.page('label_form.html', label=None)


def create_label(visit: Visit) -> Redirect:
  """Adds a label."""
  place = access.project(visit, REPORTER)
  visit.insert('labels', project_id=place.id, **_label_values(visit, place))
  return Redirect(f'{place.url}/-/labels', 'The label was created.')


def edit_label(visit: Visit) -> Page:
  """The form that changes a label."""
  place, row = _of(visit, 'labels', REPORTER)
  return place.page('label_form.html', label=row)


def save_label(visit: Visit) -> Redirect:
  """Changes a label."""
  place, row = _of(visit, 'labels', REPORTER)
  visit.update('labels', row['id'], **_label_values(visit, place, row['id']))
  return Redirect(f'{place.url}/-/labels', 'The label was updated.')


def delete_label(visit: Visit) -> Redirect:
  """Removes a label."""
  place, row = _of(visit, 'labels', REPORTER)
  visit.delete('labels', id=row['id'])
  return Redirect(f'{place.url}/-/labels', 'The label was deleted.')


def _label_values(visit: Visit, place: Place, key: int = 0) -> dict[str, str]:
  color = visit.text('background_color', most=7)
  if not _COLOR.fullmatch(color):
    raise Wrong('Background color must be a code such as #6699cc.')
  return {
      'name': _title(visit, place, 'labels', 'name', 60, key),
      'description': visit.text('description', most=200, needed=False),
      'color': color.lower(),
  }


def milestones(visit: Visit) -> Page:
  """The milestones of a project by state."""
  place = access.project(visit)
  state = visit.chosen('state', ('active', 'closed', 'all'), 'active')
  rows = visit.all(
      'SELECT m.*, (SELECT count(*) FROM issues i WHERE i.milestone_id = m.id)'
      ' AS issues, (SELECT count(*) FROM issues i WHERE i.milestone_id = m.id'
      " AND i.state = 'closed') AS closed FROM milestones m WHERE m.project_id"
      " = ? AND ? IN (m.state, 'all') ORDER BY m.due_on IS NULL, m.due_on,"
      ' m.id',
      place.id,
      state,
  )
  return place.page('milestones.html', milestones=rows, state=state)


def milestone(visit: Visit) -> Page:
  """A milestone with its issues and merge requests."""
  place, row = _of(visit, 'milestones')
  items = {
      table: visit.rows(table, 'number', milestone_id=row['id'])
      for table in ('issues', 'merge_requests')
  }
  return place.page('milestone.html', milestone=row, **items)


def new_milestone(visit: Visit) -> Page:
  """The form that adds a milestone."""
  place = access.project(visit, REPORTER)
  return place.page('milestone_form.html', milestone=None)


def create_milestone(visit: Visit) -> Redirect:
  """Adds a milestone."""
  place = access.project(visit, REPORTER)
  key = visit.insert(
      'milestones',
      project_id=place.id,
      **_milestone_values(visit, place),
      created_at=NOW,
  )
  return Redirect(f'{place.url}/-/milestones/{key}')


def edit_milestone(visit: Visit) -> Page:
  """The form that changes a milestone."""
  place, row = _of(visit, 'milestones', REPORTER)
  return place.page('milestone_form.html', milestone=row)


def save_milestone(visit: Visit) -> Redirect:
  """Changes a milestone."""
  place, row = _of(visit, 'milestones', REPORTER)
  values = _milestone_values(visit, place, row['id'])
  visit.update('milestones', row['id'], **values)
  return Redirect(f'{place.url}/-/milestones/{row["id"]}')


def set_milestone_state(visit: Visit) -> Redirect:
  """Closes or reopens a milestone."""
  place, row = _of(visit, 'milestones', REPORTER)
  state = visit.text('state')
  if state not in ('active', 'closed'):
    raise Wrong('State must be active or closed.')
  visit.update('milestones', row['id'], state=state)
  return Redirect(f'{place.url}/-/milestones/{row["id"]}')


def _milestone_values(
    visit: Visit, place: Place, key: int = 0
) -> dict[str, str | None]:
  starts = access.date(visit, 'start_date')
  due = access.date(visit, 'due_date')
  if starts and due and due < starts:
    raise Wrong('Due date must not be before start date.')
  return {
      'title': _title(visit, place, 'milestones', 'title', 100, key),
      'description': visit.text('description', needed=False),
      'starts_on': starts,
      'due_on': due,
  }


def _title(
    visit: Visit, place: Place, table: str, column: str, most: int, key: int
) -> str:
  """The title of a label or a milestone with this id; 0: of a new one.

  Raises:
    Wrong: another one of the project has it.
  """
  title = visit.text('title', most=most)
  if visit.value(
      f'SELECT 1 FROM {table} WHERE project_id = ? AND {column} = ? AND'
      ' id != ?',
      place.id,
      title,
      key,
  ):
    raise Wrong('Title has already been taken.')
  return title


def _of(visit: Visit, table: str, need: int = 0) -> tuple[Place, sqlite3.Row]:
  """The project and its row of the address, for visitors with this role."""
  place = access.project(visit, need)
  return place, visit.find(table, id=visit.match['id'], project_id=place.id)
