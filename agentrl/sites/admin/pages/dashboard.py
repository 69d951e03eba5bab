"""The start page: figures of the shop at a glance."""

from agentrl.sites.site import Page, Visit

_FEW = 5  # rows of each list


def dashboard(visit: Visit) -> Page:
  """Sales, last orders, search terms and bestsellers."""
  return Page.of(
      'dashboard.html',
      sales=visit.one(
          'SELECT sum(t.total_cents) AS total, sum(t.total_cents) /'
          ' count(*) AS average FROM orders o JOIN order_totals t ON'
          " t.order_id = o.id WHERE o.status = 'complete'"
      ),
      orders=visit.all(
          "SELECT o.id, c.first_name || ' ' || c.last_name AS customer,"
          ' t.total_cents AS total, (SELECT sum(quantity) FROM order_items'
          ' i WHERE i.order_id = o.id) AS items FROM orders o JOIN'
          ' customers c ON c.id = o.customer_id JOIN order_totals t ON'
          ' t.order_id = o.id ORDER BY o.created_at DESC LIMIT ?',
          _FEW,
      ),
      last_terms=visit.all(
          'SELECT * FROM search_terms ORDER BY updated_at DESC, id LIMIT ?',
          _FEW,
      ),
      top_terms=visit.all(
          'SELECT * FROM search_terms ORDER BY uses DESC, id LIMIT ?', _FEW
      ),
      best=visit.all(
          'SELECT p.id, p.name, p.price_cents, sum(i.quantity) AS quantity'
          ' FROM orders o JOIN order_items i ON i.order_id = o.id JOIN'
          " products p ON p.id = i.product_id WHERE o.status != 'canceled'"
          ' GROUP BY p.id ORDER BY 4 DESC, p.name LIMIT ?',
          _FEW,
      ),
  )
