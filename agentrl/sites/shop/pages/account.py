"""The customer's account: dashboard, details, newsletter, reviews."""

import re

from agentrl.sites.shop.pages import addresses, purchases
from agentrl.sites.site import Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

_EMAIL = re.compile(r'[^@\s]+@[^@\s]+\.[^@\s]+')


def dashboard(visit: Visit) -> Page:
  """The account's first page."""
  return Page.of(
      'dashboard.html',
      orders=purchases.latest(visit, 5),
      addresses=addresses.all_of(visit),
      subscribed=_subscribed(visit),
  )


def edit(_: Visit) -> Page:
  """The form for name and e-mail."""
  return Page('account.html')


def save(visit: Visit) -> Redirect:
  """Changes name and e-mail."""
  address = email(visit)
  if visit.all(
      'SELECT 1 FROM customers WHERE email = ? AND id != ?', address, visit.user
  ):
    raise Wrong('A customer with the same email address already exists.')
  visit.update(
      'customers',
      visit.user_id,
      first_name=visit.text('first_name', most=60),
      last_name=visit.text('last_name', most=60),
      email=address,
      updated_at=NOW,
  )
  return Redirect('/customer/account', 'You saved the account information.')


def newsletter(visit: Visit) -> Page:
  """The form for the newsletter."""
  return Page.of('newsletter.html', subscribed=_subscribed(visit))


def save_newsletter(visit: Visit) -> Redirect:
  """Subscribes to the newsletter, or ends that."""
  there = _subscribed(visit)
  wanted = bool(visit.form.get('subscribed'))
  address = _email_of(visit)
  if wanted and not there:
    visit.insert('subscribers', email=address, created_at=NOW)
  elif there and not wanted:
    visit.delete('subscribers', email=address)
  return Redirect(
      '/customer/account',
      'We have saved your subscription.'
      if wanted
      else 'We have removed your newsletter subscription.',
  )


def reviews(visit: Visit) -> Page:
  """The reviews that the customer wrote."""
  rows, paging = visit.shown(
      visit.count('reviews', customer_id=visit.user),
      'SELECT r.*, p.name, p.slug, p.enabled FROM reviews r JOIN products p ON'
      ' p.id = r.product_id WHERE r.customer_id = ? ORDER BY r.created_at DESC,'
      ' r.id DESC',
      visit.user,
  )
  return Page.of('my_reviews.html', paging=paging, reviews=rows)


def email(visit: Visit) -> str:
  """The e-mail address of a form.

  Raises:
    Wrong: it is none.
  """
  address = visit.text('email', most=120)
  if not _EMAIL.fullmatch(address):
    raise Wrong('Please enter a valid email address (Ex: johndoe@domain.com).')
  return address


def _email_of(visit: Visit) -> str:
  return visit.value('SELECT email FROM customers WHERE id = ?', visit.user)


def _subscribed(visit: Visit) -> bool:
  return visit.has('subscribers', email=_email_of(visit))
