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
from agentrl.sites.site import Site, Visit


def _common(visit: Visit) -> Mapping[str, Any]:
  count = lambda table: visit.value(
      f'SELECT count(*) FROM {table} WHERE customer_id = ?', visit.user
  )
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
      'in_wishlist': count('wishlist_items'),
      'in_comparison': count('compare_items'),
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
        ('POST', '/catalog/compare/remove/{id:[0-9]{1,9}}', wishlist.uncompare),
        ('GET', '/wishlist', wishlist.show),
        ('POST', '/wishlist/add', wishlist.add),
        ('POST', '/wishlist/remove/{id:[0-9]{1,9}}', wishlist.remove),
        ('POST', '/wishlist/cart/{id:[0-9]{1,9}}', wishlist.to_cart),
        ('GET', '/checkout/cart', cart.show),
        ('POST', '/checkout/cart/add', cart.add),
        ('POST', '/checkout/cart/update', cart.update),
        ('POST', '/checkout/cart/remove/{id:[0-9]{1,9}}', cart.remove),
        ('POST', '/checkout/cart/coupon', cart.apply_coupon),
        ('POST', '/checkout/cart/coupon/cancel', cart.cancel_coupon),
        ('GET', '/checkout', checkout.shipping),
        ('GET', '/checkout/payment', checkout.payment),
        ('POST', '/checkout/place', checkout.place),
        ('GET', '/checkout/success', checkout.success),
        ('GET', '/customer/account', account.dashboard),
        ('GET', '/customer/account/edit', account.edit),
        ('POST', '/customer/account/edit', account.save),
        ('GET', '/customer/address', addresses.show),
        ('GET', '/customer/address/new', addresses.new),
        ('POST', '/customer/address/new', addresses.add),
        ('GET', '/customer/address/{id:[0-9]{1,9}}/edit', addresses.edit),
        ('POST', '/customer/address/{id:[0-9]{1,9}}/edit', addresses.save),
        (
            'GET',
            '/customer/address/{id:[0-9]{1,9}}/delete',
            addresses.ask_delete,
        ),
        ('POST', '/customer/address/{id:[0-9]{1,9}}/delete', addresses.delete),
        ('GET', '/newsletter/manage', account.newsletter),
        ('POST', '/newsletter/manage', account.save_newsletter),
        ('POST', '/newsletter/subscribe', service.subscribe),
        ('GET', '/review/customer', account.reviews),
        ('POST', '/review/product/{id:[0-9]{1,9}}', product.review),
        ('GET', '/sales/order/history', purchases.history),
        ('GET', '/sales/order/view/{id:[0-9]{1,9}}', purchases.show),
        ('POST', '/sales/order/reorder/{id:[0-9]{1,9}}', purchases.reorder),
        ('GET', '/contact', service.contact),
        ('POST', '/contact', service.send),
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
