"""Merge requests of a project."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from agentrl.sites.forge.pages import access, code, issues, lists
from agentrl.sites.forge.pages.access import DEVELOPER, Place
from agentrl.sites.site import Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW


def listing(visit: Visit) -> Page:
  """The merge requests of a project."""
  place = access.project(visit)
  values = lists.items(visit, 'merge_items', 'i.project_id = ?', place.id)
  return place.page('items.html', **values, **access.choices(visit, place))


def new(visit: Visit) -> Page:
  """Asks for the branches first, as long as the address does not name them."""
  place = access.project(visit, DEVELOPER)
  source = visit.query.get('source_branch', '')
  target = visit.query.get('target_branch', '')
  if source:
    _check_branches(visit, place, source, target)
  return place.page(
      'merge_form.html' if source else 'merge_branches.html',
      merge=None,
      source=source,
      target=target,
      branches=code.branch_names(visit, place),
      **access.choices(visit, place),
  )


def create(visit: Visit) -> Redirect:
  """Adds a merge request."""
  place = access.project(visit, DEVELOPER)
  source, target = visit.text('source_branch'), visit.text('target_branch')
  _check_branches(visit, place, source, target)
  number = issues.next_number(visit, 'merge_requests', place)
  visit.insert(
      'merge_requests',
      project_id=place.id,
      number=number,
      author_id=visit.user,
      source_branch=source,
      target_branch=target,
      title=visit.text('title', most=255),
      description=visit.text('description', needed=False),
      **_sidebar(visit, place),
      created_at=NOW,
      updated_at=NOW,
  )
  return Redirect(f'{place.url}/-/merge_requests/{number}')


def show(visit: Visit) -> Page:
  """A merge request with its comments."""
  place, merge = _merge(visit)
  approvals = visit.all(
      'SELECT u.id, u.username, u.name FROM approvals a JOIN users u ON'
      ' u.id = a.user_id WHERE a.merge_request_id = ? ORDER BY u.name',
      merge['id'],
  )
  return place.page(
      'merge.html',
      merge=merge,
      approvals=approvals,
      approved=any(x['id'] == visit.user for x in approvals),
      comments=issues.comments(visit, 'merge_request_id', merge['id']),
      todo=issues.todo(visit, 'merge_request_id', merge['id']),
      may_edit=access.may_edit(visit, place, merge, DEVELOPER),
      **access.choices(visit, place),
  )


def commits(visit: Visit) -> Page:
  """The commits of a merge request."""
  place, merge = _merge(visit)
  branch = visit.value(
      'SELECT id FROM branches WHERE project_id = ? AND name = ?',
      place.id,
      merge['source_branch'],
  )
  return place.page(
      'merge_commits.html',
      merge=merge,
      commits=visit.all(
          'SELECT c.*, u.username, u.name FROM commits c JOIN users u ON'
          ' u.id = c.author_id WHERE c.branch_id = ? ORDER BY c.created_at'
          ' DESC',
          branch,
      ),
  )


def edit(visit: Visit) -> Page:
  """The form that changes a merge request's texts."""
  place, merge = _merge(visit, DEVELOPER)
  return place.page(
      'merge_form.html',
      merge=merge,
      source=merge['source_branch'],
      target=merge['target_branch'],
      **access.choices(visit, place),
  )


def save(visit: Visit) -> Redirect:
  """Changes a merge request's texts."""
  place, merge = _merge(visit, DEVELOPER)
  issues.save_texts(visit, 'merge_requests', merge['id'])
  return _shown(place, merge, 'The merge request was updated.')


def set_sidebar(visit: Visit) -> Redirect:
  """Assignee, reviewer and milestone."""
  place, merge = _merge(visit)
  place.need(DEVELOPER)
  values = _sidebar(visit, place)
  changed = {k: v for k, v in values.items() if merge[k] != v}
  if changed:
    changed['updated_at'] = NOW
    visit.update('merge_requests', merge['id'], **changed)
  return _shown(place, merge, 'The merge request was updated.')


def set_state(visit: Visit) -> Redirect:
  """Closes or reopens a merge request."""
  place, merge = _merge(visit, DEVELOPER)
  state = visit.text('state')
  if state not in ('opened', 'closed') or merge['state'] in (state, 'merged'):
    raise Wrong('The merge request is in this state already.')
  visit.update('merge_requests', merge['id'], state=state, updated_at=NOW)
  verb = 'closed' if state == 'closed' else 'reopened'
  return _shown(place, merge, f'The merge request was {verb}.')


def merge(visit: Visit) -> Redirect:
  """Merges it: a commit on the target branch says so."""
  place, row = _merge(visit)
  place.need(DEVELOPER)
  if row['state'] != 'opened':
    raise Wrong('Only open merge requests can be merged.')
  visit.update('merge_requests', row['id'], state='merged', updated_at=NOW)
  branch = code.branch(visit, place, row['target_branch'])
  text = f"Merge branch '{row['source_branch']}' into '{row['target_branch']}'"
  code.add_commit(visit, branch['id'], text)
  return _shown(place, row, 'The merge request was merged.')


def approve(visit: Visit) -> Redirect:
  """Adds the visitor's approval."""
  place, row = _merge(visit)
  place.need(DEVELOPER)
  if row['author_id'] == visit.user:
    raise Wrong('You cannot approve your own merge request.')
  visit.insert('approvals', merge_request_id=row['id'], user_id=visit.user)
  return _shown(place, row, 'You approved the merge request.')


def revoke(visit: Visit) -> Redirect:
  """Removes the visitor's approval."""
  place, row = _merge(visit)
  visit.delete('approvals', merge_request_id=row['id'], user_id=visit.user)
  return _shown(place, row, 'Your approval was revoked.')


def comment(visit: Visit) -> Redirect:
  """Adds a comment on a merge request."""
  place, row = _merge(visit)
  issues.add_comment(visit, 'merge_request_id', row['id'])
  return _shown(place, row)


def add_todo(visit: Visit) -> Redirect:
  """Puts a merge request on the visitor's to-do list."""
  place, row = _merge(visit)
  issues.mark_todo(visit, 'merge_request_id', row['id'])
  return _shown(place, row)


def _shown(place: Place, row: sqlite3.Row, notice: str = '') -> Redirect:
  return Redirect(f'{place.url}/-/merge_requests/{row["number"]}', notice)


def _merge(visit: Visit, editor: int = 0) -> tuple[Place, sqlite3.Row]:
  return access.item(visit, 'merge_items', editor)


def _check_branches(
    visit: Visit, place: Place, source: str, target: str
) -> None:
  """Checks that a merge request between two branches can be opened.

  Raises:
    Wrong: a branch is missing, they are the same, or one is open already.
  """
  names = code.branch_names(visit, place)
  for name in (source, target):
    if name not in names:
      raise Wrong('Choose a source branch and a target branch of the project.')
  if source == target:
    raise Wrong('Source branch and target branch must be different.')
  if visit.has(
      'merge_requests',
      project_id=place.id,
      source_branch=source,
      target_branch=target,
      state='opened',
  ):
    raise Wrong('Another open merge request has these branches already.')


def _sidebar(visit: Visit, place: Place) -> Mapping[str, Any]:
  return {
      'assignee_id': issues.member(visit, place, 'assignee'),
      'reviewer_id': issues.member(visit, place, 'reviewer'),
      'milestone_id': issues.milestone(visit, place),
  }
