"""Invoices, shipments and credit memos: their grids and their pages."""

from agentrl.sites.admin.pages import grid, show
from agentrl.sites.admin.pages.grid import Column, Grid
from agentrl.sites.admin.pages.orders import CARRIERS
from agentrl.sites.site import Page, Redirect, Visit

_SOURCE = """
SELECT p.id, printf('%09d', p.id) AS number, p.created_at,
  printf('%09d', p.order_id) AS of_order, o.created_at AS ordered_at,
  c.first_name || ' ' || c.last_name AS bill_to,
  o.first_name || ' ' || o.last_name AS ship_to,
  (SELECT sum(quantity) FROM order_items i WHERE i.order_id = o.id) AS items,
  (SELECT total_cents FROM order_totals t WHERE t.order_id = o.id) AS total
FROM {} p JOIN orders o ON o.id = p.order_id
JOIN customers c ON c.id = o.customer_id"""
_FIRST = (
    Column('of_order', 'Order #'),
    Column('ordered_at', 'Order Date', grid.TIME),
)
_TOTAL = (
    Column('bill_to', 'Bill-to Name'),
    Column('total', 'Grand Total', grid.MONEY),
)
_SEARCH = ('number', 'of_order', 'bill_to')
GRIDS = {
    'invoice': Grid(
        title='Invoices',
        path='/sales/invoice/',
        source=_SOURCE.format('invoices'),
        columns=(
            Column('number', 'Invoice'),
            Column('created_at', 'Invoice Date', grid.TIME),
            *_FIRST,
            *_TOTAL,
        ),
        link='/sales/invoice/view/{id}',
        search=_SEARCH,
    ),
    'shipment': Grid(
        title='Shipments',
        path='/sales/shipment/',
        source=_SOURCE.format('shipments'),
        columns=(
            Column('number', 'Shipment'),
            Column('created_at', 'Ship Date', grid.TIME),
            *_FIRST,
            Column('ship_to', 'Ship-to Name'),
            Column('items', 'Total Quantity', grid.COUNT),
        ),
        link='/sales/shipment/view/{id}',
        search=('number', 'of_order', 'ship_to'),
    ),
    'creditmemo': Grid(
        title='Credit Memos',
        path='/sales/creditmemo/',
        source=_SOURCE.format('refunds'),
        columns=(
            Column('number', 'Credit Memo'),
            Column('created_at', 'Created', grid.TIME),
            *_FIRST,
            *_TOTAL,
        ),
        link='/sales/creditmemo/view/{id}',
        search=_SEARCH,
    ),
}
_TABLES = {
    'invoice': 'invoices',
    'shipment': 'shipments',
    'creditmemo': 'refunds',
}
_TITLES = {
    'invoice': 'Invoice',
    'shipment': 'Shipment',
    'creditmemo': 'Credit Memo',
}


def listing(visit: Visit) -> Page:
  """All papers of a kind."""
  return grid.page(visit, GRIDS[visit.match['paper']])


def view(visit: Visit) -> Page:
  """A paper."""
  kind = visit.match['paper']
  paper = visit.one(
      f'SELECT * FROM {_TABLES[kind]} WHERE id = ?', int(visit.match['id'])
  )
  return Page.of(
      'paper.html',
      kind=kind,
      title=_TITLES[kind],
      paper=paper,
      carriers=CARRIERS,
      order=visit.one(
          "SELECT o.*, t.*, c.first_name || ' ' || c.last_name AS bill_to,"
          ' c.email FROM orders o JOIN order_totals t ON t.order_id = o.id'
          ' JOIN customers c ON c.id = o.customer_id WHERE o.id = ?',
          paper['order_id'],
      ),
      items=visit.all(
          'SELECT * FROM order_items WHERE order_id = ? ORDER BY id',
          paper['order_id'],
      ),
  )


def update_tracking(visit: Visit) -> Redirect:
  """Changes the carrier and the tracking number of a shipment."""
  key = int(visit.match['id'])
  visit.one('SELECT id FROM shipments WHERE id = ?', key)
  visit.update(
      'shipments',
      key,
      carrier=show.choice(visit, 'carrier', CARRIERS),
      tracking=visit.text('number', most=60),
  )
  path = f'/sales/shipment/view/{key}'
  return Redirect(path, 'You saved the tracking information.')
