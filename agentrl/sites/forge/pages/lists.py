"""Lists of issues, merge requests and projects: filters, sorting, pages."""

from collections.abc import Mapping
from typing import Any

from agentrl.sites.site import Visit

SEEN = (
    " (i.visibility != 'private' OR i.project_id IN (SELECT project_id FROM"
    ' grants WHERE user_id = {}))'
)
SORTS = {
    'created_date': ('Created date', 'i.created_at DESC, i.id DESC'),
    'created_asc': ('Created date, oldest first', 'i.created_at, i.id'),
    'updated_desc': ('Updated date', 'i.touched_at DESC, i.id DESC'),
    'updated_asc': ('Updated date, oldest first', 'i.touched_at, i.id'),
    'due_date': ('Due date', 'i.due_on IS NULL, i.due_on, i.id'),
    'title_asc': ('Title', 'i.title, i.id'),
    'comments_desc': ('Comments', 'i.comments DESC, i.id DESC'),
}
PROJECT_SORTS = {
    'latest_activity_desc': ('Updated date', 'pushed_at DESC, id'),
    'stars_desc': ('Most stars', 'stars DESC, id'),
    'forks_desc': ('Most forks', 'forks DESC, id'),
    'name_asc': ('Name', 'name COLLATE NOCASE, id'),
    'created_desc': ('Created date', 'created_at DESC, id'),
    'created_asc': ('Created date, oldest first', 'created_at, id'),
}
STATES = {
    'issue_items': ('opened', 'closed', 'all'),
    'merge_items': ('opened', 'merged', 'closed', 'all'),
}
# Fields of the filter form and the columns that they are compared with.
FIELDS = {
    'author_username': 'i.author',
    'assignee_username': 'i.assignee',
    'reviewer_username': 'i.reviewer',
    'milestone_title': 'i.milestone',
}


def items(
    visit: Visit, view: str, where: str = '1', *values: Any
) -> Mapping[str, Any]:
  """Values for a list of issues or merge requests, as the address asks.

  Args:
    visit: whose query has the filters.
    view: 'issue_items' or 'merge_items'.
    where: SQL about `i`, a row of the view, that all of them fulfil.
    *values: of its question marks.
  """
  where += ' AND' + SEEN.format(int(visit.user_id))
  parameters = list(values)
  for word in terms(visit.query.get('search', '')):
    where += ' AND instr(lower(i.title || char(10) || i.description), ?) > 0'
    parameters.append(word)
  for field, column in FIELDS.items():
    name = named(visit.query.get(field, ''))
    if not name or (field == 'reviewer_username' and view == 'issue_items'):
      continue
    if name == 'none' and field != 'author_username':
      where += f' AND {column} IS NULL'
    else:
      where += f' AND {column} = ? COLLATE NOCASE'
      parameters.append(name)
  for label in visit.query.getall('label_name[]', []):
    if label and view == 'issue_items':
      where += (
          ' AND i.id IN (SELECT x.issue_id FROM issue_labels x JOIN labels l ON'
          ' l.id = x.label_id WHERE l.name = ?)'
      )
      parameters.append(label)
  counts = visit.pairs(
      f'SELECT i.state, count(*) FROM {view} i WHERE {where} GROUP BY 1',
      *parameters,
  )
  counts['all'] = sum(counts.values())
  states = STATES[view]
  state = visit.chosen('state', states, 'opened')
  sort = visit.chosen('sort', SORTS, 'created_date')
  if state != 'all':
    where += ' AND i.state = ?'
    parameters.append(state)
  rows, paging = visit.shown(
      counts.get(state, 0),
      f'SELECT i.* FROM {view} i WHERE {where} ORDER BY {SORTS[sort][1]}',
      *parameters,
  )
  return {
      'items': rows,
      'labels': (
          labels(visit, [row['id'] for row in rows])
          if view == 'issue_items'
          else {}
      ),
      'counts': {name: counts.get(name, 0) for name in states},
      'state': state,
      'sort': sort,
      'sorts': {key: name for key, (name, _) in SORTS.items()},
      'paging': paging,
      'kind': 'issues' if view == 'issue_items' else 'merge_requests',
  }


def terms(query: str) -> list[str]:
  """What a search of a list looks for: words in small letters."""
  return query.lower().split()[:10]


def named(field: str) -> str:
  """The name that a field of the filter form means, in small letters."""
  return field.strip().removeprefix('@').lower()


def labels(visit: Visit, issues: list[int]) -> Mapping[int, list[str]]:
  """The names of labels of issues, by the issue's id."""
  names: dict[int, list[str]] = {key: [] for key in issues}
  marks = ', '.join('?' * len(issues))
  for issue, name in visit.all(
      'SELECT x.issue_id, l.name FROM issue_labels x JOIN labels l ON'
      f' l.id = x.label_id WHERE x.issue_id IN ({marks}) ORDER BY l.name',
      *issues,
  ):
    names[issue].append(name)
  return names


def projects(
    visit: Visit, where: str, *values: Any, sort: str = 'latest_activity_desc'
) -> Mapping[str, Any]:
  """Values for a list of projects, as the address asks.

  Args:
    visit: whose query has the filters.
    where: SQL about a row of `repositories` that all of them fulfil.
    *values: of its question marks.
    sort: a key of PROJECT_SORTS that holds where the address has none.
  """
  where += (
      " AND (visibility != 'private' OR id IN (SELECT project_id FROM grants"
      f' WHERE user_id = {int(visit.user_id)}))'
  )
  parameters = list(values)
  for word in terms(visit.query.get('name', '')):
    where += " AND instr(lower(name || ' ' || full_path), ?) > 0"
    parameters.append(word)
  topic = visit.query.get('topic', '').strip()
  if topic:
    where += " AND instr(', ' || topics || ',', ?) > 0"
    parameters.append(f', {topic},')
  chosen = visit.chosen('sort', PROJECT_SORTS, sort)
  rows, paging = visit.shown(
      visit.value(
          f'SELECT count(*) FROM repositories WHERE {where}', *parameters
      ),
      f'SELECT * FROM repositories WHERE {where} ORDER BY'
      f' {PROJECT_SORTS[chosen][1]}',
      *parameters,
  )
  return {
      'projects': rows,
      'paging': paging,
      'sort': chosen,
      'sorts': {key: name for key, (name, _) in PROJECT_SORTS.items()},
  }
