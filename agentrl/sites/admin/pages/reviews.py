"""Reviews: their grid, and the form of one."""

from collections.abc import Mapping
from typing import Any

from agentrl.sites.admin.pages import grid, show
from agentrl.sites.admin.pages.grid import Column, Grid
from agentrl.sites.site import Answer, Page, Redirect, Visit, Wrong

STATUS = {
    'approved': 'Approved',
    'pending': 'Pending',
    'rejected': 'Not Approved',
}
_STARS = ('1', '2', '3', '4', '5')
REVIEWS = Grid(
    title='Reviews',
    path='/review/product/',
    source="""
SELECT r.id, r.title, r.created_at, r.status, r.nickname, r.stars, r.text,
  p.name AS product, p.sku,
  CASE WHEN r.customer_id IS NULL THEN 'guest' ELSE 'customer' END AS author
FROM reviews r JOIN products p ON p.id = r.product_id""",
    columns=(
        Column('title', 'Title'),
        Column('id', 'ID', grid.NUMBER),
        Column('created_at', 'Created', grid.TIME),
        Column('status', 'Status', grid.CHOICE, STATUS),
        Column('stars', 'Rating', grid.CHOICE, {x: x for x in _STARS}),
        Column('nickname', 'Nickname'),
        Column('text', 'Review'),
        Column(
            'author',
            'Type',
            grid.CHOICE,
            {'customer': 'Customer', 'guest': 'Guest'},
        ),
        Column('product', 'Product'),
        Column('sku', 'SKU'),
    ),
    link='/review/product/edit/{id}',
    search=('title', 'text', 'nickname', 'product'),
    actions={
        'approved': 'Set status to Approved',
        'pending': 'Set status to Pending',
        'rejected': 'Set status to Not Approved',
        'delete': 'Delete',
    },
)


def change_many(visit: Visit) -> Answer:
  """Changes the status of the chosen reviews, or deletes them."""
  action, ids = grid.chosen(visit, REVIEWS)
  if action == 'delete' and 'sure' not in visit.form:
    question = f'Are you sure you want to delete {len(ids)} review(s)?'
    fields = {'action': action, 'ids': ids, 'sure': 1}
    return grid.confirm(question, REVIEWS.path, REVIEWS.path, **fields)
  for key in ids:
    if action == 'delete':
      visit.delete('reviews', id=key)
    else:
      visit.update('reviews', key, status=action)
  done = 'deleted' if action == 'delete' else 'updated'
  notice = f'A total of {len(ids)} record(s) have been {done}.'
  return Redirect(REVIEWS.path, notice)


def edit(visit: Visit) -> Page:
  """The form of a review."""
  return _form(visit, dict(visit.row('reviews')))


def update(visit: Visit) -> Answer:
  """Changes a review."""
  key = visit.row('reviews')['id']
  try:
    values = {
        'status': show.choice(visit, 'status', tuple(STATUS)),
        'stars': int(show.choice(visit, 'stars', _STARS)),
        'nickname': visit.text('nickname', most=60),
        'title': visit.text('title', most=200),
        'text': visit.text('text'),
    }
  except Wrong as error:
    return _form(visit, dict(visit.form), str(error))
  visit.update('reviews', key, **values)
  return Redirect(REVIEWS.path, 'You saved the review.')


ask_delete = grid.asking_delete(REVIEWS, 'reviews', 'review')
delete = grid.deleting(REVIEWS, 'reviews', 'The review has been deleted.')


def _form(visit: Visit, typed: Mapping[str, Any], error: str = '') -> Page:
  review = visit.row('reviews')
  customers = visit.rows('customers', 'id', id=review['customer_id'])
  return Page.form(
      'review.html',
      error,
      review=review,
      typed=typed,
      product=visit.find('products', id=review['product_id']),
      customer=customers[0] if customers else None,
      statuses=STATUS,
      stars=_STARS,
  )
