"""Tasks on customers, subscribers, price rules, search terms and content."""

import itertools

from agentrl.sites.admin.pages import show
from agentrl.sites.admin.tasks.steps import (
    START,
    filters,
    many,
    menu,
    nth,
    rows,
    search,
)
from agentrl.sites.answers import Number, Several, Text
from agentrl.sites.goals import ADDED, CHANGED, REMOVED, Goal, Row
from agentrl.sites.site import PER_PAGE
from agentrl.sites.task import (
    CHANGE,
    GO,
    SEEK,
    Stores,
    Task,
    Template,
    choose,
    click_on,
    fill,
    stop,
)

_CUSTOMERS = menu('Customers', 'All Customers')
_RULES = menu('Marketing', 'Cart Price Rules')
_GRID = ('http://admin/sales/order/',)  # a page without search terms
_NAMED = (
    "SELECT c.*, c.first_name || ' ' || c.last_name AS name, a.phone FROM"
    ' customers c JOIN addresses a ON a.id = c.billing_id'
)


def _by_phone(stores: Stores, k: int) -> Task:
  row = nth(
      rows(
          stores,
          f'{_NAMED} WHERE (SELECT count(*) FROM addresses b WHERE b.phone ='
          ' a.phone AND b.customer_id != c.id) = 0 ORDER BY a.phone',
      ),
      k,
  )
  answer = Several((Text(row['name']), Text(row['email'])))
  return Task(
      intent=(
          f'Somebody with the phone number {row["phone"]} has called us.'
          ' Find out which customer this is, and answer with the name and the'
          ' email address, separated by a semicolon.'
      ),
      goal=Goal(answer),
      steps=(*_CUSTOMERS, search(row['phone']), stop(answer.example())),
      start=START,
  )


def _list(stores: Stores, k: int) -> Task:
  del stores
  what, section, label, path = (
      ('customers', 'Customers', 'All Customers', 'customer/index/'),
      ('invoices', 'Sales', 'Invoices', 'sales/invoice/'),
      ('subscribers of the newsletter', 'Marketing', 'Newsletter Subscribers',
       'newsletter/subscriber/'),
      ('credit memos', 'Sales', 'Credit Memos', 'sales/creditmemo/'),
      ('shipments', 'Sales', 'Shipments', 'sales/shipment/'),
  )[k]  # fmt: skip
  return Task(
      intent=f'Show the list of all {what}.',
      goal=Goal(url=f'http://admin/{path}'),
      steps=(*menu(section, label), stop()),
      start=START,
  )


def _email(stores: Stores, k: int) -> Task:
  row = nth(rows(stores, f'{_NAMED} ORDER BY c.last_name, c.first_name'), k)
  email = f'{row["last_name"]}.{("home", "post", "box", "desk", "mail")[k]}'
  email = f'{email}@example.org'.lower()
  return Task(
      intent=(
          f'The customer {row["name"]} has a new email address: {email}.'
          ' Change it in the account.'
      ),
      goal=Goal(
          rows=(Row('shop.customers', CHANGED, {'email': email}, row['id']),)
      ),
      steps=(
          *_CUSTOMERS,
          search(row['name']),
          click_on('link', row['name']),
          fill('Email', email),
          click_on('button', 'Save Customer'),
          stop(),
      ),
      start=START,
  )


def _unsubscribe(stores: Stores, k: int) -> Task:
  row = nth(rows(stores, 'SELECT * FROM subscribers ORDER BY id DESC'), k)
  return Task(
      intent=(
          f'{row["email"]} does not want our newsletter any more. Remove'
          ' this address from the subscribers.'
      ),
      goal=Goal(rows=(Row('shop.subscribers', REMOVED, key=row['id']),)),
      steps=(
          *menu('Marketing', 'Newsletter Subscribers'),
          search(row['email']),
          *many('Unsubscribe', row['email']),
          stop(),
      ),
      start=START,
  )


def _of_order(stores: Stores, k: int) -> Task:
  row = nth(
      rows(
          stores,
          "SELECT o.id, o.customer_id, c.first_name || ' ' || c.last_name AS"
          ' name FROM orders o JOIN customers c ON c.id = o.customer_id ORDER'
          ' BY o.id DESC',
      ),
      k,
  )
  number = show.number(row['id'])
  return Task(
      intent=f'Go to the page of the customer who placed order {number}.',
      goal=Goal(url=f'http://admin/customer/index/edit/{row["customer_id"]}'),
      steps=(
          *menu('Sales', 'Orders'),
          search(number),
          click_on('link', number),
          click_on('link', row['name']),
          stop(),
      ),
      start=START,
  )


def _new_rule(stores: Stores, k: int) -> Task:
  del stores
  name, kind, amount = (
      ('Spring sale', 'percent', 20),
      ('Fall discount', 'fixed', 1000),
      ('Rainy days', 'percent', 15),
      ('Weekend flash', 'fixed', 4000),
      ('Ten years of us', 'percent', 45),
  )[k]
  return Task(
      intent=(
          f'Create a cart price rule named "{name}" that takes'
          f' {_discount(kind, amount)} off every cart. It is active and has'
          ' neither a coupon code nor days of start and end.'
      ),
      goal=Goal(
          rows=(
              Row(
                  'shop.price_rules',
                  ADDED,
                  {'name': name, 'kind': kind, 'amount': amount, 'active': 1},
              ),
          )
      ),
      steps=(
          *_RULES,
          click_on('link', 'Add New Rule'),
          fill('Rule Name', name),
          *_applied(kind, amount),
          click_on('button', 'Save Rule'),
          stop(),
      ),
      start=START,
  )


def _new_coupon(stores: Stores, k: int) -> Task:
  del stores
  name, code, kind, amount, first, last = (
      ('Summer picnic', 'PICNIC7', 'percent', 7, '2023-07-01', '2023-07-31'),
      ('Back to school', 'SCHOOL12', 'fixed', 1200, '2023-08-15', '2023-09-15'),
      ('Harvest week', 'HARVEST', 'percent', 18, '2023-10-02', '2023-10-08'),
      ('Early gifts', 'GIFT25', 'fixed', 2500, '2023-11-01', '2023-12-10'),
      ('New Year', 'NY24', 'percent', 24, '2023-12-31', '2024-01-06'),
  )[k]
  values = {
      'name': name,
      'code': code,
      'kind': kind,
      'amount': amount,
      'active': 1,
      'starts_on': first,
      'ends_on': last,
  }
  return Task(
      intent=(
          f'Set up an active cart price rule "{name}" with the coupon code'
          f' {code}: {_discount(kind, amount)} off, from {first} to {last}.'
      ),
      goal=Goal(rows=(Row('shop.price_rules', ADDED, values),)),
      steps=(
          *_RULES,
          click_on('link', 'Add New Rule'),
          fill('Rule Name', name),
          fill('Coupon Code', code),
          *_applied(kind, amount),
          fill('Start', first),
          fill('End', last),
          click_on('button', 'Save Rule'),
          stop(),
      ),
      start=START,
  )


def _discount(kind: str, amount: int) -> str:
  return f'{amount} percent' if kind == 'percent' else f'${amount // 100}'


def _applied(kind: str, amount: int) -> tuple:
  """Steps that fill in the discount of a rule."""
  if kind == 'percent':
    return (fill('Discount Amount', str(amount)),)
  return (
      choose('Apply', 'Fixed amount for the whole cart'),
      fill('Discount Amount', f'{amount / 100:.2f}'),
  )


def _end_rule(stores: Stores, k: int) -> Task:
  row = nth(
      rows(
          stores,
          'SELECT * FROM price_rules WHERE active AND code IS NOT NULL ORDER BY'
          ' code',
      ),
      k,
  )
  return Task(
      intent=(
          f'The coupon {row["code"]} is no longer to be taken. Set its price'
          ' rule to inactive.'
      ),
      goal=Goal(
          rows=(Row('shop.price_rules', CHANGED, {'active': 0}, row['id']),)
      ),
      steps=(
          *_RULES,
          search(row['code']),
          click_on('link', row['name']),
          choose('Status', 'Inactive'),
          click_on('button', 'Save Rule'),
          stop(),
      ),
      start=START,
  )


def _page_title(stores: Stores, k: int) -> Task:
  row = nth(rows(stores, 'SELECT * FROM pages ORDER BY slug DESC'), k)
  title = (
      'How parcels travel',
      'What we know about you',
      'You took a wrong turn',
      'Presents made of paper',
      'We are here to help',
  )[k]
  return Task(
      intent=(
          f'Change the title of the page "{row["title"]}" of our shop to'
          f' "{title}".'
      ),
      goal=Goal(
          rows=(Row('shop.pages', CHANGED, {'title': title}, row['id']),)
      ),
      steps=(
          *menu('Content', 'Pages'),
          click_on('link', row['title']),
          fill('Page Title', title),
          click_on('button', 'Save Page'),
          stop(),
      ),
      start=START,
  )


def _theme(stores: Stores, k: int) -> Task:
  row = rows(stores, 'SELECT * FROM themes ORDER BY title')[k]
  return Task(
      intent=f'Show me the preview of the theme "{row["title"]}".',
      goal=Goal(url=f'http://admin/admin/system_design_theme/edit/{row["id"]}'),
      steps=(
          *menu('Content', 'Themes'),
          click_on('link', row['title']),
          stop(),
      ),
      start=START,
  )


def _top_terms(stores: Stores, k: int) -> Task:
  count = (3, 2, 4, 6, 5)[k]
  found = rows(
      stores, 'SELECT text FROM search_terms ORDER BY uses DESC LIMIT ?', count
  )
  answer = Several([Text(row['text']) for row in found], ordered=True)
  return Task(
      intent=(
          f'List the {count} search terms that visitors of the shop have'
          ' used most often, the most used first, separated by semicolons.'
      ),
      goal=Goal(answer),
      steps=(
          *menu('Marketing', 'Search Terms'),
          # A second click turns the order.
          click_on('link', 'Uses'),
          click_on('link', 'Uses'),
          stop(answer.example()),
      ),
      start=_GRID,
  )


def _top_brand(stores: Stores, k: int) -> Task:
  terms = rows(stores, 'SELECT text, uses FROM search_terms ORDER BY id')
  brands = rows(stores, 'SELECT DISTINCT brand FROM products ORDER BY brand')
  found: dict[str, list[tuple[int, int]]] = {}
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
      found.setdefault(best[1], []).append((low, low + width))
  # In turn, so that no brand is the answer to most of the tasks.
  if len(found) < 3:
    raise LookupError(f'{len(found)} brands are too few for 5 tasks.')
  brand = sorted(found)[k % len(found)]
  low, high = found[brand][k * len(found[brand]) // 5]
  return Task(
      intent=(
          'Which brand appears in the most of those search terms that were'
          f' used {low} to {high} times? Answer with its name.'
      ),
      goal=Goal(Text(brand)),
      steps=(
          *menu('Marketing', 'Search Terms'),
          *filters(fill('Uses from', str(low)), fill('Uses to', str(high))),
          stop(brand),
      ),
      start=_GRID,
  )


def _uses(stores: Stores, k: int) -> Task:
  row = nth(
      rows(
          stores,
          'SELECT * FROM search_terms t WHERE id > 20 AND uses > 20 AND uses !='
          ' 100 AND uses NOT IN (SELECT uses FROM search_terms WHERE id <= 20)'
          ' AND NOT EXISTS (SELECT 1 FROM search_terms u WHERE u.id != t.id AND'
          ' instr(u.text, t.text)) ORDER BY text',
      ),
      k,
      40,
  )
  answer = Number(str(row['uses']), 'times')
  return Task(
      intent=(
          f'How many times was "{row["text"]}" searched for? Answer with the'
          ' number.'
      ),
      goal=Goal(answer),
      steps=(search(row['text']), stop(answer.example())),
      start=('http://admin/search/term/',),
  )


TEMPLATES = (
    Template('admin/term-uses', SEEK, _uses, 40),
    Template('admin/customer-email', CHANGE, _email, 5),
    Template('admin/open-list', GO, _list, 5, (255,)),
    Template('admin/customer-by-phone', SEEK, _by_phone, 5, (364,)),
    Template('admin/new-price-rule', CHANGE, _new_rule, 5, (258,)),
    Template('admin/page-title', CHANGE, _page_title, 5, (275,)),
    Template('admin/top-search-terms', SEEK, _top_terms, 5, (285,)),
    Template('admin/preview-theme', GO, _theme, 5, (266,)),
    Template('admin/new-coupon', CHANGE, _new_coupon, 5, (258,)),
    Template('admin/top-brand', SEEK, _top_brand, 5, (1001,)),
    Template('admin/unsubscribe', CHANGE, _unsubscribe, 5),
    Template('admin/customer-of-order', GO, _of_order, 5),
    Template('admin/end-coupon', CHANGE, _end_rule, 5),
)
