"""The shop: its routes, and what all its pages show."""

import datetime
import pathlib
from collections.abc import Mapping
from typing import Any

from agentrl.sites.shop.pages import (
    account,
    addresses,
    cart,
    checkout,
    listing,
    product,
    purchases,
    service,
    wishlist,
)
from agentrl.sites.shop.seed.orders import STATUS
from agentrl.sites.site import Site, Visit, form

# More digits are no id of SQLite's.
_ID = '{id:[0-9]{1,9}}'


def _common(visit: Visit) -> Mapping[str, Any]:
  return {
      'departments': visit.all(
          'SELECT * FROM categories WHERE parent_id IS NULL ORDER BY position'
      ),
      'customer': (
          visit.db.execute(
              'SELECT * FROM customers WHERE id = ?', (visit.user,)
          ).fetchone()
      ),
      'in_cart': visit.value(
          'SELECT coalesce(sum(quantity), 0) FROM cart_items'
          ' WHERE customer_id = ?',
          visit.user,
      ),
      'in_wishlist': visit.count('wishlist_items', customer_id=visit.user),
      'in_comparison': visit.count('compare_items', customer_id=visit.user),
      'asked': visit.query.get('q', ''),
  }


def _money(cents: int) -> str:
  sign = '-' if cents < 0 else ''
  return f'{sign}${abs(cents) / 100:,.2f}'


def _day(stamp: str) -> str:
  day = datetime.datetime.fromisoformat(stamp)
  return f'{day:%b} {day.day}, {day.year}'


SITE = Site(
    name='shop',
    title='Corner Emporium',
    store='shop',
    user=1,
    account='Ella Brandt',
    routes=(
        ('GET', '/', listing.home),
        ('GET', '/sale', listing.sale),
        ('GET', '/catalogsearch/result', listing.search),
        ('GET', '/catalogsearch/advanced', listing.advanced),
        ('GET', '/catalogsearch/advanced/result', listing.advanced_result),
        ('GET', '/catalog/compare', wishlist.compare),
        ('POST', '/catalog/compare/add', wishlist.add_to_compare),
        ('POST', f'/catalog/compare/remove/{_ID}', wishlist.uncompare),
        ('GET', '/wishlist', wishlist.show),
        ('POST', '/wishlist/add', wishlist.add),
        ('POST', f'/wishlist/remove/{_ID}', wishlist.remove),
        ('POST', f'/wishlist/cart/{_ID}', wishlist.to_cart),
        ('GET', '/checkout/cart', cart.show),
        ('POST', '/checkout/cart/add', cart.add),
        ('POST', '/checkout/cart/update', cart.update),
        ('POST', f'/checkout/cart/remove/{_ID}', cart.remove),
        ('POST', '/checkout/cart/coupon', cart.apply_coupon),
        ('POST', '/checkout/cart/coupon/cancel', cart.cancel_coupon),
        ('GET', '/checkout', checkout.shipping),
        ('GET', '/checkout/payment', checkout.payment),
        ('POST', '/checkout/place', checkout.place),
        ('GET', '/checkout/success', checkout.success),
        ('GET', '/customer/account', account.dashboard),
        *form('/customer/account/edit', account.edit, account.save),
        ('GET', '/customer/address', addresses.show),
        *form('/customer/address/new', addresses.new, addresses.add),
        *form(f'/customer/address/{_ID}/edit', addresses.edit, addresses.save),
        ('GET', f'/customer/address/{_ID}/delete', addresses.ask_delete),
        ('POST', f'/customer/address/{_ID}/delete', addresses.delete),
        ('GET', '/newsletter/manage', account.newsletter),
        ('POST', '/newsletter/manage', account.save_newsletter),
        ('POST', '/newsletter/subscribe', service.subscribe),
        ('GET', '/review/customer', account.reviews),
        ('POST', f'/review/product/{_ID}', product.review),
        ('GET', '/sales/order/history', purchases.history),
        ('GET', f'/sales/order/view/{_ID}', purchases.show),
        ('POST', f'/sales/order/reorder/{_ID}', purchases.reorder),
        *form('/contact', service.contact, service.send),
        ('GET', '/{path:.+}.html', product.product_or_category),
        ('GET', '/{slug:[a-z0-9-]+}', service.page),
    ),
    folder=pathlib.Path(__file__).parent,
    common=_common,
    filters={
        'money': _money,
        'day': _day,
        'number': lambda key: f'{key:09d}',
        'status': STATUS.__getitem__,
    },
)
