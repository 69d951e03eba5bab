"""The administration's pages."""

import pathlib

from agentrl.sites.admin.pages import (
    content,
    customers,
    grid,
    marketing,
    orders,
    papers,
    products,
    reports,
    reviews,
    show,
)
from agentrl.sites.admin.pages.dashboard import dashboard
from agentrl.sites.site import Site, form

_ID = r'{id:\d{1,9}}'
_ORDER = f'/sales/order/view/{_ID}'
_NEW_PAPER = _ORDER + '/new/{paper:invoice|shipment|refund}'
_PAPER = '/sales/{paper:invoice|shipment|creditmemo}'
_PRODUCT = f'/catalog/product/edit/{_ID}'
_OPTION = _PRODUCT + r'/options/{option:\d{1,9}}/remove'
_REVIEW = f'/review/product/edit/{_ID}'
_RULE = f'/sales_rule/promo_quote/edit/{_ID}'
# As the menu shows them: section -> pairs of a label and an address.
MENU = {
    'Sales': (
        ('Orders', '/sales/order/'),
        ('Invoices', '/sales/invoice/'),
        ('Shipments', '/sales/shipment/'),
        ('Credit Memos', '/sales/creditmemo/'),
    ),
    'Catalog': (('Products', '/catalog/product/'),),
    'Customers': (('All Customers', '/customer/index/'),),
    'Marketing': (
        ('Cart Price Rules', '/sales_rule/promo_quote/'),
        ('Search Terms', '/search/term/'),
        ('Newsletter Subscribers', '/newsletter/subscriber/'),
        ('All Reviews', '/review/product/'),
        ('Pending Reviews', '/review/product/?status=pending'),
    ),
    'Content': (
        ('Pages', '/cms/page/'),
        ('Themes', '/admin/system_design_theme/'),
    ),
    'Reports': (
        *(
            (report.title.removesuffix(' Report'), f'/reports/{path}')
            for path, report in reports.REPORTS.items()
        ),
        ('Low Stock', reports.LOW_STOCK.path),
        ('Product Reviews', reports.RATINGS.path),
    ),
}
_REPORT = '/reports/{report:' + '|'.join(reports.REPORTS) + '}'

SITE = Site(
    name='admin',
    title='Shop Admin',
    store='shop',
    user=1,
    account='admin',
    routes=(
        ('GET', '/', dashboard),
        ('GET', '/sales/order/', grid.listing(orders.ORDERS)),
        ('POST', '/sales/order/', orders.change_many),
        ('GET', _ORDER, orders.view),
        ('GET', f'{_ORDER}/cancel', orders.ask_cancel),
        ('POST', _ORDER + '/{action:cancel|hold|unhold}', orders.act),
        ('POST', f'{_ORDER}/comment', orders.add_note),
        *form(f'{_ORDER}/address', orders.edit_address, orders.update_address),
        *form(_NEW_PAPER, orders.new_paper, orders.add_paper),
        ('GET', f'{_PAPER}/', papers.listing),
        ('GET', f'{_PAPER}/view/{_ID}', papers.view),
        ('POST', f'/sales/shipment/view/{_ID}', papers.update_tracking),
        ('GET', '/catalog/product/', grid.listing(products.PRODUCTS)),
        ('POST', '/catalog/product/', products.change_many),
        *form('/catalog/product/new', products.new, products.create),
        *form(_PRODUCT, products.edit, products.update),
        ('POST', f'{_PRODUCT}/options', products.add_option),
        ('POST', _OPTION, products.remove_option),
        ('GET', '/customer/index/', grid.listing(customers.CUSTOMERS)),
        *form(f'/customer/index/edit/{_ID}', customers.edit, customers.update),
        ('GET', '/newsletter/subscriber/', grid.listing(customers.SUBSCRIBERS)),
        ('POST', '/newsletter/subscriber/', customers.unsubscribe),
        ('GET', '/review/product/', grid.listing(reviews.REVIEWS)),
        ('POST', '/review/product/', reviews.change_many),
        *form(_REVIEW, reviews.edit, reviews.update),
        *form(f'{_REVIEW}/delete', reviews.ask_delete, reviews.delete),
        ('GET', '/sales_rule/promo_quote/', grid.listing(marketing.RULES)),
        *form('/sales_rule/promo_quote/new', marketing.new, marketing.create),
        *form(_RULE, marketing.edit, marketing.update),
        *form(f'{_RULE}/delete', marketing.ask_delete, marketing.delete),
        ('GET', '/search/term/', grid.listing(marketing.TERMS)),
        ('GET', '/cms/page/', grid.listing(content.PAGES)),
        *form('/cms/page/new', content.new, content.create),
        *form(f'/cms/page/edit/{_ID}', content.edit, content.update),
        ('GET', '/admin/system_design_theme/', grid.listing(content.THEMES)),
        ('GET', f'/admin/system_design_theme/edit/{_ID}', content.theme),
        ('GET', reports.LOW_STOCK.path, grid.listing(reports.LOW_STOCK)),
        ('GET', reports.RATINGS.path, grid.listing(reports.RATINGS)),
        ('GET', _REPORT, reports.report),
    ),
    folder=pathlib.Path(__file__).parent,
    common=lambda visit: {'menu': MENU},
    filters=show.FILTERS,
)
