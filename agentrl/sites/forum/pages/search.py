"""The search."""

from agentrl.sites.site import Page, Visit, like

_KINDS = {
    'submissions': 'Submissions',
    'comments': 'Comments',
    'forums': 'Forums',
    'users': 'Users',
}
# Kind -> the rows, and the text in which words are looked for.
_FROM = {
    'submissions': ('posts', "title || ' ' || coalesce(body, '')"),
    'comments': ('replies', 'body'),
    'forums': ('forums', "name || ' ' || title || ' ' || description"),
    'users': ('users', 'name'),
}
_SORTS = {'new': ('Newest', 'created_at DESC'), 'top': ('Top', 'score DESC')}
_MOST = 100  # characters of a query
_WORDS = 8


def results(visit: Visit) -> Page:
  """The rows that have all words of the query."""
  query = visit.query.get('q', '').strip()[:_MOST]
  kind = visit.chosen('type', _KINDS, 'submissions')
  has_score = kind in ('submissions', 'comments')
  sort = visit.chosen('sort', _SORTS if has_score else (), 'new')
  words = terms(query)
  counts = {each: _count(visit, each, words) for each in _KINDS if words}
  rows, paging = visit.shown(
      counts.get(kind, 0),
      f'SELECT * FROM {_FROM[kind][0]} WHERE {_where(kind, words)} ORDER BY'
      f' {_SORTS[sort][1]}, id DESC',
      *map(like, words),
  )
  return Page.of(
      'search.html',
      q=query,
      kind=kind,
      kinds=_KINDS,
      counts=counts,
      sort=sort,
      sorts={key: name for key, (name, _) in _SORTS.items()},
      has_score=has_score,
      rows=rows,
      paging=paging,
  )


def terms(query: str) -> list[str]:
  """What the search looks for: words in small letters."""
  return query.strip()[:_MOST].lower().split()[:_WORDS]


def _count(visit: Visit, kind: str, words: list[str]) -> int:
  # The view would count the comments of each row.
  table = {'posts': 'submissions', 'replies': 'comments'}.get(
      _FROM[kind][0], _FROM[kind][0]
  )
  return visit.value(
      f'SELECT count(*) FROM {table} WHERE {_where(kind, words)}',
      *map(like, words),
  )


def _where(kind: str, words: list[str]) -> str:
  text = _FROM[kind][1]
  shown = 'NOT is_deleted' if kind in ('submissions', 'comments') else '1'
  each = [f"({text}) LIKE ? ESCAPE '\\'"] * len(words)
  return ' AND '.join([shown, *each]) if words else '0'
