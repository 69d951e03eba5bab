"""Lists of products: the home page, categories, search and the sale."""

import re
import sqlite3
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.sites.site import Answer, Page, Redirect, Visit, like

# Label of a sort order -> its column.
ORDERS = {'position': 'p.id', 'name': 'p.name', 'price': 'p.price_cents'}
_STARS = (
    '(SELECT {} FROM reviews r WHERE r.product_id = p.id AND r.status ='
    " 'approved')"
)
# What a product's card shows.
CARD = (
    f'p.*, {_STARS.format("avg(r.stars)")} AS stars,'
    f' {_STARS.format("count(*)")} AS reviews, EXISTS (SELECT 1 FROM options o'
    ' WHERE o.product_id = p.id) AS has_options, (SELECT d.position FROM'
    ' categories c JOIN categories g ON g.id = c.parent_id JOIN categories d'
    ' ON d.id = g.parent_id WHERE c.id = p.category_id) AS icon'
)
_MOST_BRANDS = 20  # among the filters


def home(visit: Visit) -> Page:
  """The start page, with the newest products."""
  return Page.of(
      'home.html',
      products=visit.all(
          f'SELECT {CARD} FROM products p WHERE p.enabled'
          ' ORDER BY p.created_at DESC LIMIT 8'
      ),
      groups=visit.all(
          'SELECT * FROM categories WHERE parent_id IN (SELECT id FROM'
          ' categories WHERE parent_id IS NULL) ORDER BY parent_id,'
          ' position'
      ),
  )


def category(visit: Visit, row: sqlite3.Row) -> Answer:
  """The products of a category and of those in it."""
  return _listed(
      visit,
      row['name'],
      'p.category_id IN (SELECT id FROM categories WHERE path = ?'
      " OR path LIKE ? || '/%')",
      (row['path'], row['path']),
      trail=trail(visit, row['id']),
      children=visit.all(
          'SELECT c.*, (SELECT count(*) FROM products p JOIN categories x ON'
          ' x.id = p.category_id WHERE p.enabled AND (x.id = c.id OR x.path'
          " LIKE c.path || '/%')) AS count FROM categories c"
          ' WHERE c.parent_id = ? ORDER BY c.position',
          row['id'],
      ),
  )


def sale(visit: Visit) -> Answer:
  """The reduced products."""
  return _listed(visit, 'Sale', 'p.list_cents IS NOT NULL', ())


def search(visit: Visit) -> Answer:
  """The products whose name or SKU has all words that are asked for."""
  words = visit.query.get('q', '')[:200].split()
  search_terms = terms(visit.query.get('q', ''))
  if not words:
    return Redirect('/', 'Say what you look for.')
  return _listed(
      visit,
      f"Search results for: '{' '.join(words)}'",
      ' AND '.join(
          "(p.name LIKE ? ESCAPE '\\' OR p.sku LIKE ? ESCAPE '\\')"
          for _ in search_terms
      ),
      tuple(like(term) for term in search_terms for _ in range(2)),
  )


def terms(query: str) -> Sequence[str]:
  """What the search looks for in names and SKUs: words in small letters."""
  return [_stem(word) for word in query[:200].lower().split()]


def advanced(_: Visit) -> Page:
  """The form of the advanced search."""
  return Page('advanced.html')


def advanced_result(visit: Visit) -> Answer:
  """The products that the advanced search finds."""
  wheres, values = [], []
  for name in ('name', 'sku', 'description'):
    for word in visit.query.get(name, '')[:200].split():
      wheres.append(f"p.{name} LIKE ? ESCAPE '\\'")
      values.append(like(word))
  priced = any(visit.query.get(x) for x in ('price_from', 'price_to'))
  if not wheres and not priced:
    return Redirect(
        '/catalogsearch/advanced', 'Enter a search term and try again.'
    )
  return _listed(
      visit,
      'Catalog Advanced Search',
      ' AND '.join(wheres) or '1',
      tuple(values),
  )


def trail(visit: Visit, category_id: int) -> Sequence[sqlite3.Row]:
  """A category and those above it, the highest first."""
  return visit.all(
      'WITH RECURSIVE up (id, depth) AS (SELECT ?, 0 UNION ALL SELECT'
      ' c.parent_id, up.depth + 1 FROM categories c JOIN up ON c.id = up.id'
      ' WHERE c.parent_id IS NOT NULL) SELECT c.* FROM up JOIN categories c'
      ' ON c.id = up.id ORDER BY up.depth DESC',
      category_id,
  )


def _listed(
    visit: Visit,
    title: str,
    where: str,
    values: Sequence[Any],
    *,
    trail: Sequence[sqlite3.Row] = (),
    children: Sequence[sqlite3.Row] = (),
) -> Answer:
  """A page of the products that fit, after the filters of the address."""
  canonical = _canonical(visit)
  if canonical is not None:
    return Redirect(canonical)
  query = visit.query
  where = f'p.enabled AND {where}'
  clause = f'FROM products p WHERE {where}'
  brands = visit.all(
      f'SELECT p.brand AS name, count(*) AS count {clause} GROUP BY p.brand'
      f' ORDER BY count DESC, p.brand LIMIT {_MOST_BRANDS}',
      *values,
  )
  dearest = visit.value(f'SELECT max(p.price_cents) {clause}', *values) or 0
  for name, sql, read in (
      ('price_from', 'p.price_cents >= ?', cents),
      ('price_to', 'p.price_cents <= ?', cents),
      ('brand', 'p.brand = ?', str),
      ('rating', f'{_STARS.format("avg(r.stars)")} >= ?', _stars),
  ):
    value = read(query[name]) if query.get(name) else None
    if value is not None:
      where += f' AND {sql}'
      values = (*values, value)
  clause = f'FROM products p WHERE {where}'
  order = query.get('order', '')
  column = ORDERS.get(order, 'p.id')
  down = 'DESC' if query.get('dir') == 'desc' else 'ASC'
  products, paging = visit.shown(
      visit.value(f'SELECT count(*) {clause}', *values),
      f'SELECT {CARD} {clause} ORDER BY {column} {down}, p.id',
      *values,
  )
  return Page.of(
      'listing.html',
      title=title,
      trail=trail,
      children=children,
      brands=sorted(brands, key=lambda row: row['name']),
      prices=_steps(dearest),
      order=order if order in ORDERS else 'position',
      down=down == 'DESC',
      chosen=_chosen(query),
      paging=paging,
      products=products,
  )


def _canonical(visit: Visit) -> str | None:
  """The address in its usual form, so that one list has one; None: it is."""
  query = dict(visit.query)
  for name in ('price_from', 'price_to'):
    amount = cents(query.get(name, ''))
    if amount is None:
      query.pop(name, None)
    else:
      query[name] = f'{amount / 100:.2f}'.removesuffix('.00')
  if 'order' in query:
    query['dir'] = 'desc' if query.get('dir') == 'desc' else 'asc'
  if query == dict(visit.query):
    return None
  path = urllib.parse.urlsplit(visit.path).path
  return f'{path}?{urllib.parse.urlencode(query)}'


def cents(text: str) -> int | None:
  """An amount in dollars that somebody wrote; None: it is none."""
  match = re.fullmatch(r'\$?([0-9]{1,6})(?:\.([0-9]{1,2}))?', text.strip())
  if match is None:
    return None
  return 100 * int(match[1]) + int((match[2] or '0').ljust(2, '0'))


def _stars(text: str) -> int | None:
  return int(text) if text in ('1', '2', '3', '4') else None


def _steps(dearest: int) -> Sequence[tuple[str, str]]:
  """Ranges of prices, as the texts of their ends in dollars."""
  step = next((x for x in (10, 20, 50, 100, 200) if dearest <= 600 * x), 500)
  return [
      (str(low), f'{low + step - 0.01:.2f}')
      for low in range(0, dearest // 100 + 1, step)
  ]


def _chosen(query: Mapping[str, str]) -> Sequence[tuple[str, str]]:
  """Filters in force: what they are and the address without each."""
  labels = {
      'brand': 'Brand: {}',
      'price_from': 'Price from ${}',
      'price_to': 'Price to ${}',
      'rating': 'Rating: {} & up',
  }
  filters = []
  for name, label in labels.items():
    if query.get(name):
      left = [(k, v) for k, v in query.items() if k not in (name, 'page')]
      filters.append(
          (label.format(query[name]), '?' + urllib.parse.urlencode(left))
      )
  return filters


def _stem(word: str) -> str:
  """A word without the s of a plural."""
  return word[:-1] if len(word) > 3 and word.lower().endswith('s') else word
