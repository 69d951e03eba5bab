"""A product's page, and reviews of it."""

from agentrl.sites.shop.pages import listing
from agentrl.sites.site import Answer, Missing, Page, Redirect, Visit
from agentrl.sites.store import NOW


def product_or_category(visit: Visit) -> Answer:
  """The page at an address that ends with '.html'."""
  path = visit.match['path']
  categories = visit.all('SELECT * FROM categories WHERE path = ?', path)
  if categories:
    return listing.category(visit, categories[0])
  row = visit.one(
      f'SELECT {listing.CARD} FROM products p WHERE p.slug = ? AND p.enabled',
      path,
  )
  options: dict[str, list[str]] = {}
  for option in visit.rows('options', 'id', product_id=row['id']):
    options.setdefault(option['name'], []).append(option['value'])
  reviews, paging = visit.shown(
      row['reviews'],
      "SELECT * FROM reviews WHERE product_id = ? AND status = 'approved' ORDER"
      ' BY created_at DESC, id DESC',
      row['id'],
  )
  return Page.of(
      'product.html',
      product=row,
      trail=listing.trail(visit, row['category_id']),
      options=options,
      attributes=visit.rows('attributes', 'id', product_id=row['id']),
      paging=paging,
      reviews=reviews,
      nickname=visit.value(
          'SELECT first_name FROM customers WHERE id = ?', visit.user
      ),
  )


def enabled(visit: Visit, product_id: str | int) -> dict:
  """A product that can be seen.

  Raises:
    Missing: there is none with this id.
  """
  if not str(product_id).isdecimal() or len(str(product_id)) > 9:
    raise Missing
  return dict(visit.find('products', id=int(product_id), enabled=1))


def review(visit: Visit) -> Redirect:
  """Adds a review, which waits for approval."""
  product = enabled(visit, visit.match['id'])
  visit.insert(
      'reviews',
      product_id=product['id'],
      customer_id=visit.user,
      stars=visit.number('rating', 1, 5),
      nickname=visit.text('nickname', most=60),
      title=visit.text('summary', most=150),
      text=visit.text('review'),
      status='pending',
      created_at=NOW,
  )
  return Redirect(
      f'/{product["slug"]}.html', 'You submitted your review for moderation.'
  )
