"""A submission: its page, and what is done to it."""

import sqlite3
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.sites.forum.pages import lists, show
from agentrl.sites.site import Forbidden, Missing, Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

_TITLE, _URL, _BODY = 300, 2000, 25_000  # characters
_MODERATE = {
    'pin': ('is_pinned', 1, 'The submission was pinned.'),
    'unpin': ('is_pinned', 0, 'The submission was unpinned.'),
    'lock': ('is_locked', 1, 'The submission was locked.'),
    'unlock': ('is_locked', 0, 'The submission was unlocked.'),
}


def thread(visit: Visit) -> Page | Redirect:
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
      **lists.sidebar(visit, visit.find('forums', id=post['forum_id'])),
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

  roots = under(None)
  if root is None:
    return roots
  row = visit.find('replies', id=root)
  return [{'row': row, 'below': under(root)}]


def new(visit: Visit) -> Page:
  """The form of a new submission."""
  typed = {'forum': visit.match.get('forum', '')}
  return _form(visit, typed)


def create(visit: Visit) -> Page | Redirect:
  """Adds a submission."""
  try:
    forum = visit.text('forum', most=100)
    forum_id = visit.value('SELECT id FROM forums WHERE name = ?', forum)
    if forum_id is None:
      raise Wrong('Choose a forum.')
    title, url, body = _read(visit)
  except Wrong as error:
    return _form(visit, visit.form, str(error))
  key = visit.insert(
      'submissions',
      forum_id=forum_id,
      user_id=visit.user,
      title=title,
      url=url,
      body=body,
      created_at=NOW,
  )
  post = visit.find('posts', id=key)
  return Redirect(show.path(post), 'Your submission was posted.')


def edit(visit: Visit) -> Page:
  """The form of a submission of one's own."""
  post = _mine(visit)
  typed = {name: post[name] or '' for name in ('title', 'url', 'body')}
  return _form(visit, typed, post=post)


def update(visit: Visit) -> Page | Redirect:
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
  return cast_vote(visit, 'submission', 'posts')


def cast_vote(visit: Visit, kind: str, view: str) -> Redirect:
  """Writes the vote of a form.

  Args:
    visit: whose form has the choice.
    kind: 'submission' or 'comment'.
    view: that has the row of the address, which the vote is about.

  Raises:
    Missing: it is deleted.
    Forbidden: it is the visitor's own.
    Wrong: there is no such choice.
  """
  row = _there(visit, view)
  if row['user_id'] == visit.user:
    raise Forbidden('You cannot vote for what you wrote yourself.')
  choice = visit.form.get('choice', '')
  if choice not in ('1', '0', '-1'):
    raise Wrong('Choice must be 1, 0 or -1.')
  if choice == '0':
    visit.delete(f'{kind}_votes', **{f'{kind}_id': row['id']})
  else:
    visit.db.execute(
        f'INSERT INTO {kind}_votes ({kind}_id, user_id, choice) VALUES (?, ?,'
        f' ?) ON CONFLICT ({kind}_id) DO UPDATE SET choice = excluded.choice',
        (row['id'], visit.user, int(choice)),
    )
  return Redirect(show.back(visit, show.path(row)))


def bookmark(visit: Visit) -> Redirect:
  """Puts a submission among the bookmarks, or takes it from them."""
  post = _there(visit, 'posts')
  if post['bookmark']:
    visit.delete('bookmarks', id=post['bookmark'])
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
  return visit.has('moderators', forum_id=forum_id, user_id=visit.user)


def _post(visit: Visit) -> sqlite3.Row:
  return visit.row('posts')


def _there(visit: Visit, view: str) -> sqlite3.Row:
  row = visit.row(view)
  if row['is_deleted']:
    raise Missing
  return row


def mine(visit: Visit, kind: str, view: str) -> sqlite3.Row:
  """The submission or comment of the address, which the visitor wrote.

  Args:
    visit: whose address it is.
    kind: 'submission' or 'comment'.
    view: that has its row.

  Raises:
    Missing: there is none, or it is deleted.
    Forbidden: somebody else wrote it.
  """
  row = _there(visit, view)
  if row['user_id'] != visit.user:
    raise Forbidden(f'This {kind} is not yours.')
  return row


def _mine(visit: Visit) -> sqlite3.Row:
  return mine(visit, 'submission', 'posts')


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
  return Page.form(
      'submit.html',
      error,
      forums=visit.column('SELECT name FROM forums ORDER BY lower(name)'),
      typed={
          name: typed.get(name, '')
          for name in ('forum', 'title', 'url', 'body')
      },
      post=post,
  )
