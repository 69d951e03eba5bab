"""Tasks on products: stock, prices, texts and options."""

import sqlite3
from collections.abc import Sequence

from agentrl.sites.admin.tasks.steps import (
    START,
    filters,
    many,
    menu,
    named,
    nth,
    rows,
    search,
)
from agentrl.sites.answers import Number, Several, Text
from agentrl.sites.goals import ADDED, CHANGED, Goal, New, Row
from agentrl.sites.shop.seed import catalogue
from agentrl.sites.task import (
    CHANGE,
    GO,
    SEEK,
    Step,
    Stores,
    Task,
    Template,
    choose,
    click_on,
    fill,
    stop,
)

_PRODUCTS = menu('Catalog', 'Products')
_GRID = ('http://admin/catalog/product/',)
_PLAIN = ('http://admin/cms/page/',)  # a page without figures
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
  return Row('shop.products', CHANGED, values, key)


def _open(name: str) -> tuple[Step, ...]:
  """Opens a product, on the grid of products."""
  return search(name), click_on('link', name)


def _save(field: str, value: str) -> tuple[Step, ...]:
  return fill(field, value), click_on('button', 'Save'), stop()


def _dollars(cents: int) -> str:
  return f'{cents / 100:.2f}'


def _line(stores: Stores, line: str) -> Sequence[sqlite3.Row]:
  return rows(
      stores,
      'SELECT * FROM products WHERE name LIKE ? ORDER BY id',
      f'{line} %',
  )


def _disable(stores: Stores, k: int) -> Task:
  product = nth(named(stores, f'{_UNREDUCED} ORDER BY id'), k, 40)
  name = product['name']
  return Task(
      intent=(
          f'Disable the product "{name}"; buyers complain about its quality.'
      ),
      goal=Goal(rows=(_changed(product['id'], enabled=0),)),
      steps=(search(name), *many('Disable', name), stop()),
      start=_GRID,
  )


def _quantity(stores: Stores, k: int) -> Task:
  product = nth(
      named(
          stores,
          f'{_UNREDUCED} AND quantity > 20 AND quantity != 100 AND id > 20 AND'
          ' quantity NOT IN (SELECT quantity FROM products WHERE id <= 20)'
          ' ORDER BY sku',
      ),
      k,
      40,
  )
  answer = Number(str(product['quantity']), 'units')
  return Task(
      intent=(
          f'How many units of "{product["name"]}" are in stock? Answer with'
          ' the number.'
      ),
      goal=Goal(answer),
      steps=(search(product['name']), stop(answer.example())),
      start=_GRID,
  )


def _arrived(stores: Stores, k: int) -> Task:
  product = nth(named(stores, f'{_UNREDUCED} ORDER BY sku DESC'), k)
  more = (15, 48, 120, 36, 250)[k]
  total = product['quantity'] + more
  return Task(
      intent=(
          f'{more} more units of "{product["name"]}" have arrived. Add them'
          ' to the quantity in stock.'
      ),
      goal=Goal(rows=(_changed(product['id'], quantity=total),)),
      steps=(
          *_PRODUCTS,
          *_open(product['name']),
          *_save('Quantity', str(total)),
      ),
      start=START,
  )


def _sold_out(stores: Stores, k: int) -> Task:
  line = nth(rows(stores, _LINES, 3), k)['line']
  found = _line(stores, line)
  return Task(
      intent=(
          f'All products whose name begins with "{line}" are sold out. Set'
          ' their quantity to 0.'
      ),
      goal=Goal(rows=[_changed(row['id'], quantity=0) for row in found]),
      steps=(*_PRODUCTS, search(line), *many('Set out of stock'), stop()),
      start=START,
  )


def _price_of_this(stores: Stores, k: int) -> Task:
  # Prices that the percentage divides to the cent.
  product = nth(
      named(
          stores,
          f'{_UNREDUCED} AND price_cents % 20 = 0 AND price_cents > 2000 ORDER'
          ' BY id',
      ),
      k,
  )
  price = product['price_cents']
  words, after = (
      ('Reduce the price of this product by $5', price - 500),
      ('Reduce the price of this product by 10 percent', price * 9 // 10),
      ('Raise the price of this product by $3.50', price + 350),
      ('Raise the price of this product by 15 percent', price * 115 // 100),
      ('Reduce the price of this product by 5 percent', price * 95 // 100),
  )[k]
  return Task(
      intent=f'{words}.',
      goal=Goal(rows=(_changed(product['id'], price_cents=after),)),
      steps=_save('Price', _dollars(after)),
      start=(f'http://admin/catalog/product/edit/{product["id"]}',),
  )


def _price_of_line(stores: Stores, k: int) -> Task:
  line = nth(rows(stores, _LINES, 2), k)['line']
  word, cents = (
      ('Lower', -200),
      ('Raise', 150),
      ('Lower', -350),
      ('Raise', 425),
      ('Lower', -125),
  )[k]
  steps: list[Step] = []
  goal: list[Row] = []
  for row in _line(stores, line):
    after = row['price_cents'] + cents
    goal.append(_changed(row['id'], price_cents=after))
    steps += (*_PRODUCTS, *_open(row['name']))
    steps += _save('Price', _dollars(after))[:-1]
  return Task(
      intent=(
          f'{word} the prices of both products whose name begins with'
          f' "{line}" by ${_dollars(abs(cents))} each.'
      ),
      goal=Goal(rows=goal),
      steps=(*steps, stop()),
      start=START,
  )


def _sale(stores: Stores, k: int) -> Task:
  pair = nth(
      rows(
          stores,
          'SELECT brand, kind, min(price_cents) AS low FROM products p GROUP BY'
          ' brand, kind HAVING count(*) = 2 AND low > 1000 AND'
          ' sum(list_cents IS NULL) = 2 AND (SELECT count(*) FROM products q'
          ' WHERE instr(q.name, p.kind)) <= 20 ORDER BY brand, kind',
      ),
      k,
  )
  special = pair['low'] // 200 * 100 + 99
  found = rows(
      stores,
      'SELECT * FROM products WHERE brand = ? AND kind = ? ORDER BY id',
      pair['brand'],
      pair['kind'],
  )
  steps: list[Step] = []
  goal: list[Row] = []
  for row in found:
    values = {'price_cents': special, 'list_cents': row['price_cents']}
    goal.append(_changed(row['id'], **values))
    steps += (
        search(pair['kind']),
        click_on('link', row['name']),
        fill('Special Price', _dollars(special)),
        click_on('button', 'Save'),
        click_on('link', 'Back'),
    )
  return Task(
      intent=(
          f'Mark both products of the brand {pair["brand"]} and the type'
          f' "{pair["kind"]}" as on sale: give each a special price of'
          f' ${_dollars(special)}.'
      ),
      goal=Goal(rows=goal),
      steps=(*steps[:-1], stop()),
      start=_GRID,
  )


def _quote(stores: Stores, k: int) -> Task:
  found = nth(
      named(
          stores,
          'SELECT p.*, r.title FROM products p JOIN reviews r ON r.product_id ='
          " p.id WHERE r.stars = 5 AND r.status = 'approved' AND (SELECT"
          ' count(*) FROM reviews s WHERE s.product_id = p.id AND s.stars = 5)'
          ' = 1 AND (SELECT count(*) FROM reviews s WHERE s.product_id = p.id)'
          ' BETWEEN 3 AND 15 ORDER BY p.id',
      ),
      k,
  )
  text = f'{found["description"]} "{found["title"]}"'
  return Task(
      intent=(
          'Let our buyers speak: append to the description of'
          f' "{found["name"]}" the title of its only five-star review, in'
          ' double quotes and after a space.'
      ),
      goal=Goal(rows=(_changed(found['id'], description=text),)),
      steps=(
          *menu('Marketing', 'All Reviews'),
          search(found['name']),
          *_PRODUCTS,
          *_open(found['name']),
          *_save('Description', text),
      ),
      start=START,
  )


def _option(stores: Stores, k: int) -> Task:
  product = nth(
      named(
          stores,
          f'{_UNREDUCED} AND EXISTS (SELECT 1 FROM options o WHERE o.product_id'
          " = p.id AND o.name = 'Colour') ORDER BY id DESC",
      ),
      k,
  )
  colour = ('Brick Red', 'Mint', 'Charcoal', 'Lilac', 'Amber')[k]
  values = {'product_id': product['id'], 'name': 'Colour', 'value': colour}
  return Task(
      intent=(
          f'From now on "{product["name"]}" also comes in {colour}. Add'
          ' this colour to its options.'
      ),
      goal=Goal(rows=(Row('shop.options', ADDED, values),)),
      steps=(
          *_PRODUCTS,
          *_open(product['name']),
          choose('Option', 'Colour', nth=1),
          fill('New Value', colour),
          click_on('button', 'Add Value'),
          stop(),
      ),
      start=START,
  )


def _new(stores: Stores, k: int) -> Task:
  name, sku, brand, kind, cents, units, size, colour, path = (
      ('Everwool Pullover', 'EV-104', 'Everwool', 'Pullover', 6400, 50, 'S',
       'Teal', 'clothing-bags/women/sweaters'),
      ('Kitebird Trail Boot', 'KB-771', 'Kitebird', 'Hiking Boot', 11999, 24,
       '9', 'Umber', 'clothing-bags/men/boots'),
      ('Softquill Linen Shirt', 'SQ-038', 'Softquill', 'Linen Shirt', 4550, 80,
       'XL', 'Ivory', 'clothing-bags/men/shirts'),
      ('Lunaria Evening Dress', 'LU-220', 'Lunaria', 'Evening Dress', 13900, 12,
       'M', 'Wine', 'clothing-bags/women/dresses'),
      ('Brookstep Canvas Sneaker', 'BR-515', 'Brookstep', 'Canvas Sneaker',
       5275, 65, '8', 'Ochre', 'clothing-bags/women/womens-sneakers'),
  )[k]  # fmt: skip
  category = rows(
      stores,
      "SELECT c.id, d.name || ' / ' || g.name || ' / ' || c.name AS name FROM"
      ' categories c JOIN categories g ON g.id = c.parent_id JOIN categories d'
      ' ON d.id = g.parent_id WHERE c.path = ?',
      path,
  )[0]
  values = {
      'name': name,
      'sku': sku,
      'slug': catalogue.slug(name),
      'brand': brand,
      'kind': kind,
      'price_cents': cents,
      'quantity': units,
      'category_id': category['id'],
      'description': '',
      'enabled': 1,
  }
  option = lambda which, value: Row(
      'shop.options',
      ADDED,
      {'product_id': New('shop.products'), 'name': which, 'value': value},
  )
  return Task(
      intent=(
          f'Add a product named "{name}" (SKU {sku}, brand {brand}, type'
          f' {kind}) to the category "{category["name"]}": {units} in stock,'
          f' price ${_dollars(cents)}, size {size}, colour {colour}, without a'
          ' description.'
      ),
      goal=Goal(
          rows=(
              Row('shop.products', ADDED, values),
              option('Size', size),
              option('Colour', colour),
          )
      ),
      steps=(
          *_PRODUCTS,
          click_on('link', 'Add Product'),
          fill('Product Name', name),
          fill('SKU', sku),
          fill('Brand', brand),
          fill('Type', kind),
          fill('Price', _dollars(cents)),
          fill('Quantity', str(units)),
          choose('Category', category['name']),
          fill('Size', size),
          fill('Colour', colour),
          click_on('button', 'Save'),
          stop(),
      ),
      start=START,
  )


def _left(stores: Stores, k: int) -> Task:
  units = nth(
      rows(
          stores,
          'SELECT quantity FROM products WHERE quantity > 0 GROUP BY quantity'
          ' HAVING count(*) BETWEEN 2 AND 4 AND min(id) > 20 ORDER BY quantity',
      ),
      k,
  )['quantity']
  column, word = (('sku', 'SKUs'), ('name', 'names'))[k % 2]
  found = rows(
      stores,
      f'SELECT {column} FROM products WHERE quantity = ? ORDER BY id',
      units,
  )
  answer = Several([Text(row[0]) for row in found])
  return Task(
      intent=(
          f'Which products have exactly {units} units left? Answer with'
          f' their {word}, separated by semicolons.'
      ),
      goal=Goal(answer),
      steps=(
          *_PRODUCTS,
          *filters(
              fill('Quantity from', str(units)), fill('Quantity to', str(units))
          ),
          stop(answer.example()),
      ),
      start=START,
  )


def _enable(stores: Stores, k: int) -> Task:
  found = rows(
      stores,
      'SELECT kind, count(*) AS size FROM products WHERE NOT enabled GROUP BY'
      ' kind HAVING NOT EXISTS (SELECT 1 FROM products q WHERE NOT q.enabled'
      ' AND q.kind != products.kind AND instr(q.kind, products.kind)) ORDER BY'
      ' size DESC, kind',
  )
  kind = found[k]['kind']
  off = rows(
      stores,
      'SELECT id FROM products WHERE NOT enabled AND kind = ? ORDER BY id',
      kind,
  )
  return Task(
      intent=f'Enable every product of the type "{kind}" that is disabled.',
      goal=Goal(rows=[_changed(row['id'], enabled=1) for row in off]),
      steps=(
          *_PRODUCTS,
          *filters(fill('Type', kind), choose('Status', 'Disabled')),
          *many('Enable'),
          stop(),
      ),
      start=START,
  )


def _by_sku(stores: Stores, k: int) -> Task:
  product = nth(
      named(stores, f'{_UNREDUCED} AND id > 20 ORDER BY price_cents, id'), k
  )
  return Task(
      intent=f'Open the product with the SKU {product["sku"]} for editing.',
      goal=Goal(url=f'http://admin/catalog/product/edit/{product["id"]}'),
      steps=(
          *_PRODUCTS,
          search(product['sku']),
          click_on('link', product['name']),
          stop(),
      ),
      start=START,
  )


def _dearest(stores: Stores, k: int) -> Task:
  brand = nth(
      rows(
          stores,
          'WITH brands AS MATERIALIZED (SELECT DISTINCT brand FROM products)'
          ' SELECT brand FROM brands b WHERE NOT EXISTS (SELECT 1 FROM brands q'
          ' WHERE q.brand != b.brand AND instr(q.brand, b.brand)) ORDER BY'
          ' brand',
      ),
      k,
  )['brand']
  found = rows(
      stores,
      'SELECT name, coalesce(list_cents, price_cents) AS price FROM products'
      ' WHERE brand = ? ORDER BY price DESC LIMIT 2',
      brand,
  )
  if found[0]['price'] == found[1]['price']:
    raise LookupError(f'Two products of {brand} are the dearest.')
  name = found[0]['name']
  return Task(
      intent=(
          f'Which product of the brand {brand} has the highest price,'
          ' special prices aside? Answer with its name.'
      ),
      goal=Goal(Text(name)),
      steps=(
          *_PRODUCTS,
          *filters(fill('Brand', brand)),
          # A second click turns the order.
          click_on('link', 'Price'),
          click_on('link', 'Price'),
          stop(name),
      ),
      start=_PLAIN,
  )


TEMPLATES = (
    Template('admin/product-quantity', SEEK, _quantity, 40),
    Template('admin/disable-product', CHANGE, _disable, 40, (242,)),
    Template('admin/units-left', SEEK, _left, 5, (368,)),
    Template('admin/product-by-sku', GO, _by_sku, 5),
    Template('admin/stock-arrived', CHANGE, _arrived, 5, (241,)),
    Template('admin/price-of-this', CHANGE, _price_of_this, 5, (247,)),
    Template('admin/dearest-product', SEEK, _dearest, 5),
    Template('admin/sold-out', CHANGE, _sold_out, 5, (287,)),
    Template('admin/price-of-line', CHANGE, _price_of_line, 5, (742,)),
    Template('admin/sale-price', CHANGE, _sale, 5, (237,)),
    Template('admin/quote-review', CHANGE, _quote, 5, (251,)),
    Template('admin/add-colour', CHANGE, _option, 5, (252,)),
    Template('admin/new-product', CHANGE, _new, 5, (256,)),
    Template('admin/enable-products', CHANGE, _enable, 5),
)
