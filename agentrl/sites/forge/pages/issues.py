"""Issues of a project."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from agentrl.sites.forge.pages import access, lists
from agentrl.sites.forge.pages.access import REPORTER, Place
from agentrl.sites.site import Forbidden, Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW


def listing(visit: Visit) -> Page:
  """The issues of a project."""
  place = access.project(visit)
  values = lists.items(visit, 'issue_items', 'i.project_id = ?', place.id)
  return place.page('items.html', **values, **_choices(visit, place))


def new(visit: Visit) -> Page:
  """The form that adds an issue."""
  place = access.project(visit)
  return place.page('issue_form.html', issue=None, **_choices(visit, place))


def create(visit: Visit) -> Redirect:
  """Adds an issue."""
  place = access.project(visit)
  number = next_number(visit, 'issues', place)
  values = {
      'project_id': place.id,
      'number': number,
      'author_id': visit.user,
      'title': visit.text('title', most=255),
      'description': visit.text('description', needed=False),
      'created_at': NOW,
      'updated_at': NOW,
  }
  if place.role >= REPORTER:
    values |= _sidebar(visit, place)
  key = visit.insert('issues', **values)
  if place.role >= REPORTER:
    _set_labels(visit, place, key)
  return Redirect(f'{place.url}/-/issues/{number}')


def show(visit: Visit) -> Page:
  """An issue with its comments."""
  place, issue = _issue(visit)
  return place.page(
      'issue.html',
      issue=issue,
      labels=lists.labels(visit, [issue['id']])[issue['id']],
      comments=comments(visit, 'issue_id', issue['id']),
      todo=todo(visit, 'issue_id', issue['id']),
      may_edit=access.may_edit(visit, place, issue, REPORTER),
      **_choices(visit, place),
  )


def edit(visit: Visit) -> Page:
  """The form that changes an issue's texts."""
  place, issue = _issue(visit, REPORTER)
  return place.page('issue_form.html', issue=issue, **_choices(visit, place))


def save(visit: Visit) -> Redirect:
  """Changes an issue's texts."""
  place, issue = _issue(visit, REPORTER)
  save_texts(visit, 'issues', issue['id'])
  return _shown(place, issue)


def set_state(visit: Visit) -> Redirect:
  """Closes or reopens an issue."""
  place, issue = _issue(visit, REPORTER)
  state = visit.text('state')
  if state not in ('opened', 'closed') or state == issue['state']:
    raise Wrong('The issue is in this state already.')
  visit.update('issues', issue['id'], state=state, updated_at=NOW)
  verb = 'closed' if state == 'closed' else 'reopened'
  return _shown(place, issue, f'The issue was {verb}.')


def set_sidebar(visit: Visit) -> Redirect:
  """Assignee, milestone, due date and labels."""
  place, issue = _issue(visit)
  place.need(REPORTER)
  values = _sidebar(visit, place)
  changed = {k: v for k, v in values.items() if issue[k] != v}
  if changed:
    visit.update('issues', issue['id'], **changed, updated_at=NOW)
  _set_labels(visit, place, issue['id'])
  return _shown(place, issue, 'The issue was updated.')


def comment(visit: Visit) -> Redirect:
  """Adds a comment on an issue."""
  place, issue = _issue(visit)
  add_comment(visit, 'issue_id', issue['id'])
  return _shown(place, issue)


def add_todo(visit: Visit) -> Redirect:
  """Puts an issue on the visitor's to-do list."""
  place, issue = _issue(visit)
  mark_todo(visit, 'issue_id', issue['id'])
  return _shown(place, issue)


def save_texts(visit: Visit, table: str, key: int) -> None:
  """Takes the form of the texts of an issue or a merge request."""
  visit.update(
      table,
      key,
      title=visit.text('title', most=255),
      description=visit.text('description', needed=False),
      updated_at=NOW,
  )


def add_comment(visit: Visit, column: str, key: int) -> None:
  """Takes the form of a comment on an issue or a merge request."""
  visit.insert(
      'comments',
      **{column: key},
      author_id=visit.user,
      body=visit.text('comment'),
      created_at=NOW,
  )


def comments(visit: Visit, column: str, key: int) -> list[sqlite3.Row]:
  """The comments on an issue or a merge request, oldest first."""
  return visit.all(
      'SELECT c.*, u.username, u.name FROM comments c JOIN users u ON'
      f' u.id = c.author_id WHERE c.{column} = ? ORDER BY c.created_at, c.id',
      key,
  )


def todo(visit: Visit, column: str, key: int) -> int | None:
  """The id of the visitor's pending to-do item; None: there is none."""
  return visit.value(
      f'SELECT id FROM todos WHERE {column} = ? AND user_id = ? AND state ='
      " 'pending'",
      key,
      visit.user,
  )


def mark_todo(visit: Visit, column: str, key: int) -> None:
  """Adds a to-do item of the visitor's own, unless one is pending."""
  if todo(visit, column, key) is None:
    visit.insert(
        'todos',
        user_id=visit.user,
        author_id=visit.user,
        **{column: key},
        kind='marked',
        created_at=NOW,
    )


def edit_comment(visit: Visit) -> Page:
  """The form that changes the visitor's comment."""
  place, row = _comment(visit)
  return place.page('comment_form.html', comment=row)


def save_comment(visit: Visit) -> Redirect:
  """Changes the visitor's comment."""
  place, row = _comment(visit)
  visit.update(
      'comments', row['id'], body=visit.text('comment'), updated_at=NOW
  )
  return Redirect(place.url + row['at'], 'The comment was updated.')


def delete_comment(visit: Visit) -> Redirect:
  """Removes the visitor's comment."""
  place, row = _comment(visit)
  visit.delete('comments', id=row['id'])
  return Redirect(place.url + row['at'], 'The comment was deleted.')


def _comment(visit: Visit) -> tuple[Place, sqlite3.Row]:
  """The visitor's comment of the address."""
  place = access.project(visit)
  row = visit.one(
      "SELECT c.*, coalesce('/-/issues/' || i.number, '/-/merge_requests/' ||"
      ' m.number) AS at FROM comments c LEFT JOIN issues i ON i.id ='
      ' c.issue_id LEFT JOIN merge_requests m ON m.id = c.merge_request_id'
      ' WHERE c.id = ? AND coalesce(i.project_id, m.project_id) = ?',
      visit.match['id'],
      place.id,
  )
  if row['author_id'] != visit.user:
    raise Forbidden('This comment is not yours.')
  return place, row


def next_number(visit: Visit, table: str, place: Place) -> int:
  """The number of the project's next issue or merge request."""
  return visit.value(
      f'SELECT coalesce(max(number), 0) + 1 FROM {table} WHERE project_id = ?',
      place.id,
  )


def member(visit: Visit, place: Place, field: str) -> int | None:
  """The id of the member that a form chose; None: nobody.

  Raises:
    Wrong: the user is no member.
  """
  username = visit.text(field, needed=False)
  if not username:
    return None
  for each in access.people(visit, place.id):
    if each['username'] == username:
      return each['id']
  raise Wrong(f'{field.capitalize()} must be a member of the project.')


def milestone(visit: Visit, place: Place) -> int | None:
  """The id of the milestone that a form chose; None: none of them.

  Raises:
    Wrong: the project does not have it.
  """
  title = visit.text('milestone', needed=False)
  if not title:
    return None
  key = visit.value(
      'SELECT id FROM milestones WHERE project_id = ? AND title = ?',
      place.id,
      title,
  )
  if key is None:
    raise Wrong('The project has no such milestone.')
  return key


def _sidebar(visit: Visit, place: Place) -> Mapping[str, Any]:
  return {
      'assignee_id': member(visit, place, 'assignee'),
      'milestone_id': milestone(visit, place),
      'due_on': access.date(visit, 'due_date'),
  }


def _set_labels(visit: Visit, place: Place, issue: int) -> None:
  rows = visit.rows('labels', 'id', project_id=place.id)
  ids = {row['name']: row['id'] for row in rows}
  chosen = visit.form.getall('labels', [])
  if any(name not in ids for name in chosen):
    raise Wrong('The project has no such label.')
  wanted = {ids[name] for name in chosen}
  rows = visit.rows('issue_labels', 'label_id', issue_id=issue)
  have = {row['label_id'] for row in rows}
  for label in sorted(wanted - have):
    visit.insert('issue_labels', issue_id=issue, label_id=label)
  for label in have - wanted:
    visit.delete('issue_labels', issue_id=issue, label_id=label)


def _shown(place: Place, issue: sqlite3.Row, notice: str = '') -> Redirect:
  return Redirect(f'{place.url}/-/issues/{issue["number"]}', notice)


def _issue(visit: Visit, editor: int = 0) -> tuple[Place, sqlite3.Row]:
  return access.item(visit, 'issue_items', editor)


def _choices(visit: Visit, place: Place) -> Mapping[str, Any]:
  """The values that fields of forms and filters offer."""
  labels = visit.rows('labels', 'name', project_id=place.id)
  return {
      **access.choices(visit, place),
      'all_labels': [row['name'] for row in labels],
  }
