"""The search."""

from agentrl.sites.site import Page, Visit

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
  kind = visit.query.get('type', 'submissions')
  if kind not in _KINDS:
    kind = 'submissions'
  sort = visit.query.get('sort', 'new')
  has_score = kind in ('submissions', 'comments')
  if sort not in _SORTS or not has_score:
    sort = 'new'
  words = terms(query)
  counts = {each: _count(visit, each, words) for each in _KINDS if words}
  paging = visit.page(counts.get(kind, 0))
  rows = []
  if words:
    table, _ = _FROM[kind]
    rows = visit.all(
        f'SELECT * FROM {table} WHERE {_where(kind, words)} ORDER BY'
        f' {_SORTS[sort][1]}, id DESC LIMIT ? OFFSET ?',
        *map(_pattern, words),
        *paging.window,
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
      *map(_pattern, words),
  )


def _where(kind: str, words: list[str]) -> str:
  text = _FROM[kind][1]
  shown = ['NOT is_deleted'] if kind in ('submissions', 'comments') else []
  return ' AND '.join([*shown, *[f"({text}) LIKE ? ESCAPE '\\'"] * len(words)])


def _pattern(word: str) -> str:
  for mark in ('\\', '%', '_'):
    word = word.replace(mark, f'\\{mark}')
  return f'%{word}%'
