"""The contact form, the newsletter's sign-up, and pages of text."""

from agentrl.sites.shop.pages import account
from agentrl.sites.site import Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW


def contact(visit: Visit) -> Page:
  """The contact form."""
  return Page.of(
      'contact.html',
      phone=visit.value(
          'SELECT a.phone FROM addresses a JOIN customers c ON c.billing_id'
          ' = a.id WHERE c.id = ?',
          visit.user,
      ),
  )


def send(visit: Visit) -> Redirect:
  """Takes a message."""
  visit.insert(
      'messages',
      name=visit.text('name', most=120),
      email=account.email(visit),
      phone=visit.text('phone', most=40, needed=False),
      text=visit.text('message'),
      created_at=NOW,
  )
  return Redirect(
      '/contact', 'Thanks for contacting us. We will answer you very soon.'
  )


def subscribe(visit: Visit) -> Redirect:
  """Adds an address to the newsletter's."""
  address = account.email(visit)
  if visit.has('subscribers', email=address):
    raise Wrong('This email address is already subscribed.')
  visit.insert('subscribers', email=address, created_at=NOW)
  return Redirect('/', 'Thank you for your subscription.')


def page(visit: Visit) -> Page:
  """A page of text, such as 'about-us'."""
  row = visit.find('pages', slug=visit.match['slug'], enabled=1)
  return Page.of('page.html', page=row)
