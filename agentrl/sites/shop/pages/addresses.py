"""The address book."""

import sqlite3

from agentrl.sites.site import Forbidden, Missing, Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

FIELDS = (
    'first_name', 'last_name', 'street', 'city', 'region', 'postcode', 'phone',
)  # fmt: skip
_BOOK = '/customer/address'


def all_of(visit: Visit) -> list[sqlite3.Row]:
  """The visitor's addresses, the default one for deliveries first."""
  return visit.all(
      'SELECT a.*, a.id = c.billing_id AS billing, a.id = c.shipping_id AS'
      ' shipping FROM addresses a JOIN customers c ON c.id = a.customer_id'
      ' WHERE a.customer_id = ? ORDER BY shipping DESC, a.id',
      visit.user,
  )


def own(visit: Visit, key: str) -> sqlite3.Row:
  """An address of the visitor.

  Raises:
    Missing: there is none with this id.
    Forbidden: it is somebody else's.
  """
  if not key.isdecimal() or len(key) > 9:
    raise Missing
  row = visit.find('addresses', id=int(key))
  if row['customer_id'] != visit.user:
    raise Forbidden('This address is not in your address book.')
  return row


def show(visit: Visit) -> Page:
  """The address book."""
  return Page.of('addresses.html', addresses=all_of(visit))


def new(_: Visit) -> Page:
  """The form for a further address."""
  return Page.of('address.html', address=None)


def edit(visit: Visit) -> Page:
  """The form for an address."""
  return Page.of('address.html', address=own(visit, visit.match['id']))


def add(visit: Visit) -> Redirect:
  """Adds an address."""
  key = visit.insert('addresses', customer_id=visit.user, **_fields(visit))
  _make_default(visit, key)
  return Redirect(_BOOK, 'You saved the address.')


def save(visit: Visit) -> Redirect:
  """Changes an address."""
  key = own(visit, visit.match['id'])['id']
  visit.update('addresses', key, **_fields(visit))
  _make_default(visit, key)
  return Redirect(_BOOK, 'You saved the address.')


def ask_delete(visit: Visit) -> Page:
  """Asks whether an address is to be deleted."""
  return Page.of('address_delete.html', address=own(visit, visit.match['id']))


def delete(visit: Visit) -> Redirect:
  """Deletes an address that is no default."""
  key = own(visit, visit.match['id'])['id']
  if visit.has('customers', billing_id=key) or visit.has(
      'customers', shipping_id=key
  ):
    raise Wrong('A default address cannot be deleted.')
  visit.delete('addresses', id=key)
  return Redirect(_BOOK, 'You deleted the address.')


def _fields(visit: Visit) -> dict[str, str]:
  return {name: visit.text(name, most=120) for name in FIELDS}


def _make_default(visit: Visit, key: int) -> None:
  for name in ('billing', 'shipping'):
    if visit.form.get(f'default_{name}'):
      visit.db.execute(
          f'UPDATE customers SET {name}_id = ?, updated_at = ? WHERE id = ?'
          f' AND {name}_id IS NOT ?',
          (key, NOW, visit.user, key),
      )
