"""Reports: figures of a span of days, and two grids of products."""

import dataclasses
import urllib.parse
from collections.abc import Sequence

from agentrl.sites.admin.pages import grid, show
from agentrl.sites.admin.pages.grid import Column, Grid
from agentrl.sites.shop.seed.orders import STATUS
from agentrl.sites.site import Answer, Page, Redirect, Visit, Wrong

# Label and number of characters of a time that name the period.
PERIODS = {'day': ('Day', 10), 'month': ('Month', 7), 'year': ('Year', 4)}
_BEST = 5  # products of a period
_LOW = 20  # units
_ITEMS = """
(SELECT sum(quantity) FROM order_items i WHERE i.order_id = o.id)"""
_IN_SPAN = 'date(o.created_at) BETWEEN :from AND :to'
_OF_STATUS = "(:status = '' OR o.status = :status)"


@dataclasses.dataclass(frozen=True)
class Report:
  """A table of figures.

  Attributes:
    title: heading of its page.
    query: with :from, :to, :length of a period's name, and :status.
    headings: of its columns, in order.
    money: names of the columns that are amounts.
    note: says what is counted.
    periods: whether rows are of periods.
    statuses: whether orders of one status can be chosen.
    sums: names of the columns with a sum in the last row.
  """

  title: str
  query: str
  headings: Sequence[str]
  money: Sequence[str] = ()
  note: str = ''
  periods: bool = True
  statuses: bool = False
  sums: Sequence[str] = ()


def _papers(title: str, table: str, heading: str) -> Report:
  """The report of invoices or of refunds."""
  return Report(
      title,
      f"""
SELECT substr(p.created_at, 1, :length) AS period, count(*) AS orders,
  sum(t.total_cents) AS total
FROM {table} p JOIN orders o ON o.id = p.order_id
JOIN order_totals t ON t.order_id = o.id
WHERE date(p.created_at) BETWEEN :from AND :to GROUP BY period ORDER BY period
""",
      ('Interval', 'Orders', heading),
      money=('total',),
      sums=('orders', 'total'),
  )


def _customers(title: str, order: str) -> Report:
  """The report of customers by the number or the total of their orders."""
  return Report(
      title,
      # Materialized: else the total of an order is made for each mention.
      f"""
WITH sales AS MATERIALIZED (
  SELECT o.customer_id, t.total_cents AS total
  FROM orders o JOIN order_totals t ON t.order_id = o.id
  WHERE {_IN_SPAN} AND {_OF_STATUS})
SELECT c.first_name || ' ' || c.last_name AS customer, count(*) AS orders,
  sum(s.total) / count(*) AS average, sum(s.total) AS total
FROM sales s JOIN customers c ON c.id = s.customer_id GROUP BY c.id
ORDER BY {order} DESC, customer""",
      ('Customer', 'Orders', 'Average', 'Total'),
      money=('average', 'total'),
      periods=False,
      statuses=True,
  )


REPORTS = {
    'report_sales/sales': Report(
        'Orders Report',
        f"""
SELECT substr(o.created_at, 1, :length) AS period, count(*) AS orders,
  sum({_ITEMS}) AS items, sum(t.total_cents) AS total,
  sum(o.shipping_cents) AS shipping, sum(o.discount_cents) AS discount
FROM orders o JOIN order_totals t ON t.order_id = o.id
WHERE {_IN_SPAN} AND {_OF_STATUS} GROUP BY period ORDER BY period""",
        ('Interval', 'Orders', 'Sales Items', 'Sales Total', 'Sales Shipping',
         'Sales Discount'),
        money=('total', 'shipping', 'discount'),
        statuses=True,
        sums=('orders', 'items', 'total', 'shipping', 'discount'),
    ),
    'report_sales/invoiced': _papers(
        'Invoice Report', 'invoices', 'Total Invoiced'
    ),
    'report_sales/refunded': _papers(
        'Refunds Report', 'refunds', 'Total Refunded'
    ),
    'report_sales/shipping': Report(
        'Shipping Report',
        f"""
SELECT substr(o.created_at, 1, :length) AS period, o.shipping AS method,
  count(*) AS orders, sum(o.shipping_cents) AS total
FROM orders o WHERE {_IN_SPAN} AND {_OF_STATUS}
GROUP BY period, method ORDER BY period, method""",
        ('Interval', 'Carrier/Method', 'Orders', 'Total Sales Shipping'),
        money=('total',),
        statuses=True,
        sums=('orders', 'total'),
    ),
    'report_sales/coupons': Report(
        'Coupons Report',
        f"""
SELECT o.coupon AS coupon, count(*) AS uses,
  sum(t.subtotal_cents) AS subtotal, sum(o.discount_cents) AS discount,
  sum(t.total_cents) AS total
FROM orders o JOIN order_totals t ON t.order_id = o.id
WHERE o.coupon IS NOT NULL AND {_IN_SPAN} AND {_OF_STATUS}
GROUP BY coupon ORDER BY coupon""",
        ('Coupon Code', 'Uses', 'Sales Subtotal', 'Sales Discount',
         'Sales Total'),
        money=('subtotal', 'discount', 'total'),
        periods=False,
        statuses=True,
        sums=('uses', 'discount', 'total'),
    ),
    'report_sales/bestsellers': Report(
        'Bestsellers Report',
        f"""
SELECT period, product, price, quantity FROM (
  SELECT *, row_number() OVER (
    PARTITION BY period ORDER BY quantity DESC, product) AS place FROM (
    SELECT substr(o.created_at, 1, :length) AS period, p.name AS product,
      p.price_cents AS price, sum(i.quantity) AS quantity
    FROM orders o JOIN order_items i ON i.order_id = o.id
    JOIN products p ON p.id = i.product_id
    WHERE {_IN_SPAN} AND o.status != 'canceled' GROUP BY period, p.id))
WHERE place <= {_BEST} ORDER BY period, place""",
        ('Interval', 'Product', 'Price', 'Order Quantity'),
        money=('price',),
        note=f'The {_BEST} best products of each interval, without those of'
        ' canceled orders.',
    ),
    'report_customer/orders': _customers('Order Count Report', 'orders'),
    'report_customer/totals': _customers('Order Total Report', 'total'),
}  # fmt: skip
LOW_STOCK = Grid(
    title='Low Stock Report',
    path='/reports/report_product/lowstock',
    source=f"""
SELECT id, name, sku, quantity FROM products
WHERE enabled AND quantity < {_LOW}""",
    columns=(
        Column('name', 'Product'),
        Column('sku', 'SKU'),
        Column('quantity', 'Stock Quantity', grid.COUNT),
    ),
    link='/catalog/product/edit/{id}',
    search=('name', 'sku'),
    sort=('quantity', 'asc'),
)
RATINGS = Grid(
    title='Product Reviews Report',
    path='/reports/report_review/product',
    source="""
SELECT p.id, p.name, count(*) AS reviews,
  printf('%.2f', avg(r.stars)) AS average, max(r.created_at) AS last
FROM reviews r JOIN products p ON p.id = r.product_id
WHERE r.status = 'approved' GROUP BY p.id""",
    columns=(
        Column('name', 'Product'),
        Column('reviews', 'Reviews', grid.COUNT),
        Column('average', 'Average Rating'),
        Column('last', 'Last Review', grid.TIME),
    ),
    link='/catalog/product/edit/{id}',
    search=('name',),
    sort=('reviews', 'desc'),
)


def report(visit: Visit) -> Answer:
  """A report; without dates its form alone."""
  name = visit.match['report']
  definition = REPORTS[name]
  typed = {
      x: visit.query.get(x, '').strip()
      for x in ('from', 'to', 'period', 'status')
  }
  rows, sums, paging, error = [], {}, visit.page(0), ''
  try:
    days = _days(typed)
  except Wrong as wrong:
    days, error = None, str(wrong)
  if days:
    if days != (typed['from'], typed['to']):
      kept = {**typed, 'from': days[0], 'to': days[1]}
      query = urllib.parse.urlencode({k: v for k, v in kept.items() if v})
      return Redirect(f'/reports/{name}?{query}')
    _, length = PERIODS.get(typed['period'], PERIODS['day'])
    values = {
        'from': days[0],
        'to': days[1],
        'length': length,
        'status': typed['status'],
    }
    every = visit.db.execute(definition.query, values).fetchall()
    paging = visit.page(len(every))
    rows = every[paging.offset : paging.offset + paging.limit]
    sums = {x: sum(row[x] for row in every) for x in definition.sums}
  return Page.form(
      'report.html',
      error,
      report=definition,
      typed=typed,
      periods=PERIODS,
      statuses=STATUS,
      days=days,
      rows=rows,
      sums=sums,
      paging=paging,
  )


def _days(typed: dict[str, str]) -> tuple[str, str] | None:
  """The first and the last day of a report; None: none was asked for.

  Raises:
    Wrong: one of the two is missing, or none.
  """
  if not typed['from'] and not typed['to']:
    return None
  first, last = show.day(typed['from'], 'From'), show.day(typed['to'], 'To')
  if first > last:
    raise Wrong('To must not be before From.')
  return first, last
