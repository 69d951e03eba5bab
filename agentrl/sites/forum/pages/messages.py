"""Private messages, and the replies to what the visitor wrote."""

import sqlite3

from agentrl.sites.forum.pages import lists, users
from agentrl.sites.site import Answer, Forbidden, Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

_TITLE, _BODY = 200, 5000  # characters


def inbox(visit: Visit) -> Page:
  """The visitor's threads of messages, the last one first."""
  where = 'user_id = ? OR other_id = ?'
  me = (visit.user, visit.user)
  rows, paging = visit.shown(
      visit.value(f'SELECT count(*) FROM threads WHERE {where}', *me),
      'SELECT t.*, u.name AS other, (SELECT count(*) FROM messages m WHERE'
      ' m.thread_id = t.id) AS messages, (SELECT max(created_at) FROM messages'
      ' m WHERE m.thread_id = t.id) AS written_at FROM threads t JOIN users u'
      ' ON u.id = CASE t.user_id WHEN ? THEN t.other_id ELSE t.user_id END'
      f' WHERE t.{where.replace("OR ", "OR t.")} ORDER BY written_at DESC,'
      ' t.id DESC',
      visit.user,
      *me,
  )
  return Page.of('messages.html', threads=rows, paging=paging)


def thread(visit: Visit) -> Page:
  """The messages of a thread, and the form of a reply."""
  return _page(visit, _mine(visit))


def reply(visit: Visit) -> Answer:
  """Adds a message to a thread."""
  row = _mine(visit)
  try:
    body = visit.text('message', most=_BODY)
  except Wrong as error:
    return _page(visit, row, str(error))
  _write(visit, row['id'], body)
  return Redirect(f'/messages/{row["id"]}', 'Your reply was sent.')


def compose(visit: Visit) -> Page:
  """The form of a message to a user."""
  return _form(visit, users.named(visit))


def send(visit: Visit) -> Answer:
  """Begins a thread with a user."""
  user = users.named(visit)
  if user['id'] == visit.user:
    raise Wrong('You cannot write to yourself.')
  try:
    title = ' '.join(visit.text('subject', most=_TITLE).split())
    body = visit.text('message', most=_BODY)
  except Wrong as error:
    return _form(visit, user, str(error))
  key = visit.insert(
      'threads',
      user_id=visit.user,
      other_id=user['id'],
      title=title,
      created_at=NOW,
  )
  _write(visit, key, body)
  return Redirect(f'/messages/{key}', 'Your message was sent.')


def replies(visit: Visit) -> Page:
  """The newest comments of others below what the visitor wrote."""
  listing = lists.comment_rows(
      visit,
      'c.user_id != ? AND (s.user_id = ? AND c.parent_id IS NULL OR'
      ' c.parent_id IN (SELECT id FROM comments WHERE user_id = ?))',
      (visit.user, visit.user, visit.user),
  )
  return Page('inbox.html', listing)


def _mine(visit: Visit) -> sqlite3.Row:
  row = visit.row('threads')
  if visit.user not in (row['user_id'], row['other_id']):
    raise Forbidden('These messages are not yours.')
  return row


def _write(visit: Visit, key: int, body: str) -> None:
  visit.insert(
      'messages', thread_id=key, user_id=visit.user, body=body, created_at=NOW
  )


def _page(visit: Visit, row: sqlite3.Row, error: str = '') -> Page:
  rows = visit.all(
      'SELECT m.*, u.name AS author FROM messages m JOIN users u ON u.id ='
      ' m.user_id WHERE m.thread_id = ? ORDER BY m.created_at, m.id',
      row['id'],
  )
  return Page.form(
      'messages_thread.html',
      error,
      thread=row,
      messages=rows,
      typed=visit.form.get('message', ''),
  )


def _form(visit: Visit, user: sqlite3.Row, error: str = '') -> Page:
  typed = {name: visit.form.get(name, '') for name in ('subject', 'message')}
  return Page.form('compose.html', error, user=user, typed=typed)
