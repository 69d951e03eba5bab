"""Users: their profiles, and following them."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from agentrl.sites.forge.pages import lists
from agentrl.sites.site import Page, Redirect, Visit, Wrong


def _frame(visit: Visit) -> tuple[sqlite3.Row, Mapping[str, Any]]:
  """The user of the address, and what all of the profile's pages show."""
  user = visit.one(
      'SELECT u.*, (SELECT count(*) FROM follows WHERE followed_id = u.id) AS'
      ' followers, (SELECT count(*) FROM follows WHERE user_id = u.id) AS'
      ' following FROM users u WHERE username = ?',
      visit.match['space'],
  )
  follows = visit.has('follows', user_id=visit.user, followed_id=user['id'])
  return user, {'user': user, 'follows': follows}


def profile(visit: Visit) -> Page:
  """A user's page."""
  user, frame = _frame(visit)
  commits = visit.all(
      'SELECT c.*, p.full_path FROM commits c JOIN branches b ON b.id ='
      ' c.branch_id JOIN paths p ON p.id = b.project_id WHERE c.author_id = ?'
      " AND p.visibility != 'private' ORDER BY c.created_at DESC, c.id DESC"
      ' LIMIT 10',
      user['id'],
  )
  opened = visit.all(
      'SELECT * FROM issue_items WHERE author_id = ? AND visibility !='
      " 'private' ORDER BY created_at DESC, id DESC LIMIT 5",
      user['id'],
  )
  return Page.of('profile.html', **frame, commits=commits, opened=opened)


def projects(visit: Visit) -> Page:
  """A user's personal projects."""
  user, frame = _frame(visit)
  values = lists.projects(visit, 'user_id = ?', user['id'])
  return Page.of('user_projects.html', **frame, **values, tab='Projects')


def starred(visit: Visit) -> Page:
  """The projects that a user has starred."""
  user, frame = _frame(visit)
  values = lists.projects(
      visit,
      'id IN (SELECT project_id FROM stars WHERE user_id = ?)',
      user['id'],
  )
  return Page.of('user_projects.html', **frame, **values, tab='Starred')


def followers(visit: Visit) -> Page:
  """The followers of a user."""
  return _people(visit, 'Followers', 'user_id', 'followed_id')


def following(visit: Visit) -> Page:
  """The users that a user follows."""
  return _people(visit, 'Following', 'followed_id', 'user_id')


def _people(visit: Visit, tab: str, shown: str, fixed: str) -> Page:
  user, frame = _frame(visit)
  rows, paging = visit.shown(
      user[tab.lower()],
      f'SELECT u.* FROM follows f JOIN users u ON u.id = f.{shown} WHERE'
      f' f.{fixed} = ? ORDER BY u.name, u.id',
      user['id'],
  )
  return Page.of(
      'user_people.html', **frame, people=rows, paging=paging, tab=tab
  )


def follow(visit: Visit) -> Redirect:
  """Follows a user."""
  user, frame = _frame(visit)
  if user['id'] == visit.user:
    raise Wrong('You cannot follow yourself.')
  if not frame['follows']:
    visit.insert('follows', user_id=visit.user, followed_id=user['id'])
  return Redirect(f'/{user["username"]}')


def unfollow(visit: Visit) -> Redirect:
  """Follows a user no more."""
  user, _ = _frame(visit)
  visit.delete('follows', user_id=visit.user, followed_id=user['id'])
  return Redirect(f'/{user["username"]}')
