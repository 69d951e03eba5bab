"""Pages of the shop's content, and themes."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from agentrl.sites.admin.pages import grid, show
from agentrl.sites.admin.pages.grid import Column, Grid
from agentrl.sites.shop.seed import catalogue
from agentrl.sites.site import Answer, Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

PAGES = Grid(
    title='Pages',
    path='/cms/page/',
    source="""
SELECT id, title, slug, created_at, updated_at,
  CASE enabled WHEN 1 THEN 'enabled' ELSE 'disabled' END AS status
FROM pages""",
    columns=(
        Column('title', 'Title'),
        Column('id', 'ID', grid.NUMBER),
        Column('slug', 'URL Key'),
        Column('status', 'Status', grid.CHOICE, show.ENABLED),
        Column('created_at', 'Created', grid.TIME),
        Column('updated_at', 'Modified', grid.TIME),
    ),
    link='/cms/page/edit/{id}',
    search=('title', 'slug'),
    sort=('id', 'asc'),
    new=('/cms/page/new', 'Add New Page'),
)
THEMES = Grid(
    title='Themes',
    path='/admin/system_design_theme/',
    source="""
SELECT t.id, t.title, coalesce(p.title, '') AS parent, t.path
FROM themes t LEFT JOIN themes p ON p.id = t.parent_id""",
    columns=(
        Column('title', 'Theme Title'),
        Column('parent', 'Parent Theme'),
        Column('path', 'Theme Path'),
    ),
    link='/admin/system_design_theme/edit/{id}',
    search=('title',),
    sort=('id', 'asc'),
)


def new(_: Visit) -> Page:
  """The form of a new page."""
  return _form({'status': 'enabled'})


def create(visit: Visit) -> Answer:
  """Adds a page."""
  try:
    values = _read(visit)
    slug = catalogue.slug(values['title'])
    if not slug or visit.has('pages', slug=slug):
      raise Wrong('Another page has this title.')
  except Wrong as error:
    return _form(dict(visit.form), error=str(error))
  values |= {'slug': slug, 'created_at': NOW, 'updated_at': NOW}
  visit.insert('pages', **values)
  return Redirect(PAGES.path, 'You saved the page.')


def edit(visit: Visit) -> Page:
  """The form of a page."""
  page = visit.row('pages')
  status = 'enabled' if page['enabled'] else 'disabled'
  return _form({**dict(page), 'status': status}, page)


def update(visit: Visit) -> Answer:
  """Changes a page."""
  page = visit.row('pages')
  try:
    values = _read(visit)
  except Wrong as error:
    return _form(dict(visit.form), page, str(error))
  visit.update('pages', page['id'], **values, updated_at=NOW)
  return Redirect(PAGES.path, 'You saved the page.')


def theme(visit: Visit) -> Page:
  """A theme, with a preview of its colours."""
  row = visit.one(
      'SELECT t.*, p.title AS parent FROM themes t LEFT JOIN themes p ON p.id ='
      ' t.parent_id WHERE t.id = ?',
      int(visit.match['id']),
  )
  text, back, accent = row['colours'].split()
  colours = {'text': text, 'back': back, 'accent': accent}
  return Page.of('theme.html', theme=row, colours=colours)


def _read(visit: Visit) -> dict[str, Any]:
  """Title, text and `enabled` of a page, from the form."""
  return {
      'title': visit.text('title', most=120),
      'text': visit.text('text', needed=False),
      'enabled': show.enabled(visit),
  }


def _form(
    typed: Mapping[str, Any], page: sqlite3.Row | None = None, error: str = ''
) -> Page:
  return Page.form(
      'page.html', error, page=page, typed=typed, statuses=show.ENABLED
  )
