"""A submission: its page, and what is done to it."""

import sqlite3
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.sites.forum.pages import lists, show
from agentrl.sites.site import (
    Answer,
    Forbidden,
    Missing,
    Page,
    Redirect,
    Visit,
    Wrong,
)
from agentrl.sites.store import NOW

_TITLE, _URL, _BODY = 300, 2000, 25_000  # characters
_MODERATE = {
    'pin': ('is_pinned', 1, 'The submission was pinned.'),
    'unpin': ('is_pinned', 0, 'The submission was unpinned.'),
    'lock': ('is_locked', 1, 'The submission was locked.'),
    'unlock': ('is_locked', 0, 'The submission was unlocked.'),
}


def thread(visit: Visit) -> Answer:
  """A submission with its comments, best first."""
  post = _post(visit)
  if post['forum'].lower() != visit.match['forum'].lower():
    raise Missing
  if visit.path.partition('?')[0] != show.path(post):
    return Redirect(show.path(post))
  return Page.of(
      'thread.html',
      post=post,
      mine=post['user_id'] == visit.user,
      tree=tree(visit, post['id']),
      **lists.sidebar(visit, _forum_of(visit, post)),
      error='',
      typed='',
  )


def tree(
    visit: Visit, submission: int, root: int | None = None
) -> Sequence[Mapping[str, Any]]:
  """The comments of a submission, or one of them, with those below."""
  below: dict[int | None, list[sqlite3.Row]] = {}
  for row in visit.all(
      'SELECT * FROM replies WHERE submission_id = ? ORDER BY score DESC, id',
      submission,
  ):
    below.setdefault(row['parent_id'], []).append(row)

  def under(key: int | None) -> list[Mapping[str, Any]]:
    return [
        {'row': row, 'below': under(row['id'])} for row in below.get(key, ())
    ]

  found = under(None)
  if root is None:
    return found
  row = visit.one('SELECT * FROM replies WHERE id = ?', root)
  return [{'row': row, 'below': under(root)}]


def new(visit: Visit) -> Page:
  """The form of a new submission."""
  typed = {'forum': visit.match.get('forum', '')}
  return _form(visit, typed)


def create(visit: Visit) -> Answer:
  """Adds a submission."""
  try:
    forum = visit.text('forum', most=100)
    row = visit.db.execute(
        'SELECT id FROM forums WHERE name = ?', (forum,)
    ).fetchone()
    if row is None:
      raise Wrong('Choose a forum.')
    title, url, body = _read(visit)
  except Wrong as error:
    return _form(visit, visit.form, str(error))
  key = visit.insert(
      'submissions',
      forum_id=row['id'],
      user_id=visit.user,
      title=title,
      url=url,
      body=body,
      created_at=NOW,
  )
  post = visit.one('SELECT * FROM posts WHERE id = ?', key)
  return Redirect(show.path(post), 'Your submission was posted.')


def edit(visit: Visit) -> Page:
  """The form of a submission of one's own."""
  post = _mine(visit)
  typed = {name: post[name] or '' for name in ('title', 'url', 'body')}
  return _form(visit, typed, post=post)


def update(visit: Visit) -> Answer:
  """Changes a submission of one's own."""
  post = _mine(visit)
  try:
    title, url, body = _read(visit)
  except Wrong as error:
    return _form(visit, visit.form, str(error), post=post)
  if (title, url, body) != (post['title'], post['url'], post['body']):
    visit.update(
        'submissions',
        post['id'],
        title=title,
        url=url,
        body=body,
        updated_at=NOW,
    )
  post = _post(visit)
  return Redirect(show.path(post), 'The submission was edited.')


def ask_delete(visit: Visit) -> Page:
  """Asks whether a submission of one's own is to go."""
  post = _mine(visit)
  return Page.of(
      'delete.html', kind='submission', text=post['title'], to=show.path(post)
  )


def delete(visit: Visit) -> Redirect:
  """Deletes a submission of one's own."""
  post = _mine(visit)
  visit.update('submissions', post['id'], is_deleted=1)
  return Redirect(f'/f/{post["forum"]}', 'The submission was deleted.')


def vote(visit: Visit) -> Redirect:
  """Votes for or against a submission, or takes the vote back."""
  post = _post(visit)
  if post['is_deleted']:
    raise Missing
  cast_vote(visit, 'submission', post)
  return Redirect(show.back(visit, show.path(post)))


def cast_vote(visit: Visit, table: str, row: sqlite3.Row) -> None:
  """Writes the vote of a form.

  Args:
    visit: whose form has the choice.
    table: 'submission' or 'comment'.
    row: that the vote is about.

  Raises:
    Forbidden: it is the visitor's own.
    Wrong: there is no such choice.
  """
  if row['user_id'] == visit.user:
    raise Forbidden('You cannot vote for what you wrote yourself.')
  choice = visit.form.get('choice', '')
  if choice not in ('1', '0', '-1'):
    raise Wrong('Choice must be 1, 0 or -1.')
  if choice == '0':
    visit.db.execute(
        f'DELETE FROM {table}_votes WHERE {table}_id = ?', (row['id'],)
    )
    return
  visit.db.execute(
      f'INSERT INTO {table}_votes ({table}_id, user_id, choice) VALUES (?, ?,'
      f' ?) ON CONFLICT ({table}_id) DO UPDATE SET choice = excluded.choice',
      (row['id'], visit.user, int(choice)),
  )


def bookmark(visit: Visit) -> Redirect:
  """Puts a submission among the bookmarks, or takes it from them."""
  post = _post(visit)
  if post['is_deleted']:
    raise Missing
  if post['bookmark']:
    visit.delete('bookmarks', post['bookmark'])
    notice = 'The bookmark was removed.'
  else:
    visit.insert(
        'bookmarks',
        submission_id=post['id'],
        user_id=visit.user,
        created_at=NOW,
    )
    notice = 'The submission was bookmarked.'
  return Redirect(show.back(visit, show.path(post)), notice)


def moderate(visit: Visit) -> Redirect:
  """Pins or locks a submission in a forum that the visitor moderates."""
  post = _post(visit)
  if not moderates(visit, post['forum_id']):
    raise Forbidden('You are not a moderator of this forum.')
  action = visit.form.get('action', '')
  if action not in _MODERATE:
    raise Wrong(f'Action must be one of {", ".join(_MODERATE)}.')
  column, value, notice = _MODERATE[action]
  visit.update('submissions', post['id'], **{column: value})
  return Redirect(show.path(post), notice)


def moderates(visit: Visit, forum_id: int) -> bool:
  """True if the visitor is a moderator of a forum."""
  return visit.exists(
      'SELECT 1 FROM moderators WHERE forum_id = ? AND user_id = ?',
      forum_id,
      visit.user,
  )


def _post(visit: Visit) -> sqlite3.Row:
  return visit.row('posts')


def _mine(visit: Visit) -> sqlite3.Row:
  post = _post(visit)
  if post['is_deleted']:
    raise Missing
  if post['user_id'] != visit.user:
    raise Forbidden('This submission is not yours.')
  return post


def _forum_of(visit: Visit, post: sqlite3.Row) -> sqlite3.Row:
  return visit.one('SELECT * FROM forums WHERE id = ?', post['forum_id'])


def _read(visit: Visit) -> tuple[str, str | None, str | None]:
  """Title, address and text of the form."""
  title = ' '.join(visit.text('title', most=_TITLE).split())
  url = visit.form.get('url', '').strip()
  if len(url) > _URL:
    raise Wrong(f'URL is too long (maximum is {_URL} characters).')
  if url and not _is_address(url):
    raise Wrong('URL must be an http:// or https:// address.')
  body = visit.text('body', most=_BODY, needed=False)
  return title, url or None, body or None


def _is_address(url: str) -> bool:
  try:
    parts = urllib.parse.urlsplit(url)
  except ValueError:
    return False
  return parts.scheme in ('http', 'https') and bool(parts.netloc)


def _form(
    visit: Visit,
    typed: Mapping[str, str],
    error: str = '',
    *,
    post: sqlite3.Row | None = None,
) -> Page:
  forums = visit.all('SELECT name FROM forums ORDER BY lower(name)')
  return Page.form(
      'submit.html',
      error,
      forums=[x['name'] for x in forums],
      typed={
          name: typed.get(name, '')
          for name in ('forum', 'title', 'url', 'body')
      },
      post=post,
  )
