"""Grids: lists of records with search, filters, sorting and actions."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.sites.admin.pages import show
from agentrl.sites.site import Handler, Page, Redirect, Visit, Wrong, like

TEXT, CHOICE, MONEY, COUNT, TIME, NUMBER = (
    'text', 'choice', 'money', 'count', 'time', 'number',
)  # fmt: skip
_RANGES = {MONEY: show.cents, COUNT: show.whole, TIME: show.day}


@dataclasses.dataclass(frozen=True)
class Column:
  """A column of a grid.

  Attributes:
    name: of a column of the grid's source.
    label: its heading, and that of its filter.
    kind: TEXT is filtered by a part of it, CHOICE and NUMBER by equality, and
      MONEY, COUNT and TIME by a range.
    choices: values of a CHOICE and their labels.
    shown: False: it can be filtered alone.
  """

  name: str
  label: str
  kind: str = TEXT
  choices: Mapping[str, str] = dataclasses.field(default_factory=dict)
  shown: bool = True


@dataclasses.dataclass(frozen=True)
class Grid:
  """A list of records.

  Attributes:
    title: heading of the page.
    path: of the page.
    source: a query with a column `id` and those of `columns`.
    columns: in order; the first one names a row.
    link: address of a row's page with `{id}`; '': it has none.
    search: names of the columns that the keyword is looked for in.
    sort: name of the column, and 'asc' or 'desc', where nothing is chosen.
    actions: what can be done to chosen rows, by POST to `path`.
    new: address and label of the link that makes another record.
  """

  title: str
  path: str
  source: str
  columns: Sequence[Column]
  link: str = ''
  search: Sequence[str] = ()
  sort: tuple[str, str] = ('id', 'desc')
  actions: Mapping[str, str] = dataclasses.field(default_factory=dict)
  new: tuple[str, str] | None = None


def page(visit: Visit, grid: Grid) -> Page:
  """The rows that the address asks for.

  Raises:
    Wrong: a filter of a range has no number or date.
  """
  where, values, active = _filters(visit, grid)
  source = f'FROM ({grid.source}) {where}'
  names = [column.name for column in grid.columns]
  sort, direction = grid.sort
  if visit.query.get('sort') in names:
    sort = visit.query['sort']
    direction = 'desc' if visit.query.get('dir') == 'desc' else 'asc'
  rows, paging = visit.shown(
      visit.value(f'SELECT count(*) {source}', *values),
      f'SELECT * {source} ORDER BY {sort} {direction}, id {direction}',
      *values,
  )
  return Page.of(
      'grid.html',
      grid=grid,
      rows=rows,
      paging=paging,
      sort=(sort, direction),
      active=active,
  )


def listing(grid: Grid) -> Handler:
  """The handler that shows a grid."""
  return lambda visit: page(visit, grid)


def chosen(visit: Visit, grid: Grid) -> tuple[str, list[int]]:
  """The action of a grid's form, and the ids that it is for.

  Raises:
    Wrong: one of the two is missing.
  """
  action = visit.form.get('action', '')
  if action not in grid.actions:
    raise Wrong('Choose an action.')
  ids = [show.whole(x, 'Item') for x in visit.form.getall('ids', [])]
  if not ids:
    raise Wrong('You have not selected any items.')
  return action, sorted(set(ids))


def _filters(
    visit: Visit, grid: Grid
) -> tuple[str, Sequence[Any], Sequence[tuple[str, str]]]:
  """A WHERE clause, its values, and each filter's label and value."""
  clauses, values, active = [], [], []

  def add(clause: str, value: Any, label: str, display: str) -> None:
    clauses.append(clause)
    values.extend([value] * clause.count('?'))
    active.append((label, display))

  keyword = visit.query.get('keyword', '').strip()[:200]
  if keyword and grid.search:
    each = (f"{name} LIKE ? ESCAPE '\\'" for name in grid.search)
    add(f'({" OR ".join(each)})', like(keyword), 'Keyword', keyword)
  for column in grid.columns:
    name, label = column.name, column.label
    if column.kind in _RANGES:
      read = _RANGES[column.kind]
      for end, sign in (('from', '>='), ('to', '<=')):
        text = visit.query.get(f'{name}_{end}', '').strip()
        if text:
          left = f'date({name})' if column.kind == TIME else name
          value = read(text, f'{label} {end}')
          add(f'{left} {sign} ?', value, f'{label} {end}', text)
      continue
    text = visit.query.get(name, '').strip()[:200]
    if not text:
      continue
    if column.kind == TEXT:
      add(f"{name} LIKE ? ESCAPE '\\'", like(text), label, text)
    elif column.kind == NUMBER:
      add(f'{name} = ?', show.whole(text, label), label, text)
    else:
      add(f'{name} = ?', text, label, column.choices.get(text, text))
  where = f'WHERE {" AND ".join(clauses)}' if clauses else ''
  return where, values, active


def confirm(question: str, to: str, back: str, **fields: Any) -> Page:
  """A page that asks before something is done.

  Args:
    question: that is asked.
    to: address that OK posts to.
    back: address that Cancel leads to.
    **fields: hidden ones of the form; a list has one for each item.
  """
  pairs = [
      (name, each)
      for name, value in fields.items()
      for each in (value if isinstance(value, list) else [value])
  ]
  return Page.of(
      'confirm.html', question=question, to=to, back=back, fields=pairs
  )


def asking_delete(grid: Grid, table: str, noun: str) -> Handler:
  """The handler that asks whether a row of a grid is to be deleted."""

  def ask(visit: Visit) -> Page:
    path = grid.link.format(id=visit.row(table)['id'])
    question = f'Are you sure you want to delete this {noun}?'
    return confirm(question, f'{path}/delete', path)

  return ask


def deleting(grid: Grid, table: str, notice: str) -> Handler:
  """The handler that deletes a row of a grid."""

  def delete(visit: Visit) -> Redirect:
    visit.delete(table, id=visit.row(table)['id'])
    return Redirect(grid.path, notice)

  return delete
