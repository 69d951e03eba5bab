"""Tasks on customers, subscribers, price rules, search terms and content."""

import itertools

from agentrl.sites import seed_data, task as t
from agentrl.sites.admin.pages import show
from agentrl.sites.admin.tasks import paths
from agentrl.sites.admin.tasks.paths import change, go, seek
from agentrl.sites.answers import Number, Several, Text
from agentrl.sites.goals import added, changed, removed
from agentrl.sites.site import PER_PAGE

_VALUES = seed_data.read(__file__)
_CUSTOMERS = paths.menu('Customers', 'All Customers')
_RULES = paths.menu('Marketing', 'Cart Price Rules')
_GRID = 'sales/order/'  # a page without search terms
_NAMED = (
    "SELECT c.*, c.first_name || ' ' || c.last_name AS name, a.phone FROM"
    ' customers c JOIN addresses a ON a.id = c.billing_id'
)


def _by_phone(db: t.Db, k: int) -> t.Task:
  row = db.row_spread(
      k,
      f'{_NAMED} WHERE (SELECT count(*) FROM addresses b WHERE b.phone ='
      ' a.phone AND b.customer_id != c.id) = 0 ORDER BY a.phone',
  )
  return seek(
      f'Somebody with the phone number {row["phone"]} has called us.'
      ' Find out which customer this is, and answer with the name and the'
      ' email address, separated by a semicolon.',
      Several((Text(row['name']), Text(row['email']))),
      *_CUSTOMERS,
      paths.search(row['phone']),
  )


def _list(_: t.Db, k: int) -> t.Task:
  what, section, label, path = _VALUES['list'][k]
  return go(f'Show the list of all {what}.', path, *paths.menu(section, label))


def _email(db: t.Db, k: int) -> t.Task:
  row = db.row_spread(k, f'{_NAMED} ORDER BY c.last_name, c.first_name')
  email = f'{row["last_name"]}.{("home", "post", "box", "desk", "mail")[k]}'
  email = f'{email}@example.org'.lower()
  return change(
      f'The customer {row["name"]} has a new email address: {email}.'
      ' Change it in the account.',
      changed('shop.customers', row['id'], email=email),
      *_CUSTOMERS,
      paths.search(row['name']),
      t.link(row['name']),
      t.fill('Email', email),
      t.button('Save Customer'),
  )


def _unsubscribe(db: t.Db, k: int) -> t.Task:
  row = db.row_spread(k, 'SELECT * FROM subscribers ORDER BY id DESC')
  return change(
      f'{row["email"]} does not want our newsletter any more. Remove'
      ' this address from the subscribers.',
      removed('shop.subscribers', row['id']),
      *paths.menu('Marketing', 'Newsletter Subscribers'),
      paths.search(row['email']),
      *paths.many('Unsubscribe', row['email']),
  )


def _of_order(db: t.Db, k: int) -> t.Task:
  row = db.row_spread(
      k,
      "SELECT o.id, o.customer_id, c.first_name || ' ' || c.last_name AS"
      ' name FROM orders o JOIN customers c ON c.id = o.customer_id ORDER'
      ' BY o.id DESC',
  )
  number = show.number(row['id'])
  return go(
      f'Go to the page of the customer who placed order {number}.',
      f'customer/index/edit/{row["customer_id"]}',
      *paths.menu('Sales', 'Orders'),
      paths.search(number),
      t.link(number),
      t.link(row['name']),
  )


def _new_rule(_: t.Db, k: int) -> t.Task:
  name, kind, amount = _VALUES['new_rule'][k]
  return change(
      f'Create a cart price rule named "{name}" that takes'
      f' {_discount(kind, amount)} off every cart. It is active and has'
      ' neither a coupon code nor days of start and end.',
      added('shop.price_rules', name=name, kind=kind, amount=amount, active=1),
      *_RULES,
      t.link('Add New Rule'),
      t.fill('Rule Name', name),
      *_applied(kind, amount),
      t.button('Save Rule'),
  )


def _new_coupon(_: t.Db, k: int) -> t.Task:
  name, code, kind, amount, first, last = _VALUES['new_coupon'][k]
  return change(
      f'Set up an active cart price rule "{name}" with the coupon code'
      f' {code}: {_discount(kind, amount)} off, from {first} to {last}.',
      added(
          'shop.price_rules',
          name=name,
          code=code,
          kind=kind,
          amount=amount,
          active=1,
          starts_on=first,
          ends_on=last,
      ),
      *_RULES,
      t.link('Add New Rule'),
      t.fill('Rule Name', name),
      t.fill('Coupon Code', code),
      *_applied(kind, amount),
      t.fill('Start', first),
      t.fill('End', last),
      t.button('Save Rule'),
  )


def _discount(kind: str, amount: int) -> str:
  return f'{amount} percent' if kind == 'percent' else f'${amount // 100}'


def _applied(kind: str, amount: int) -> tuple:
  """Steps that fill in the discount of a rule."""
  if kind == 'percent':
    return (t.fill('Discount Amount', str(amount)),)
  return (
      t.choose('Apply', 'Fixed amount for the whole cart'),
      t.fill('Discount Amount', f'{amount / 100:.2f}'),
  )


def _end_rule(db: t.Db, k: int) -> t.Task:
  row = db.row_spread(
      k,
      'SELECT * FROM price_rules WHERE active AND code IS NOT NULL ORDER BY'
      ' code',
  )
  return change(
      f'The coupon {row["code"]} is no longer to be taken. Set its price'
      ' rule to inactive.',
      changed('shop.price_rules', row['id'], active=0),
      *_RULES,
      paths.search(row['code']),
      t.link(row['name']),
      t.choose('Status', 'Inactive'),
      t.button('Save Rule'),
  )


def _page_title(db: t.Db, k: int) -> t.Task:
  row = db.row_spread(k, 'SELECT * FROM pages ORDER BY slug DESC')
  title = _VALUES['page_title'][k]
  return change(
      f'Change the title of the page "{row["title"]}" of our shop to'
      f' "{title}".',
      changed('shop.pages', row['id'], title=title),
      *paths.menu('Content', 'Pages'),
      t.link(row['title']),
      t.fill('Page Title', title),
      t.button('Save Page'),
  )


def _theme(db: t.Db, k: int) -> t.Task:
  row = db.rows('SELECT * FROM themes ORDER BY title')[k]
  return go(
      f'Show me the preview of the theme "{row["title"]}".',
      f'admin/system_design_theme/edit/{row["id"]}',
      *paths.menu('Content', 'Themes'),
      t.link(row['title']),
  )


def _top_terms(db: t.Db, k: int) -> t.Task:
  count = (3, 2, 4, 6, 5)[k]
  terms = db.rows(
      'SELECT text FROM search_terms ORDER BY uses DESC LIMIT ?', count
  )
  return seek(
      f'List the {count} search terms that visitors of the shop have'
      ' used most often, the most used first, separated by semicolons.',
      Several([Text(row['text']) for row in terms], ordered=True),
      *paths.menu('Marketing', 'Search Terms'),
      # A second click turns the order.
      t.link('Uses'),
      t.link('Uses'),
      start=_GRID,
  )


def _top_brand(db: t.Db, k: int) -> t.Task:
  terms = db.rows('SELECT text, uses FROM search_terms ORDER BY id')
  brands = db.rows('SELECT DISTINCT brand FROM products ORDER BY brand')
  ranges: dict[str, list[tuple[int, int]]] = {}
  for low, width in itertools.product(range(0, 651, 10), (200, 150, 100)):
    texts = [x['text'] for x in terms if low <= x['uses'] <= low + width]
    if len(texts) > PER_PAGE:
      continue
    best, second = sorted(
        (
            (sum(brand.lower() in text for text in texts), brand)
            for (brand,) in brands
        ),
        reverse=True,
    )[:2]
    if best[0] > max(1, second[0]):
      ranges.setdefault(best[1], []).append((low, low + width))
  # In turn, so that no brand is the answer to most of the tasks.
  if len(ranges) < 3:
    raise LookupError(f'{len(ranges)} brands are too few for 5 tasks.')
  brand = sorted(ranges)[k % len(ranges)]
  low, high = ranges[brand][k * len(ranges[brand]) // 5]
  return seek(
      'Which brand appears in the most of those search terms that were'
      f' used {low} to {high} times? Answer with its name.',
      Text(brand),
      *paths.menu('Marketing', 'Search Terms'),
      *paths.filters(
          t.fill('Uses from', str(low)), t.fill('Uses to', str(high))
      ),
      start=_GRID,
  )


def _uses(db: t.Db, k: int) -> t.Task:
  row = db.row_spread(
      k,
      'SELECT * FROM search_terms t WHERE id > 20 AND uses > 20 AND uses !='
      ' 100 AND uses NOT IN (SELECT uses FROM search_terms WHERE id <= 20)'
      ' AND NOT EXISTS (SELECT 1 FROM search_terms u WHERE u.id != t.id AND'
      ' instr(u.text, t.text)) ORDER BY text',
      count=40,
  )
  return seek(
      f'How many times was "{row["text"]}" searched for? Answer with the'
      ' number.',
      Number(str(row['uses']), 'times'),
      paths.search(row['text']),
      start='search/term/',
  )


TEMPLATES = (
    t.Template('admin/term-uses', t.SEEK, _uses, 40),
    t.Template('admin/customer-email', t.CHANGE, _email, 5),
    t.Template('admin/open-list', t.GO, _list, 5, (255,)),
    t.Template('admin/customer-by-phone', t.SEEK, _by_phone, 5, (364,)),
    t.Template('admin/new-price-rule', t.CHANGE, _new_rule, 5, (258,)),
    t.Template('admin/page-title', t.CHANGE, _page_title, 5, (275,)),
    t.Template('admin/top-search-terms', t.SEEK, _top_terms, 5, (285,)),
    t.Template('admin/preview-theme', t.GO, _theme, 5, (266,)),
    t.Template('admin/new-coupon', t.CHANGE, _new_coupon, 5, (258,)),
    t.Template('admin/top-brand', t.SEEK, _top_brand, 5, (1001,)),
    t.Template('admin/unsubscribe', t.CHANGE, _unsubscribe, 5),
    t.Template('admin/customer-of-order', t.GO, _of_order, 5),
    t.Template('admin/end-coupon', t.CHANGE, _end_rule, 5),
)
