"""Products: their grid, and the form of one."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from agentrl.sites.admin.pages import grid, show
from agentrl.sites.admin.pages.grid import Column, Grid
from agentrl.sites.shop.seed import catalogue
from agentrl.sites.site import Answer, Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

# Action -> column and its new value.
_MANY = {
    'enable': ('enabled', 1),
    'disable': ('enabled', 0),
    'out_of_stock': ('quantity', 0),
}
_OPTIONS = ('Size', 'Colour')  # that a new product may have
PRODUCTS = Grid(
    title='Products',
    path='/catalog/product/',
    source="""
SELECT id, name, sku, brand, kind,
  coalesce(list_cents, price_cents) AS price,
  CASE WHEN list_cents IS NULL THEN NULL ELSE price_cents END AS special,
  quantity, CASE enabled WHEN 1 THEN 'enabled' ELSE 'disabled' END AS status
FROM products""",
    columns=(
        Column('name', 'Name'),
        Column('id', 'ID', grid.NUMBER),
        Column('sku', 'SKU'),
        Column('brand', 'Brand'),
        Column('kind', 'Type'),
        Column('price', 'Price', grid.MONEY),
        Column('special', 'Special Price', grid.MONEY),
        Column('quantity', 'Quantity', grid.COUNT),
        Column('status', 'Status', grid.CHOICE, show.ENABLED),
    ),
    link='/catalog/product/edit/{id}',
    search=('name', 'sku'),
    sort=('id', 'asc'),
    actions={
        'enable': 'Enable',
        'disable': 'Disable',
        'out_of_stock': 'Set out of stock',
    },
    new=('/catalog/product/new', 'Add Product'),
)


def change_many(visit: Visit) -> Redirect:
  """Changes one column of the chosen products."""
  action, ids = grid.chosen(visit, PRODUCTS)
  column, value = _MANY[action]
  for key in ids:
    visit.db.execute(
        f'UPDATE products SET {column} = ?, updated_at = ? WHERE id = ? AND'
        f' {column} != ?',
        (value, NOW, key, value),
    )
  notice = f'A total of {len(ids)} record(s) have been updated.'
  return Redirect(PRODUCTS.path, notice)


def edit(visit: Visit) -> Page:
  """The form of a product."""
  product = visit.row('products')
  reduced = product['list_cents'] is not None
  typed = {
      **{name: product[name] for name in ('name', 'sku', 'brand', 'kind')},
      'price': _plain(product['list_cents' if reduced else 'price_cents']),
      'special_price': _plain(product['price_cents']) if reduced else '',
      'quantity': product['quantity'],
      'category': str(product['category_id']),
      'description': product['description'],
      'status': 'enabled' if product['enabled'] else 'disabled',
  }
  return _form(visit, typed, product)


def update(visit: Visit) -> Answer:
  """Changes a product."""
  product = visit.row('products')
  try:
    values = _read(visit)
  except Wrong as error:
    return _form(visit, dict(visit.form), product, str(error))
  visit.update('products', product['id'], **values, updated_at=NOW)
  path = PRODUCTS.link.format(id=product['id'])
  return Redirect(path, 'You saved the product.')


def new(visit: Visit) -> Page:
  """The form of a new product."""
  return _form(visit, {'status': 'enabled'})


def create(visit: Visit) -> Answer:
  """Adds a product, with one value of some options."""
  try:
    values = _read(visit)
    options = {
        name: visit.text(name.lower(), most=40, needed=False)
        for name in _OPTIONS
    }
    slug = catalogue.slug(values['name'])
    if not slug or visit.has('products', slug=slug):
      raise Wrong('Another product has this name.')
  except Wrong as error:
    return _form(visit, dict(visit.form), error=str(error))
  values |= {'slug': slug, 'created_at': NOW, 'updated_at': NOW}
  key = visit.insert('products', **values)
  for name, value in options.items():
    if value:
      _insert_option(visit, key, name, value)
  return Redirect(PRODUCTS.link.format(id=key), 'You saved the product.')


def add_option(visit: Visit) -> Redirect:
  """Adds a value to an option of a product."""
  product = visit.row('products')
  options = visit.rows('options', 'id', product_id=product['id'])
  name = show.choice(visit, 'option', tuple(row['name'] for row in options))
  value = visit.text('value', most=40)
  if visit.value(
      'SELECT 1 FROM options WHERE product_id = ? AND name = ? AND lower(value)'
      ' = ?',
      product['id'],
      name,
      value.lower(),
  ):
    raise Wrong(f'{name} {value} is there already.')
  _insert_option(visit, product['id'], name, value)
  path = PRODUCTS.link.format(id=product['id'])
  return Redirect(path, f'{name} {value} was added.')


def remove_option(visit: Visit) -> Redirect:
  """Removes a value of an option of a product."""
  product = visit.row('products')
  key = int(visit.match['option'])
  option = visit.find('options', id=key, product_id=product['id'])
  visit.delete('options', id=key)
  path = PRODUCTS.link.format(id=product['id'])
  return Redirect(path, f'{option["name"]} {option["value"]} was removed.')


def _plain(cents: int) -> str:
  return f'{cents / 100:.2f}'


def _read(visit: Visit) -> dict[str, Any]:
  """The columns of a product, from the form."""
  name = ' '.join(visit.text('name', most=200).split())
  sku = visit.text('sku', most=40)
  key = int(visit.match.get('id', 0))
  if visit.value('SELECT 1 FROM products WHERE sku = ? AND id != ?', sku, key):
    raise Wrong(f'Another product has the SKU {sku}.')
  category = visit.value(
      'SELECT id FROM categories WHERE id = ?', visit.form.get('category', '')
  )
  if category is None:
    raise Wrong('Category must be chosen.')
  price = show.cents(visit.text('price'), 'Price')
  text = visit.text('special_price', needed=False)
  special = show.cents(text, 'Special price') if text else None
  if special is not None and special >= price:
    raise Wrong('Special price must be lower than the price.')
  return {
      'name': name,
      'sku': sku,
      'brand': visit.text('brand', most=80),
      'kind': visit.text('kind', most=80),
      'category_id': category,
      'price_cents': price if special is None else special,
      'list_cents': None if special is None else price,
      'quantity': show.whole(visit.text('quantity'), 'Quantity'),
      'description': visit.text('description', needed=False),
      'enabled': show.enabled(visit),
  }


def _insert_option(visit: Visit, product: int, name: str, value: str) -> None:
  visit.insert('options', product_id=product, name=name, value=value)


def _form(
    visit: Visit,
    typed: Mapping[str, Any],
    product: sqlite3.Row | None = None,
    error: str = '',
) -> Page:
  key = product['id'] if product else 0
  options = visit.rows('options', 'id', product_id=key)
  categories = visit.all(
      "SELECT c.id, d.name || ' / ' || g.name || ' / ' || c.name AS name FROM"
      ' categories c JOIN categories g ON g.id = c.parent_id JOIN categories d'
      ' ON d.id = g.parent_id ORDER BY d.position, g.position, c.position'
  )
  return Page.form(
      'product.html',
      error,
      product=product,
      typed=typed,
      categories=categories,
      options=options,
      option_names=list(dict.fromkeys(x['name'] for x in options)),
      new_options=_OPTIONS,
  )
