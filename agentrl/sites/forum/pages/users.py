"""Visitors: profiles, biographies, preferences, blocks and bookmarks."""

import sqlite3

from agentrl.sites.forum.pages import lists
from agentrl.sites.site import Forbidden, Missing, Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

_RECENT = 5  # submissions and comments on a profile
_BIOGRAPHY, _NOTE = 2000, 200  # characters
# Column -> its label, and its values with their labels.
PREFERENCES = {
    'front_page': (
        'Front page',
        {
            'subscribed': 'Subscribed forums',
            'all': 'All forums',
            'moderated': 'Moderated forums',
        },
    ),
    'front_sort': ('Default sort', lists.SORT_NAMES),
    'theme': ('Theme', {'light': 'Light', 'dark': 'Dark', 'sepia': 'Sepia'}),
    'messages_from': (
        'Receive messages from',
        {
            'everyone': 'Everyone',
            'moderators': 'Moderators',
            'nobody': 'Nobody',
        },
    ),
}


def profile(visit: Visit) -> Page:
  """A visitor, and what he or she wrote last."""
  user = named(visit)
  last = lambda view: visit.all(
      f'SELECT * FROM {view} WHERE user_id = ? AND NOT is_deleted'
      ' ORDER BY created_at DESC LIMIT ?',
      user['id'],
      _RECENT,
  )
  return _page(
      visit, user, 'user.html', posts=last('posts'), comments=last('replies')
  )


def submissions(visit: Visit) -> Page:
  """The submissions of a visitor, newest first."""
  user = named(visit)
  listing = lists.post_rows(
      visit, 'user_id = ?', (user['id'],), 'created_at DESC'
  )
  return _page(visit, user, 'user_submissions.html', **listing)


def comments(visit: Visit) -> Page:
  """The comments of a visitor, newest first."""
  user = named(visit)
  listing = lists.comment_rows(visit, 'c.user_id = ?', (user['id'],))
  return _page(visit, user, 'user_comments.html', **listing)


def edit_biography(visit: Visit) -> Page:
  """The form of one's biography."""
  user = _me(visit)
  typed = user['biography'] or ''
  return _page(visit, user, 'edit_biography.html', typed=typed, error='')


def update_biography(visit: Visit) -> Page | Redirect:
  """Changes one's biography."""
  user = _me(visit)
  try:
    text = visit.text('biography', most=_BIOGRAPHY, needed=False)
  except Wrong as error:
    values = {'typed': visit.form.get('biography', ''), 'error': str(error)}
    return _page(visit, user, 'edit_biography.html', **values)
  visit.update('users', user['id'], biography=text or None)
  return Redirect(f'/user/{user["name"]}', 'Your biography was saved.')


def preferences(visit: Visit) -> Page:
  """The form of one's preferences."""
  return _page(visit, _me(visit), 'preferences.html', preferences=PREFERENCES)


def update_preferences(visit: Visit) -> Redirect:
  """Changes one's preferences."""
  user = _me(visit)
  values = {name: visit.form.get(name, '') for name in PREFERENCES}
  for name, (label, choices) in PREFERENCES.items():
    if values[name] not in choices:
      raise Wrong(f'{label} must be one of {", ".join(choices.values())}.')
  visit.update('users', user['id'], **values)
  return Redirect(
      f'/user/{user["name"]}/preferences', 'Your preferences were saved.'
  )


def bookmarks(visit: Visit) -> Page:
  """The submissions that the visitor has marked, the last one first."""
  user = _me(visit)
  listing = lists.post_rows(
      visit,
      'bookmark IS NOT NULL AND 1 = ?',
      (1,),
      '(SELECT b.created_at FROM bookmarks b WHERE b.id = bookmark) DESC',
  )
  return _page(visit, user, 'bookmarks.html', **listing)


def block_list(visit: Visit) -> Page:
  """The users whom the visitor has blocked."""
  user = _me(visit)
  rows = visit.all(
      'SELECT u.name, b.note, b.created_at FROM blocks b JOIN users u ON u.id ='
      ' b.blocked_id WHERE b.user_id = ? ORDER BY b.created_at DESC, b.id DESC',
      user['id'],
  )
  return _page(visit, user, 'block_list.html', rows=rows)


def ask_block(visit: Visit) -> Page:
  """The form that blocks a user."""
  user = _other(visit)
  return _page(visit, user, 'block_user.html')


def block(visit: Visit) -> Redirect:
  """Blocks a user."""
  user = _other(visit)
  note = visit.text('note', most=_NOTE, needed=False)
  if _blocked(visit, user):
    raise Wrong(f'{user["name"]} is blocked already.')
  visit.insert(
      'blocks',
      user_id=visit.user,
      blocked_id=user['id'],
      note=note or None,
      created_at=NOW,
  )
  return Redirect(_list(visit), f'{user["name"]} was blocked.')


def unblock(visit: Visit) -> Redirect:
  """Takes a user from the blocked ones."""
  user = _other(visit)
  visit.delete('blocks', user_id=visit.user, blocked_id=user['id'])
  return Redirect(_list(visit), f'{user["name"]} is no longer blocked.')


def named(visit: Visit) -> sqlite3.Row:
  """The visitor that the address names.

  Raises:
    Missing: there is none.
  """
  return visit.find('users', name=visit.match['name'])


def _me(visit: Visit) -> sqlite3.Row:
  user = named(visit)
  if user['id'] != visit.user:
    raise Forbidden('This page is for its owner only.')
  return user


def _other(visit: Visit) -> sqlite3.Row:
  user = named(visit)
  if user['id'] == visit.user:
    raise Missing
  return user


def _blocked(visit: Visit, user: sqlite3.Row) -> bool:
  return visit.has('blocks', user_id=visit.user, blocked_id=user['id'])


def _list(visit: Visit) -> str:
  name = visit.value('SELECT name FROM users WHERE id = ?', visit.user)
  return f'/user/{name}/block_list'


def _page(
    visit: Visit, user: sqlite3.Row, template: str, **values: object
) -> Page:
  """A page with the user's card beside it; with an `error`, of status 422."""
  count = lambda table: visit.count(table, user_id=user['id'], is_deleted=0)
  card = {
      'user': user,
      'mine': user['id'] == visit.user,
      'blocked': _blocked(visit, user),
      'num_submissions': count('submissions'),
      'num_comments': count('comments'),
      'moderated': visit.all(
          'SELECT f.name FROM moderators m JOIN forums f ON f.id ='
          ' m.forum_id WHERE m.user_id = ? ORDER BY lower(f.name)',
          user['id'],
      ),
  }
  return Page(template, {**card, **values}, 422 if values.get('error') else 200)
