"""Forums: their table, new ones, and subscriptions."""

import re
import sqlite3
from collections.abc import Mapping

from agentrl.sites.forum.pages import lists, show, submissions
from agentrl.sites.site import Answer, Forbidden, Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

_SORTS = {
    'name': ('Name', 'lower(f.name)'),
    'title': ('Title', 'lower(f.title)'),
    'subscribers': ('Subscribers', 'subscribers DESC, lower(f.name)'),
    'submissions': ('Submissions', 'submissions DESC, lower(f.name)'),
}
_FIELDS = {'title': 100, 'description': 300, 'sidebar': 1500}  # characters


def table(visit: Visit) -> Page:
  """All forums, in one of four orders."""
  sort = visit.chosen('sort', _SORTS, 'name')
  rows, paging = visit.shown(
      visit.value('SELECT count(*) FROM forums'),
      'SELECT f.*, (SELECT count(*) FROM subscriptions x WHERE x.forum_id ='
      ' f.id) AS subscribers, (SELECT count(*) FROM submissions x WHERE'
      ' x.forum_id = f.id AND NOT x.is_deleted) AS submissions,'
      ' EXISTS (SELECT 1 FROM subscriptions x WHERE x.forum_id = f.id AND'
      f' x.user_id = ?) AS subscribed FROM forums f ORDER BY {_SORTS[sort][1]}',
      visit.user,
  )
  return Page.of(
      'forums.html',
      forums=rows,
      paging=paging,
      sort=sort,
      sorts={key: name for key, (name, _) in _SORTS.items()},
  )


def new(_: Visit) -> Page:
  """The form of a new forum."""
  return _form({})


def create(visit: Visit) -> Answer:
  """Adds a forum, of which the visitor is the moderator."""
  try:
    name = visit.text('name', most=25)
    if not re.fullmatch('[A-Za-z0-9_]{3,25}', name):
      raise Wrong(
          'Name must have 3 to 25 letters, digits or underscores, and nothing'
          ' else.'
      )
    if visit.has('forums', name=name):
      raise Wrong(f'Name is taken: there is a forum {name} already.')
    values = _read(visit)
  except Wrong as error:
    return _form(visit.form, str(error))
  key = visit.insert('forums', name=name, **values, created_at=NOW)
  visit.insert('moderators', forum_id=key, user_id=visit.user)
  return Redirect(f'/f/{name}', 'The forum was created.')


def edit(visit: Visit) -> Page:
  """The form of a forum that the visitor moderates."""
  row = _moderated(visit)
  return _form({name: row[name] for name in ('name', *_FIELDS)}, row=row)


def update(visit: Visit) -> Answer:
  """Changes a forum that the visitor moderates."""
  row = _moderated(visit)
  try:
    values = _read(visit)
  except Wrong as error:
    return _form(visit.form, str(error), row=row)
  visit.update('forums', row['id'], **values)
  return Redirect(f'/f/{row["name"]}', 'The forum was edited.')


def subscribe(visit: Visit) -> Redirect:
  """Adds a forum to the visitor's."""
  row = lists.named(visit)
  visit.db.execute(
      'INSERT INTO subscriptions (forum_id, user_id, created_at) VALUES'
      ' (?, ?, ?) ON CONFLICT DO NOTHING',
      (row['id'], visit.user, NOW),
  )
  to = show.back(visit, f'/f/{row["name"]}')
  return Redirect(to, f'You are subscribed to {row["name"]} now.')


def unsubscribe(visit: Visit) -> Redirect:
  """Takes a forum from the visitor's."""
  row = lists.named(visit)
  visit.delete('subscriptions', forum_id=row['id'], user_id=visit.user)
  to = show.back(visit, f'/f/{row["name"]}')
  return Redirect(to, f'You are no longer subscribed to {row["name"]}.')


def _moderated(visit: Visit) -> sqlite3.Row:
  row = lists.named(visit)
  if not submissions.moderates(visit, row['id']):
    raise Forbidden('You are not a moderator of this forum.')
  return row


def _read(visit: Visit) -> Mapping[str, str]:
  return {name: visit.text(name, most=most) for name, most in _FIELDS.items()}


def _form(
    typed: Mapping[str, str], error: str = '', *, row: sqlite3.Row | None = None
) -> Page:
  values = {name: typed.get(name, '') for name in ('name', *_FIELDS)}
  return Page.form('edit_forum.html', error, typed=values, forum=row)
