"""Tasks on products: stock, prices, texts and options."""

import itertools
import sqlite3
from collections.abc import Sequence

from agentrl.sites import picking as pick, seed_data, task as t
from agentrl.sites.admin.tasks import paths
from agentrl.sites.admin.tasks.paths import change, go, seek
from agentrl.sites.answers import Number, Several, Text
from agentrl.sites.goals import New, Row, added, changed
from agentrl.sites.shop.seed import catalogue

_VALUES = seed_data.read(__file__)
_PRODUCTS = paths.menu('Catalog', 'Products')
_GRID = 'catalog/product/'
_PLAIN = 'cms/page/'  # a page without figures
_UNREDUCED = 'SELECT * FROM products p WHERE enabled AND list_cents IS NULL'
# The first two words of products' names, which a few products share.
_LINES = (
    'SELECT brand, line, count(*) AS size, sum(list_cents IS NULL AND enabled'
    ' AND quantity > 0) AS plain, min(price_cents) AS low FROM (SELECT *, brand'
    " || ' ' || substr(name, length(brand) + 2, instr(substr(name,"
    " length(brand) + 2), ' ') - 1) AS line FROM products) GROUP BY line HAVING"
    ' size = ? AND plain = size AND low > 1500 ORDER BY line'
)


def _changed(key: int, **values: int | str) -> Row:
  return changed('shop.products', key, **values)


def _open(name: str) -> tuple[t.Step, ...]:
  """Opens a product, on the grid of products."""
  return paths.search(name), t.link(name)


def _save(field: str, value: str) -> tuple[t.Step, ...]:
  return t.fill(field, value), t.button('Save')


def _dollars(cents: int) -> str:
  return f'{cents / 100:.2f}'


def _line(db: t.Db, line: str) -> Sequence[sqlite3.Row]:
  return db.rows(
      'SELECT * FROM products WHERE name LIKE ? ORDER BY id', f'{line} %'
  )


def _disable(db: t.Db, k: int) -> t.Task:
  product = paths.row_named(db, k, f'{_UNREDUCED} ORDER BY id', count=40)
  name = product['name']
  return change(
      f'Disable the product "{name}"; buyers complain about its quality.',
      _changed(product['id'], enabled=0),
      paths.search(name),
      *paths.many('Disable', name),
      start=_GRID,
  )


def _quantity(db: t.Db, k: int) -> t.Task:
  product = paths.row_named(
      db,
      k,
      f'{_UNREDUCED} AND quantity > 20 AND quantity != 100 AND id > 20 AND'
      ' quantity NOT IN (SELECT quantity FROM products WHERE id <= 20)'
      ' ORDER BY sku',
      count=40,
  )
  return seek(
      f'How many units of "{product["name"]}" are in stock? Answer with'
      ' the number.',
      Number(str(product['quantity']), 'units'),
      paths.search(product['name']),
      start=_GRID,
  )


def _arrived(db: t.Db, k: int) -> t.Task:
  product = paths.row_named(db, k, f'{_UNREDUCED} ORDER BY sku DESC')
  more = (15, 48, 120, 36, 250)[k]
  total = product['quantity'] + more
  return change(
      f'{more} more units of "{product["name"]}" have arrived. Add them'
      ' to the quantity in stock.',
      _changed(product['id'], quantity=total),
      *_PRODUCTS,
      *_open(product['name']),
      *_save('Quantity', str(total)),
  )


def _sold_out(db: t.Db, k: int) -> t.Task:
  line = db.row_spread(k, _LINES, 3)['line']
  return change(
      f'All products whose name begins with "{line}" are sold out. Set'
      ' their quantity to 0.',
      [_changed(row['id'], quantity=0) for row in _line(db, line)],
      *_PRODUCTS,
      paths.search(line),
      *paths.many('Set out of stock'),
  )


def _price_changes() -> list[tuple[str, str]]:
  """40 verbs with amounts, kinds in turn."""
  first = [
      ('Reduce', '$5'),
      ('Reduce', '10 percent'),
      ('Raise', '$3.50'),
      ('Raise', '15 percent'),
      ('Reduce', '5 percent'),
  ]
  kinds = [
      [('Reduce', f'${x}') for x in (1, 2, 3, 4, 6, 7, 8, 9, 10, 12)],
      [('Raise', f'{x} percent') for x in (5, 10, 20, 25, 30, 35, 40, 50)],
      [('Raise', f'${x}') for x in (1, 2, 4, 5, 6, 7, 8, 9, 10)],
      [('Reduce', f'{x} percent') for x in (15, 20, 25, 30, 35, 40, 45, 50)],
  ]
  turns = itertools.chain.from_iterable(itertools.zip_longest(*kinds))
  return first + [each for each in turns if each is not None]


_PRICE_CHANGES = _price_changes()


def _price_of_this(db: t.Db, k: int) -> t.Task:
  # Prices that the percentage divides to the cent.
  sql = (
      f'{_UNREDUCED} AND price_cents % 20 = 0 AND price_cents > 2000 ORDER'
      ' BY id'
  )
  product = paths.row_named(db, k % 5, sql)
  if k >= 5:
    taken = [paths.row_named(db, i, sql)['id'] for i in range(5)]
    others = [x for x in paths.rows_named(db, sql) if x['id'] not in taken]
    product = pick.kth_shuffled(others, k - 5, 'price of this')
  price = product['price_cents']
  verb, amount = _PRICE_CHANGES[k]
  sign = 1 if verb == 'Raise' else -1
  if amount.startswith('$'):
    after = price + sign * round(100 * float(amount[1:]))
  else:
    after = price + sign * price * int(amount.split()[0]) // 100
  return change(
      f'{verb} the price of this product by {amount}.',
      _changed(product['id'], price_cents=after),
      *_save('Price', _dollars(after)),
      start=f'catalog/product/edit/{product["id"]}',
  )


def _price_of_line(db: t.Db, k: int) -> t.Task:
  line = db.row_spread(k, _LINES, 2)['line']
  word, cents = _VALUES['price_of_line'][k]
  steps: list[t.Step] = []
  goal: list[Row] = []
  for row in _line(db, line):
    after = row['price_cents'] + cents
    goal.append(_changed(row['id'], price_cents=after))
    steps += (*_PRODUCTS, *_open(row['name']))
    steps += _save('Price', _dollars(after))
  return change(
      f'{word} the prices of both products whose name begins with'
      f' "{line}" by ${_dollars(abs(cents))} each.',
      goal,
      *steps,
  )


def _sale(db: t.Db, k: int) -> t.Task:
  pair = db.row_spread(
      k,
      'SELECT brand, kind, min(price_cents) AS low FROM products p GROUP BY'
      ' brand, kind HAVING count(*) = 2 AND low > 1000 AND'
      ' sum(list_cents IS NULL) = 2 AND (SELECT count(*) FROM products q'
      ' WHERE instr(q.name, p.kind)) <= 20 ORDER BY brand, kind',
  )
  special = pair['low'] // 200 * 100 + 99
  products = db.rows(
      'SELECT * FROM products WHERE brand = ? AND kind = ? ORDER BY id',
      pair['brand'],
      pair['kind'],
  )
  steps: list[t.Step] = []
  goal: list[Row] = []
  for row in products:
    before = row['price_cents']
    goal.append(_changed(row['id'], price_cents=special, list_cents=before))
    steps += (
        paths.search(pair['kind']),
        t.link(row['name']),
        t.fill('Special Price', _dollars(special)),
        t.button('Save'),
        t.link('Back'),
    )
  return change(
      f'Mark both products of the brand {pair["brand"]} and the type'
      f' "{pair["kind"]}" as on sale: give each a special price of'
      f' ${_dollars(special)}.',
      goal,
      *steps[:-1],
      start=_GRID,
  )


def _quote(db: t.Db, k: int) -> t.Task:
  product = paths.row_named(
      db,
      k,
      'SELECT p.*, r.title FROM products p JOIN reviews r ON r.product_id ='
      " p.id WHERE r.stars = 5 AND r.status = 'approved' AND (SELECT"
      ' count(*) FROM reviews s WHERE s.product_id = p.id AND s.stars = 5)'
      ' = 1 AND (SELECT count(*) FROM reviews s WHERE s.product_id = p.id)'
      ' BETWEEN 3 AND 15 ORDER BY p.id',
  )
  text = f'{product["description"]} "{product["title"]}"'
  return change(
      'Let our buyers speak: append to the description of'
      f' "{product["name"]}" the title of its only five-star review, in'
      ' double quotes and after a space.',
      _changed(product['id'], description=text),
      *paths.menu('Marketing', 'All Reviews'),
      paths.search(product['name']),
      *_PRODUCTS,
      *_open(product['name']),
      *_save('Description', text),
  )


def _option(db: t.Db, k: int) -> t.Task:
  product = paths.row_named(
      db,
      k,
      f'{_UNREDUCED} AND EXISTS (SELECT 1 FROM options o WHERE o.product_id'
      " = p.id AND o.name = 'Colour') ORDER BY id DESC",
  )
  colour = ('Brick Red', 'Mint', 'Charcoal', 'Lilac', 'Amber')[k]
  return change(
      f'From now on "{product["name"]}" also comes in {colour}. Add'
      ' this colour to its options.',
      added(
          'shop.options', product_id=product['id'], name='Colour', value=colour
      ),
      *_PRODUCTS,
      *_open(product['name']),
      t.choose('Option', 'Colour', nth=1),
      t.fill('New Value', colour),
      t.button('Add Value'),
  )


def _new(db: t.Db, k: int) -> t.Task:
  name, sku, brand, kind, cents, units, size, colour, path = _VALUES['new'][k]
  category = db.first(
      "SELECT c.id, d.name || ' / ' || g.name || ' / ' || c.name AS name FROM"
      ' categories c JOIN categories g ON g.id = c.parent_id JOIN categories d'
      ' ON d.id = g.parent_id WHERE c.path = ?',
      path,
  )
  option = lambda which, value: added(
      'shop.options', product_id=New('shop.products'), name=which, value=value
  )
  return change(
      f'Add a product named "{name}" (SKU {sku}, brand {brand}, type'
      f' {kind}) to the category "{category["name"]}": {units} in stock,'
      f' price ${_dollars(cents)}, size {size}, colour {colour}, without a'
      ' description.',
      (
          added(
              'shop.products',
              name=name,
              sku=sku,
              slug=catalogue.slug(name),
              brand=brand,
              kind=kind,
              price_cents=cents,
              quantity=units,
              category_id=category['id'],
              description='',
              enabled=1,
          ),
          option('Size', size),
          option('Colour', colour),
      ),
      *_PRODUCTS,
      t.link('Add Product'),
      t.fill('Product Name', name),
      t.fill('SKU', sku),
      t.fill('Brand', brand),
      t.fill('Type', kind),
      t.fill('Price', _dollars(cents)),
      t.fill('Quantity', str(units)),
      t.choose('Category', category['name']),
      t.fill('Size', size),
      t.fill('Colour', colour),
      t.button('Save'),
  )


def _left(db: t.Db, k: int) -> t.Task:
  units = db.row_spread(
      k,
      'SELECT quantity FROM products WHERE quantity > 0 GROUP BY quantity'
      ' HAVING count(*) BETWEEN 2 AND 4 AND min(id) > 20 ORDER BY quantity',
  )['quantity']
  column, word = (('sku', 'SKUs'), ('name', 'names'))[k % 2]
  products = db.rows(
      f'SELECT {column} FROM products WHERE quantity = ? ORDER BY id', units
  )
  return seek(
      f'Which products have exactly {units} units left? Answer with'
      f' their {word}, separated by semicolons.',
      Several([Text(row[0]) for row in products]),
      *_PRODUCTS,
      *paths.filters(
          t.fill('Quantity from', str(units)), t.fill('Quantity to', str(units))
      ),
  )


def _enable(db: t.Db, k: int) -> t.Task:
  kinds = db.rows(
      'SELECT kind, count(*) AS size FROM products WHERE NOT enabled GROUP BY'
      ' kind HAVING NOT EXISTS (SELECT 1 FROM products q WHERE NOT q.enabled'
      ' AND q.kind != products.kind AND instr(q.kind, products.kind)) ORDER BY'
      ' size DESC, kind'
  )
  kind = kinds[k]['kind']
  off = db.rows(
      'SELECT id FROM products WHERE NOT enabled AND kind = ? ORDER BY id', kind
  )
  return change(
      f'Enable every product of the type "{kind}" that is disabled.',
      [_changed(row['id'], enabled=1) for row in off],
      *_PRODUCTS,
      *paths.filters(t.fill('Type', kind), t.choose('Status', 'Disabled')),
      *paths.many('Enable'),
  )


def _by_sku(db: t.Db, k: int) -> t.Task:
  product = paths.row_named(
      db, k, f'{_UNREDUCED} AND id > 20 ORDER BY price_cents, id'
  )
  return go(
      f'Open the product with the SKU {product["sku"]} for editing.',
      f'catalog/product/edit/{product["id"]}',
      *_PRODUCTS,
      paths.search(product['sku']),
      t.link(product['name']),
  )


def _dearest(db: t.Db, k: int) -> t.Task:
  brand = db.row_spread(
      k,
      'WITH brands AS MATERIALIZED (SELECT DISTINCT brand FROM products)'
      ' SELECT brand FROM brands b WHERE NOT EXISTS (SELECT 1 FROM brands q'
      ' WHERE q.brand != b.brand AND instr(q.brand, b.brand)) ORDER BY'
      ' brand',
  )['brand']
  products = db.rows(
      'SELECT name, coalesce(list_cents, price_cents) AS price FROM products'
      ' WHERE brand = ? ORDER BY price DESC LIMIT 2',
      brand,
  )
  if products[0]['price'] == products[1]['price']:
    raise LookupError(f'Two products of {brand} are the dearest.')
  name = products[0]['name']
  return seek(
      f'Which product of the brand {brand} has the highest price,'
      ' special prices aside? Answer with its name.',
      Text(name),
      *_PRODUCTS,
      *paths.filters(t.fill('Brand', brand)),
      # A second click turns the order.
      t.link('Price'),
      t.link('Price'),
      start=_PLAIN,
  )


TEMPLATES = (
    t.Template('admin/product-quantity', t.SEEK, _quantity, 40),
    t.Template('admin/disable-product', t.CHANGE, _disable, 40, (242,)),
    t.Template('admin/units-left', t.SEEK, _left, 5, (368,)),
    t.Template('admin/product-by-sku', t.GO, _by_sku, 5),
    t.Template('admin/stock-arrived', t.CHANGE, _arrived, 5, (241,)),
    t.Template('admin/price-of-this', t.CHANGE, _price_of_this, 40, (247,)),
    t.Template('admin/dearest-product', t.SEEK, _dearest, 5),
    t.Template('admin/sold-out', t.CHANGE, _sold_out, 5, (287,)),
    t.Template('admin/price-of-line', t.CHANGE, _price_of_line, 5, (742,)),
    t.Template('admin/sale-price', t.CHANGE, _sale, 5, (237,)),
    t.Template('admin/quote-review', t.CHANGE, _quote, 5, (251,)),
    t.Template('admin/add-colour', t.CHANGE, _option, 5, (252,)),
    t.Template('admin/new-product', t.CHANGE, _new, 5, (256,)),
    t.Template('admin/enable-products', t.CHANGE, _enable, 5),
)
