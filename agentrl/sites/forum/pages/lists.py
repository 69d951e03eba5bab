"""Lists of submissions and of comments: the front page, and a forum's."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from agentrl.sites.site import Page, Visit
from agentrl.sites.store import NOW

SORTS = {
    # Points and comments make a submission younger.
    'hot': (
        "CAST(strftime('%s', created_at) AS INTEGER) + 1800 * min(score, 150)"
        ' + 900 * comments DESC'
    ),
    'new': 'created_at DESC',
    'active': 'coalesce(commented_at, created_at) DESC',
    'top': 'score DESC',
    'most_commented': 'comments DESC',
}
SORT_NAMES = {
    'hot': 'Hot',
    'new': 'New',
    'active': 'Active',
    'top': 'Top',
    'most_commented': 'Most commented',
}
# Of the sorts that have one: name, and days.
TIMES = {
    'day': ('Past 24 hours', 1),
    'week': ('Past week', 7),
    'month': ('Past month', 30),
    'year': ('Past year', 365),
    'all': ('All time', None),
}
TIMED = ('top', 'most_commented')
_WHOSE = {
    'all': '1',
    'subscribed': (
        'forum_id IN (SELECT forum_id FROM subscriptions WHERE user_id = ?)'
    ),
    'moderated': (
        'forum_id IN (SELECT forum_id FROM moderators WHERE user_id = ?)'
    ),
}


def front(visit: Visit) -> Page:
  """The submissions of all forums, or of the visitor's."""
  me = visit.find('users', id=visit.user)
  of = visit.match.get('of', me['front_page'])
  sort = visit.match.get('sort', me['front_sort'])
  values = () if of == 'all' else (visit.user,)
  listing = _posts(visit, _WHOSE[of], values, sort)
  mine = visit.all(
      'SELECT name FROM forums JOIN subscriptions ON forum_id = forums.id'
      ' WHERE user_id = ? ORDER BY lower(name)',
      visit.user,
  )
  return Page.of('front.html', **listing, of=of, base=f'/{of}', forums=mine)


def forum(visit: Visit) -> Page:
  """The submissions of a forum, the pinned ones first while they are hot."""
  row = named(visit)
  sort = visit.match.get('sort', 'hot')
  listing = _posts(
      visit, 'forum_id = ?', (row['id'],), sort, pins=sort == 'hot'
  )
  return Page.of(
      'forum.html', **listing, **sidebar(visit, row), base=f'/f/{row["name"]}'
  )


def named(visit: Visit) -> sqlite3.Row:
  """The forum that the address names.

  Raises:
    Missing: there is none.
  """
  return visit.find('forums', name=visit.match['forum'])


def sidebar(visit: Visit, row: sqlite3.Row) -> Mapping[str, Any]:
  """What stands beside a forum's submissions."""
  key = row['id']
  moderators = visit.all(
      'SELECT u.id, u.name FROM moderators m JOIN users u ON u.id = m.user_id'
      ' WHERE m.forum_id = ? ORDER BY m.id',
      key,
  )
  return {
      'forum': row,
      'moderators': moderators,
      'moderates': visit.user in [x['id'] for x in moderators],
      'subscribers': visit.count('subscriptions', forum_id=key),
      'subscribed': visit.has(
          'subscriptions', forum_id=key, user_id=visit.user
      ),
  }


def comments(visit: Visit) -> Page:
  """The newest comments, of all forums or of one."""
  row = named(visit) if 'forum' in visit.match else None
  where = '1'
  values: tuple[Any, ...] = ()
  if row is not None:
    where = 's.forum_id = ?'
    values = (row['id'],)
  listing = comment_rows(visit, where, values)
  beside = sidebar(visit, row) if row is not None else {'forum': None}
  return Page.of('comments.html', **listing, **beside)


def comment_rows(
    visit: Visit, where: str, values: tuple[Any, ...]
) -> Mapping[str, Any]:
  """A page of comments, newest first.

  Args:
    visit: whose address has the page.
    where: a condition on a comment `c` and its submission `s`.
    values: of that condition.
  """
  where = (
      'SELECT c.id FROM comments c JOIN submissions s ON s.id ='
      f' c.submission_id WHERE {where} AND NOT c.is_deleted'
  )
  paging = visit.page(visit.value(f'SELECT count(*) FROM ({where})', *values))
  rows = visit.all(
      f'SELECT * FROM replies WHERE id IN ({where} ORDER BY c.created_at DESC,'
      ' c.id DESC LIMIT ? OFFSET ?) ORDER BY created_at DESC, id DESC',
      *values,
      *paging.window,
  )
  return {'comments': rows, 'paging': paging}


def post_rows(
    visit: Visit, where: str, values: tuple[Any, ...], order: str
) -> Mapping[str, Any]:
  """A page of submissions.

  Args:
    visit: whose address has the page.
    where: a condition on columns of `posts`.
    values: of that condition.
    order: of SQL.
  """
  where = f'{where} AND NOT is_deleted'
  rows, paging = visit.shown(
      visit.value(f'SELECT count(*) FROM posts WHERE {where}', *values),
      f'SELECT * FROM posts WHERE {where} ORDER BY {order}, id DESC',
      *values,
  )
  return {'posts': rows, 'paging': paging}


def _posts(
    visit: Visit,
    where: str,
    values: tuple[Any, ...],
    sort: str,
    *,
    pins: bool = False,
) -> Mapping[str, Any]:
  time = visit.chosen('t', TIMES, 'all')
  days = TIMES[time][1]
  if sort in TIMED and days is not None:
    where += ' AND created_at >= datetime(?, ?)'
    values = (*values, NOW, f'-{days} days')
  order = f'is_pinned DESC, {SORTS[sort]}' if pins else SORTS[sort]
  return {
      **post_rows(visit, where, values, order),
      'sort': sort,
      'sorts': SORT_NAMES,
      'time': time,
      'times': TIMES if sort in TIMED else {},
  }
