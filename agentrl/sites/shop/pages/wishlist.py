"""The wish list, and the comparison of products."""

from agentrl.sites.shop.pages import cart, listing
from agentrl.sites.shop.pages.product import enabled
from agentrl.sites.site import Page, Redirect, Visit
from agentrl.sites.store import NOW

_MOST_COMPARED = 5


def show(visit: Visit) -> Page:
  """The wish list."""
  return Page.of('wishlist.html', products=_listed(visit, 'wishlist_items'))


def add(visit: Visit) -> Redirect:
  """Puts a product on the wish list."""
  product = enabled(visit, visit.form.get('product', ''))
  visit.db.execute(
      'INSERT INTO wishlist_items (customer_id, product_id, created_at) VALUES'
      ' (?, ?, ?) ON CONFLICT DO NOTHING',
      (visit.user, product['id'], NOW),
  )
  return Redirect(
      '/wishlist', f'{product["name"]} has been added to your Wish List.'
  )


def remove(visit: Visit) -> Redirect:
  """Takes a product off the wish list."""
  product = _take_off(visit, 'wishlist_items')
  return Redirect(
      '/wishlist', f'{product} has been removed from your Wish List.'
  )


def to_cart(visit: Visit) -> Redirect:
  """Moves a product to the cart, unless options have to be chosen."""
  product = dict(_item(visit, 'wishlist_items'))
  if visit.has('options', product_id=product['id']):
    return Redirect(
        f'/{product["slug"]}.html', 'You need to choose options for your item.'
    )
  cart.put(visit, product, '', 1)
  _take_off(visit, 'wishlist_items')
  return Redirect(
      '/wishlist', f'You added {product["name"]} to your shopping cart.'
  )


def compare(visit: Visit) -> Page:
  """Products side by side."""
  products = _listed(visit, 'compare_items')
  names: dict[str, dict[int, str]] = {}
  for product in products:
    for row in visit.rows('attributes', 'id', product_id=product['id']):
      names.setdefault(row['name'], {})[product['id']] = row['value']
  return Page.of('compare.html', products=products, attributes=names)


def add_to_compare(visit: Visit) -> Redirect:
  """Puts a product into the comparison; the oldest makes room."""
  product = enabled(visit, visit.form.get('product', ''))
  visit.db.execute(
      'INSERT INTO compare_items (customer_id, product_id) VALUES (?, ?)'
      ' ON CONFLICT DO NOTHING',
      (visit.user, product['id']),
  )
  visit.db.execute(
      'DELETE FROM compare_items WHERE customer_id = ? AND id NOT IN (SELECT id'
      ' FROM compare_items WHERE customer_id = ? ORDER BY id DESC LIMIT ?)',
      (visit.user, visit.user, _MOST_COMPARED),
  )
  return Redirect(
      f'/{product["slug"]}.html',
      f'You added product {product["name"]} to the comparison list.',
  )


def uncompare(visit: Visit) -> Redirect:
  """Takes a product out of the comparison."""
  product = _take_off(visit, 'compare_items')
  return Redirect(
      '/catalog/compare', f'You removed {product} from the comparison list.'
  )


def _listed(visit: Visit, table: str):
  return visit.all(
      f'SELECT {listing.CARD}, i.id AS item_id FROM {table} i JOIN products p'
      ' ON p.id = i.product_id WHERE i.customer_id = ? AND p.enabled'
      ' ORDER BY i.id',
      visit.user,
  )


def _item(visit: Visit, table: str):
  """The product of an entry of a list of the visitor.

  Raises:
    Missing: there is none with the id of the address.
  """
  return visit.one(
      f'SELECT p.* FROM {table} i JOIN products p ON p.id = i.product_id'
      ' WHERE i.id = ? AND i.customer_id = ?',
      int(visit.match['id']),
      visit.user,
  )


def _take_off(visit: Visit, table: str) -> str:
  """Removes an entry; returns its product's name."""
  name = _item(visit, table)['name']
  visit.delete(table, id=int(visit.match['id']))
  return name
