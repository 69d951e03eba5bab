"""Pages over all projects: issues, merge requests, to-do list, search."""

from collections.abc import Mapping
from typing import Any

from agentrl.sites.forge.pages import lists
from agentrl.sites.site import Page, Redirect, Visit

# Scope of a search -> table or view, the text that is searched, its order.
SCOPES = {
    'projects': (
        'repositories',
        "name || ' ' || full_path || ' ' || description",
        'stars DESC',
    ),
    'issues': ('issue_items', "title || ' ' || description", 'created_at DESC'),
    'merge_requests': (
        'merge_items',
        "title || ' ' || description",
        'created_at DESC',
    ),
    'milestones': ('found_milestones', 'title', 'due_on'),
    'commits': ('found_commits', 'message', 'created_at DESC'),
    'users': ('users', "username || ' ' || name", 'name'),
}
_TODO = """
SELECT t.*, u.username, u.name, coalesce(i.title, m.title) AS title,
  p.full_path,
  coalesce('/-/issues/' || i.number, '/-/merge_requests/' || m.number) AS at,
  coalesce(' #' || i.number, ' !' || m.number) AS mark
FROM todos t
JOIN users u ON u.id = t.author_id
LEFT JOIN issues i ON i.id = t.issue_id
LEFT JOIN merge_requests m ON m.id = t.merge_request_id
JOIN paths p ON p.id = coalesce(i.project_id, m.project_id)
WHERE t.user_id = ?
"""


def issues(visit: Visit) -> Page:
  """Issues of all projects; those assigned to the visitor by a link."""
  return _items(visit, 'issue_items', 'Issues')


def merge_requests(visit: Visit) -> Page:
  """Merge requests of all projects."""
  return _items(visit, 'merge_items', 'Merge requests')


def _items(visit: Visit, view: str, heading: str) -> Page:
  values = lists.items(visit, view)
  is_filtered = any(
      visit.query.get(field) for field in (*lists.FIELDS, 'search')
  )
  return Page.of(
      'dashboard_items.html', heading=heading, asked=is_filtered, **values
  )


def todos(visit: Visit) -> Page:
  """The visitor's to-do list."""
  state = visit.chosen('state', ('done',), 'pending')
  counts = visit.pairs(
      'SELECT state, count(*) FROM todos WHERE user_id = ? GROUP BY 1',
      visit.user,
  )
  kind = visit.query.get('kind', '')
  where = ' AND t.state = ?' + (' AND t.kind = ?' if kind else '')
  values = (state, kind) if kind else (state,)
  count = visit.value(
      f'SELECT count(*) FROM todos t WHERE t.user_id = ?{where}',
      visit.user,
      *values,
  )
  rows, paging = visit.shown(
      count,
      f'{_TODO}{where} ORDER BY t.created_at DESC, t.id DESC',
      visit.user,
      *values,
  )
  return Page.of(
      'todos.html',
      todos=rows,
      paging=paging,
      state=state,
      counts=counts,
      kind=kind,
  )


def set_todo(visit: Visit) -> Redirect:
  """Marks an item of the to-do list as done, or undoes that."""
  row = visit.one(f'{_TODO} AND t.id = ?', visit.user, visit.match['id'])
  state = 'pending' if row['state'] == 'done' else 'done'
  visit.update('todos', row['id'], state=state)
  back = visit.form.get('back', '')
  to = row['full_path'] + row['at'] if back else 'dashboard/todos'
  return Redirect(f'/{to}')


def search(visit: Visit) -> Page:
  """Results of a search in one scope, with the counts of all."""
  query = visit.query.get('search', '').strip()[:200]
  scope = visit.chosen('scope', SCOPES, 'projects')
  counts = {name: _count(visit, name, query) for name in SCOPES}
  table, text, order = SCOPES[scope]
  where, values = _where(visit, table, text, query)
  rows, paging = visit.shown(
      counts[scope],
      f'SELECT * FROM {table} WHERE {where} ORDER BY {order}, id',
      *values,
  )
  return Page.of(
      'search.html',
      said=query,
      scope=scope,
      counts=counts,
      paging=paging,
      rows=rows,
  )


def _count(visit: Visit, scope: str, query: str) -> int:
  table, text, _ = SCOPES[scope]
  where, values = _where(visit, table, text, query)
  return visit.value(f'SELECT count(*) FROM {table} WHERE {where}', *values)


def _where(
    visit: Visit, table: str, text: str, query: str
) -> tuple[str, list[Any]]:
  words = query.lower().split()[:10]
  where = ' AND '.join([f'instr(lower({text}), ?) > 0'] * len(words)) or '0'
  if table != 'users':
    project = 'id' if table == 'repositories' else 'project_id'
    where += (
        f" AND (visibility != 'private' OR {project} IN (SELECT project_id FROM"
        f' grants WHERE user_id = {int(visit.user_id)}))'
    )
  return where, words


def common(visit: Visit) -> Mapping[str, Any]:
  """Values that all pages show: the visitor, and what waits for them."""
  if visit.user is None:
    return {}
  count = lambda table, column, state: visit.count(
      table, **{column: visit.user, 'state': state}
  )
  return {
      'me': visit.find('users', id=visit.user),
      'waiting': {
          'issues': count('issues', 'assignee_id', 'opened'),
          'assigned': count('merge_requests', 'assignee_id', 'opened'),
          'reviews': count('merge_requests', 'reviewer_id', 'opened'),
          'todos': count('todos', 'user_id', 'pending'),
      },
  }
