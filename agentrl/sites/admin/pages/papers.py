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


def _grid(title: str, table: str, when: str, *last: Column) -> Grid:
  """The papers of a table; the columns differ in the last two."""
  path = f'/sales/{title.replace(" ", "").lower()}/'
  return Grid(
      title=f'{title}s',
      path=path,
      source=_SOURCE.format(table),
      columns=(
          Column('number', title),
          Column('created_at', when, grid.TIME),
          Column('of_order', 'Order #'),
          Column('ordered_at', 'Order Date', grid.TIME),
          *last,
      ),
      link=f'{path}view/{{id}}',
      search=('number', 'of_order', last[0].name),
  )


_TOTAL = (
    Column('bill_to', 'Bill-to Name'),
    Column('total', 'Grand Total', grid.MONEY),
)
_TABLES = {
    'invoice': 'invoices',
    'shipment': 'shipments',
    'creditmemo': 'refunds',
}
GRIDS = {
    'invoice': _grid('Invoice', 'invoices', 'Invoice Date', *_TOTAL),
    'shipment': _grid(
        'Shipment',
        'shipments',
        'Ship Date',
        Column('ship_to', 'Ship-to Name'),
        Column('items', 'Total Quantity', grid.COUNT),
    ),
    'creditmemo': _grid('Credit Memo', 'refunds', 'Created', *_TOTAL),
}


def listing(visit: Visit) -> Page:
  """All papers of a kind."""
  return grid.page(visit, GRIDS[visit.match['paper']])


def view(visit: Visit) -> Page:
  """A paper."""
  kind = visit.match['paper']
  paper = visit.row(_TABLES[kind])
  return Page.of(
      'paper.html',
      kind=kind,
      title=GRIDS[kind].title.removesuffix('s'),
      paper=paper,
      carriers=CARRIERS,
      order=visit.one(
          "SELECT o.*, t.*, c.first_name || ' ' || c.last_name AS bill_to,"
          ' c.email FROM orders o JOIN order_totals t ON t.order_id = o.id'
          ' JOIN customers c ON c.id = o.customer_id WHERE o.id = ?',
          paper['order_id'],
      ),
      items=visit.rows('order_items', 'id', order_id=paper['order_id']),
  )


def update_tracking(visit: Visit) -> Redirect:
  """Changes the carrier and the tracking number of a shipment."""
  key = visit.row('shipments')['id']
  visit.update(
      'shipments',
      key,
      carrier=show.choice(visit, 'carrier', CARRIERS),
      tracking=visit.text('number', most=60),
  )
  path = f'/sales/shipment/view/{key}'
  return Redirect(path, 'You saved the tracking information.')
