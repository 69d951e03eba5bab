"""Price rules with their coupons, and search terms."""

import re
import sqlite3
from collections.abc import Mapping
from typing import Any

from agentrl.sites.admin.pages import grid, show
from agentrl.sites.admin.pages.grid import Column, Grid
from agentrl.sites.site import Answer, Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

KINDS = {
    'percent': 'Percent of the cart',
    'fixed': 'Fixed amount for the whole cart',
}
RULES = Grid(
    title='Cart Price Rules',
    path='/sales_rule/promo_quote/',
    source="""
SELECT id, name, coalesce(code, '') AS code, starts_on, ends_on,
  CASE active WHEN 1 THEN 'active' ELSE 'inactive' END AS status
FROM price_rules""",
    columns=(
        Column('name', 'Rule'),
        Column('id', 'ID', grid.NUMBER),
        Column('code', 'Coupon Code'),
        Column('starts_on', 'Start', grid.TIME),
        Column('ends_on', 'End', grid.TIME),
        Column(
            'status',
            'Status',
            grid.CHOICE,
            {'active': 'Active', 'inactive': 'Inactive'},
        ),
    ),
    link='/sales_rule/promo_quote/edit/{id}',
    search=('name', 'code'),
    new=('/sales_rule/promo_quote/new', 'Add New Rule'),
)
TERMS = Grid(
    title='Search Terms',
    path='/search/term/',
    source='SELECT id, text, results, uses, updated_at FROM search_terms',
    columns=(
        Column('text', 'Search Query'),
        Column('id', 'ID', grid.NUMBER),
        Column('results', 'Results', grid.COUNT),
        Column('uses', 'Uses', grid.COUNT),
        Column('updated_at', 'Last Used', grid.TIME),
    ),
    search=('text',),
    sort=('id', 'asc'),
)


def new(_: Visit) -> Page:
  """The form of a new price rule."""
  return _form({'status': 'active', 'kind': 'percent'})


def create(visit: Visit) -> Answer:
  """Adds a price rule."""
  try:
    values = {**_read(visit), 'created_at': NOW}
  except Wrong as error:
    return _form(dict(visit.form), error=str(error))
  visit.insert('price_rules', **values)
  return Redirect(RULES.path, 'You saved the rule.')


def edit(visit: Visit) -> Page:
  """The form of a price rule."""
  rule = visit.row('price_rules')
  percent = rule['kind'] == 'percent'
  amount = str(rule['amount']) if percent else f'{rule["amount"] / 100:.2f}'
  typed = {
      **{x: rule[x] or '' for x in ('name', 'code', 'starts_on', 'ends_on')},
      'kind': rule['kind'],
      'amount': amount,
      'status': 'active' if rule['active'] else 'inactive',
  }
  return _form(typed, rule)


def update(visit: Visit) -> Answer:
  """Changes a price rule."""
  rule = visit.row('price_rules')
  try:
    values = _read(visit)
  except Wrong as error:
    return _form(dict(visit.form), rule, str(error))
  visit.update('price_rules', rule['id'], **values)
  return Redirect(RULES.path, 'You saved the rule.')


ask_delete = grid.asking_delete(RULES, 'price_rules', 'rule')
delete = grid.deleting(RULES, 'price_rules', 'You deleted the rule.')


def _read(visit: Visit) -> dict[str, Any]:
  """The columns of a price rule, from the form."""
  name = visit.text('name', most=120)
  code = visit.text('code', most=40, needed=False) or None
  if code and not re.fullmatch('[A-Za-z0-9_-]+', code):
    raise Wrong('Coupon code may hold letters and digits only.')
  if code and visit.value(
      'SELECT 1 FROM price_rules WHERE code = ? COLLATE NOCASE AND id != ?',
      code,
      int(visit.match.get('id', 0)),
  ):
    raise Wrong('Coupon with the same code already exists.')
  kind = show.choice(visit, 'kind', tuple(KINDS))
  text = visit.text('amount')
  if kind == 'percent':
    amount = show.whole(text.removesuffix('%'), 'Amount')
    if not 1 <= amount <= 100:
      raise Wrong('Amount must be a number from 1 to 100 percent.')
  else:
    amount = show.cents(text, 'Amount')
  days = [visit.form.get(x, '').strip() for x in ('starts_on', 'ends_on')]
  starts, ends = (
      show.day(day, label) if day else None
      for day, label in zip(days, ('Start', 'End'), strict=True)
  )
  if starts and ends and starts > ends:
    raise Wrong('End must not be before the start.')
  return {
      'name': name,
      'code': code,
      'kind': kind,
      'amount': amount,
      'active': int(
          show.choice(visit, 'status', ('active', 'inactive')) == 'active'
      ),
      'starts_on': starts,
      'ends_on': ends,
  }


def _form(
    typed: Mapping[str, Any], rule: sqlite3.Row | None = None, error: str = ''
) -> Page:
  return Page.form('rule.html', error, rule=rule, typed=typed, kinds=KINDS)
