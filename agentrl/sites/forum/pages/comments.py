"""A comment: its page, and what is done to it."""

import sqlite3

from agentrl.sites.forum.pages import lists, show, submissions
from agentrl.sites.site import Forbidden, Missing, Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

_BODY = 10_000  # characters


def one(visit: Visit) -> Page:
  """A comment, those below it, and the form of a reply."""
  row = _comment(visit, int(visit.match['key']))
  if row['submission_id'] != int(visit.match['id']):
    raise Missing
  if row['forum'].lower() != visit.match['forum'].lower():
    raise Missing
  return _page(visit, row)


def create(visit: Visit) -> Page | Redirect:
  """Adds a comment to a submission, or a reply to a comment."""
  key = int(visit.match['id'])
  post = visit.find('posts', id=key)
  moderates = submissions.moderates(visit, post['forum_id'])
  if post['is_deleted'] or (post['is_locked'] and not moderates):
    raise Forbidden('This submission takes no more comments.')
  parent_id = visit.form.get('parent', '')
  parent = None
  if parent_id:
    if not (
        parent_id.isascii() and parent_id.isdecimal() and len(parent_id) < 10
    ):
      raise Missing
    parent = _comment(visit, int(parent_id))
    if parent['submission_id'] != key or parent['is_deleted']:
      raise Missing
  try:
    body = visit.text('comment', most=_BODY)
  except Wrong as error:
    if parent is not None:
      return _page(visit, parent, str(error))
    return Page.form(
        'thread.html',
        str(error),
        **_around(visit, post),
        tree=submissions.tree(visit, key),
        typed=visit.form.get('comment', ''),
    )
  visit.insert(
      'comments',
      submission_id=key,
      parent_id=parent['id'] if parent is not None else None,
      user_id=visit.user,
      body=body,
      created_at=NOW,
  )
  return Redirect(show.path(post), 'Your comment was posted.')


def edit(visit: Visit) -> Page:
  """The form of a comment of one's own."""
  row = _mine(visit)
  return Page.of('edit_comment.html', comment=row, typed=row['body'], error='')


def update(visit: Visit) -> Page | Redirect:
  """Changes a comment of one's own."""
  row = _mine(visit)
  try:
    body = visit.text('comment', most=_BODY)
  except Wrong as error:
    typed = visit.form.get('comment', '')
    return Page.form('edit_comment.html', str(error), comment=row, typed=typed)
  if body != row['body']:
    visit.update('comments', row['id'], body=body, updated_at=NOW)
  return Redirect(show.path(row), 'The comment was edited.')


def ask_delete(visit: Visit) -> Page:
  """Asks whether a comment of one's own is to go."""
  row = _mine(visit)
  return Page.of(
      'delete.html', kind='comment', text=row['body'], to=show.path(row)
  )


def delete(visit: Visit) -> Redirect:
  """Deletes a comment of one's own; replies stay."""
  row = _mine(visit)
  visit.update('comments', row['id'], is_deleted=1)
  post = visit.find('posts', id=row['submission_id'])
  return Redirect(show.path(post), 'The comment was deleted.')


def vote(visit: Visit) -> Redirect:
  """Votes for or against a comment, or takes the vote back."""
  return submissions.cast_vote(visit, 'comment', 'replies')


def _comment(visit: Visit, key: int) -> sqlite3.Row:
  return visit.find('replies', id=key)


def _mine(visit: Visit) -> sqlite3.Row:
  return submissions.mine(visit, 'comment', 'replies')


def _page(visit: Visit, row: sqlite3.Row, error: str = '') -> Page:
  post = visit.find('posts', id=row['submission_id'])
  return Page.form(
      'comment.html',
      error,
      **_around(visit, post),
      comment=row,
      tree=submissions.tree(visit, post['id'], row['id']),
      typed=visit.form.get('comment', ''),
  )


def _around(visit: Visit, post: sqlite3.Row) -> dict[str, object]:
  forum = visit.find('forums', id=post['forum_id'])
  return {
      'post': post,
      'mine': post['user_id'] == visit.user,
      **lists.sidebar(visit, forum),
  }
