"""The shop's pages over HTTP: what they show, what they write, what not."""

import asyncio
import contextlib
import html
import re

import aiohttp
import pytest

from agentrl.envs.webarena.server import COOKIE, Server
from agentrl.sites.shop import tasks
from agentrl.sites.shop.seed import store as shop_store
from agentrl.sites.shop.site import SITE
from agentrl.sites.state import Faults, State
from agentrl.sites.store import Store
from agentrl.sites.task import GO, SEEK
from tests.sites.oracle_shop import ORACLES


def _build(**more):
  return Store.build('shop', shop_store.SCHEMA, fill=shop_store.fill, **more)


STORE = _build()
DB = STORE.copy()


def one(sql, *values):
  return DB.execute(sql, values).fetchone()


def all_of(sql, *values):
  return [row[0] for row in DB.execute(sql, values)]


class Shop:
  """A visit of the shop, which remembers the statuses it got."""

  def __init__(self, session, url, state):
    self._session, self._url, self._state = session, url, state

  async def get(self, path, status=200):
    async with self._session.get(self._url + path) as reply:
      text = await reply.text()
      assert reply.status == status, f'{path}: {reply.status} {text[:500]}'
      return text

  async def post(self, path, status=200, **form):
    form = {name.replace('__', ' '): value for name, value in form.items()}
    async with self._session.post(self._url + path, data=form) as reply:
      text = await reply.text()
      assert reply.status == status, f'{path}: {reply.status} {text[:500]}'
      return text

  @property
  def changes(self):
    return [
        (
            change.table.removeprefix('shop.'),
            change.key,
            'added'
            if change.before is None
            else 'removed'
            if change.after is None
            else dict(change.changed),
        )
        for change in self._state.changes()
    ]

  @property
  def db(self):
    return self._state.copy('shop')


@contextlib.asynccontextmanager
async def _opened(store):
  server = Server([SITE])
  await server.start()
  state = State({'shop': store}, Faults(), 'test')
  cookies = {COOKIE: server.open(state)}
  jar = aiohttp.CookieJar(unsafe=True)
  async with aiohttp.ClientSession(cookies=cookies, cookie_jar=jar) as session:
    yield Shop(session, server.urls['shop'], state)
  await server.stop()
  state.close()


def visit(play, store=STORE):
  async def run():
    async with _opened(store) as shop:
      return await play(shop)

  return asyncio.run(run())


def test_two_builds_are_equal_and_of_realistic_size():
  assert _build().digest == STORE.digest
  assert len(STORE.data) < 3e6
  counts = {
      'products': 1500,
      'reviews': 4000,
      'customers': 120,
      'orders': 1500,
  }
  for table, least in counts.items():
    assert one(f'SELECT count(*) FROM {table}')[0] >= least
  assert one('SELECT count(*) FROM orders WHERE customer_id = 1')[0] >= 40


PAGES = (
    '/',
    '/sale',
    '/catalogsearch/result?q=lamp',
    '/catalogsearch/advanced',
    '/catalogsearch/advanced/result?description=felt&price_to=40',
    '/catalog/compare',
    '/wishlist',
    '/checkout/cart',
    '/customer/account',
    '/customer/account/edit',
    '/customer/address',
    '/customer/address/new',
    '/newsletter/manage',
    '/review/customer',
    '/sales/order/history',
    '/contact',
    '/about-us',
    '/customer-service',
    '/static/site.css',
    '/static/site.js',
    '/static/icons.svg',
)


def test_all_pages_answer_and_write_nothing():
  categories = all_of('SELECT path FROM categories')
  products = all_of('SELECT slug FROM products WHERE enabled LIMIT 20')
  orders = all_of('SELECT id FROM orders WHERE customer_id = 1')
  addresses = all_of('SELECT id FROM addresses WHERE customer_id = 1')

  async def play(shop):
    for path in PAGES:
      await shop.get(path)
    for name in (*categories, *products):
      await shop.get(f'/{name}.html')
    for order in orders:
      await shop.get(f'/sales/order/view/{order}')
    for address in addresses:
      await shop.get(f'/customer/address/{address}/edit')
      await shop.get(f'/customer/address/{address}/delete')
    assert shop.db.total_changes == 0

  visit(play)


MISSING = (
    '/nothing.html',
    '/electronics/nothing.html',
    '/nothing',
    '/sales/order/view/999999',
    '/sales/order/view/99999999999999',
    '/sales/order/view/-1',
    '/customer/address/999999/edit',
    '/checkout/success',
    '/checkout/success?order=1e9',
    '/wp-admin/',
)


def test_what_is_not_there_is_missing():
  hidden = one('SELECT slug FROM products WHERE NOT enabled')[0]

  async def play(shop):
    for path in (*MISSING, f'/{hidden}.html'):
      assert '404: page not found' in await shop.get(path, 404)

  visit(play)


def test_pages_of_a_list_have_all_products_once():
  wanted = sorted(
      all_of("SELECT slug FROM products WHERE enabled AND name LIKE '%Lamp%'")
  )

  async def slugs(shop, path):
    text = await shop.get(path)
    return re.findall(r'<li><a href="/([^"]+)\.html"><span class="pic', text)

  async def play(shop):
    for order in ('position', 'name', 'price'):
      for direction in ('asc', 'desc'):
        base = f'/catalogsearch/result?q=lamp&order={order}&dir={direction}'
        found = []
        for page in range(1, -(-len(wanted) // 20) + 1):
          found += await slugs(shop, f'{base}&page={page}')
        assert sorted(found) == wanted
        if order == 'price':
          price = lambda slug: one(
              'SELECT price_cents FROM products WHERE slug = ?', slug
          )[0]
          prices = [price(slug) for slug in found]
          assert prices == sorted(prices, reverse=direction == 'desc')
    # Filters by price, brand and rating.
    path = '/home-kitchen/lighting/table-lamps.html'
    price = one(
        'SELECT min(price_cents) FROM products p JOIN categories c ON c.id ='
        " p.category_id WHERE c.name = 'Table Lamps' AND p.enabled"
    )[0]
    (slug,) = await slugs(shop, f'{path}?price_to={price / 100:.2f}')
    brand, *_ = one('SELECT brand FROM products WHERE slug = ?', slug)
    for each in await slugs(shop, f'{path}?brand={brand}'):
      row = one('SELECT brand FROM products WHERE slug = ?', each)
      assert row[0] == brand
    for each in await slugs(shop, f'{path}?rating=4'):
      stars = one(
          'SELECT avg(stars) FROM reviews r JOIN products p ON p.id ='
          " r.product_id WHERE slug = ? AND r.status = 'approved'",
          each,
      )
      assert stars[0] >= 4

  visit(play)


def test_hostile_addresses_are_answered():
  async def play(shop):
    for query in (
        'page=-1',
        f'page={10**9}',
        'page=1&page=2',
        'page=%00',
        'order=nonsense&dir=up',
        'order=p.id%3B+DROP+TABLE+products',
        'brand=%27%3B+DROP+TABLE+products%3B--',
        'price_from=abc&price_to=-5',
        'price_from=1e9',
        'price_to=99999999999999',
        'rating=9',
        'rating=%F0%9F%98%80',
    ):
      await shop.get(f'/electronics.html?{query}')
      await shop.get(f'/catalogsearch/result?q=a&{query}')
    for words in ('%25', '_', '%27', '%5C', '%22', 'a' * 5000, '%00', '+'):
      await shop.get(f'/catalogsearch/result?q={words}')
      await shop.get(f'/catalogsearch/advanced/result?name={words}')
    # A percent sign is no wildcard.
    assert "can't find" in await shop.get('/catalogsearch/result?q=%25%25')
    assert shop.db.total_changes == 0
    assert one('SELECT count(*) FROM products')[0]

  visit(play)


def test_one_list_has_one_address():
  async def play(shop):
    async with shop._session.get(
        shop._url + '/sale?price_to=24.50&price_from=&order=price'
    ) as reply:
      assert reply.url.query_string == 'price_to=24.50&order=price&dir=asc'
    async with shop._session.get(
        shop._url + '/sale?price_to=%2425.00'
    ) as reply:
      assert reply.url.query_string == 'price_to=25'

  visit(play)


def _product(*, options, stock=20):
  return dict(
      one(
          'SELECT * FROM products p WHERE enabled AND quantity > ? AND EXISTS'
          ' (SELECT 1 FROM options o WHERE o.product_id = p.id) = ?',
          stock,
          options,
      )
  )


def test_a_cart_becomes_an_order():
  plain, dressed = _product(options=False), _product(options=True)
  options = DB.execute(
      'SELECT name, min(value) FROM options WHERE product_id = ? GROUP BY name'
      ' ORDER BY min(id)',
      (dressed['id'],),
  ).fetchall()
  form = {f'option {name}': value for name, value in options}
  last = one('SELECT max(id) FROM orders')[0]

  async def play(shop):
    add = '/checkout/cart/add'
    await shop.post(add, product=plain['id'], quantity='2')
    await shop.post(add, product=plain['id'], quantity='1')
    assert [x[0] for x in shop.changes] == ['cart_items']
    await shop.post(add, 422, product=dressed['id'], quantity='1')
    await shop.post(add, product=dressed['id'], quantity='1', **form)
    text = await shop.get('/checkout/cart')
    total = 3 * plain['price_cents'] + dressed['price_cents']
    assert f'${total / 100:,.2f}' in text
    coupon = '/checkout/cart/coupon'
    await shop.post(coupon, 422, coupon='NONSENSE')
    await shop.post(coupon, 422, coupon='WINTER22')  # not active
    await shop.post(coupon, 422, coupon='SPRING23')  # has ended
    await shop.post(coupon, coupon='summer23')
    assert 'SUMMER23' in await shop.get('/checkout/cart')
    await shop.get('/checkout')
    address = all_of('SELECT id FROM addresses WHERE customer_id = 1')[1]
    query = f'address={address}&shipping=Express+Delivery'
    assert '$12.99' in await shop.get(f'/checkout/payment?{query}')
    place = '/checkout/place'
    await shop.post(place, 422, address=address, shipping='Rocket')
    theirs = all_of('SELECT id FROM addresses WHERE customer_id = 2')[0]
    await shop.post(place, 403, address=theirs, shipping='Express Delivery')
    await shop.post(place, address=address, shipping='Express Delivery')
    assert shop.changes == [
        ('order_items', k, 'added')
        for k in all_of('SELECT max(id) + 1 FROM order_items') + all_of(
            'SELECT max(id) + 2 FROM order_items'
        )
    ] + [('orders', last + 1, 'added')]
    row = shop.db.execute(
        'SELECT discount_cents, total_cents, coupon, status FROM orders JOIN'
        ' order_totals ON order_id = id WHERE id = ?',
        (last + 1,),
    ).fetchone()
    off = total * 20 // 100
    assert tuple(row) == (off, total - off + 1299, 'SUMMER23', 'pending')
    await shop.get(f'/sales/order/view/{last + 1}')
    assert 'no items' in await shop.post(place, address=address)

  visit(play)


def test_the_cart_can_be_changed():
  plain = _product(options=False)
  empty = one('SELECT id FROM products WHERE enabled AND NOT quantity')[0]

  async def play(shop):
    add = '/checkout/cart/add'
    for quantity in ('0', '-1', 'x', '101', '1.5', '', '9' * 30, '²'):
      await shop.post(add, 422, product=plain['id'], quantity=quantity)
    for product in ('', 'x', '999999', '9' * 30):
      await shop.post(add, 404, product=product, quantity='1')
    await shop.post(add, 422, product=empty, quantity='1')
    assert not shop.changes
    await shop.post(add, product=plain['id'], quantity='1')
    ((_, key, _),) = shop.changes
    update = '/checkout/cart/update'
    await shop.post(update, 422, **{f'quantity {key}': 'many'})
    await shop.post(update, 422, **{f'quantity {key}': '9999'})
    await shop.post(update, **{f'quantity {key}': '4'})
    row = shop.db.execute('SELECT quantity FROM cart_items').fetchone()
    assert row[0] == 4
    await shop.post(update, **{f'quantity {key}': '0'})
    assert not shop.changes
    await shop.post(add, product=plain['id'], quantity='1')
    await shop.post('/checkout/cart/remove/999', 404)
    await shop.post(f'/checkout/cart/remove/{shop.changes[0][1]}')
    assert not shop.changes

  visit(play)


def test_an_order_is_put_into_the_cart_again():
  order = one(
      'SELECT o.id FROM orders o WHERE customer_id = 1 AND NOT EXISTS (SELECT 1'
      ' FROM order_items i JOIN products p ON p.id = i.product_id WHERE'
      ' i.order_id = o.id AND p.quantity < i.quantity)'
  )[0]
  items = one('SELECT count(*) FROM order_items WHERE order_id = ?', order)[0]

  async def play(shop):
    await shop.post(f'/sales/order/reorder/{order}')
    assert [x[0] for x in shop.changes] == ['cart_items'] * items

  visit(play)


def test_wish_list_and_comparison():
  plain, dressed = _product(options=False), _product(options=True)

  async def play(shop):
    for product in (plain, dressed, plain):
      await shop.post('/wishlist/add', product=product['id'])
      await shop.post('/catalog/compare/add', product=product['id'])
    assert [x[0] for x in shop.changes] == [
        'compare_items',
        'compare_items',
        'wishlist_items',
        'wishlist_items',
    ]
    await shop.get('/catalog/compare')
    keys = [key for table, key, _ in shop.changes if table[0] == 'w']
    text = await shop.post(f'/wishlist/cart/{keys[1]}')
    assert 'You need to choose options' in text
    await shop.post(f'/wishlist/cart/{keys[0]}')
    await shop.post(f'/wishlist/remove/{keys[1]}')
    for table, key, _ in shop.changes:
      if table == 'compare_items':
        await shop.post(f'/catalog/compare/remove/{key}')
    assert [x[0] for x in shop.changes] == ['cart_items']

  visit(play)


ADDRESS = dict(
    first_name='Ella',
    last_name='Brandt',
    phone='201-555-0100',
    street='1 Test Way',
    city='Boise',
    region='Idaho',
    postcode='83701',
)


def test_the_address_book():
  first, second, *_ = all_of('SELECT id FROM addresses WHERE customer_id = 1')

  async def play(shop):
    book = '/customer/address'
    await shop.post(f'{book}/new', 422, **{**ADDRESS, 'city': ' '})
    await shop.post(f'{book}/new', 422, **{**ADDRESS, 'city': 'x' * 200})
    await shop.post(f'{book}/{first}/delete', 422)  # a default
    assert not shop.changes
    await shop.post(f'{book}/new', **ADDRESS, default_shipping='1')
    added, changed = shop.changes
    assert added[::2] == ('addresses', 'added')
    assert changed[0] == 'customers'
    assert changed[2].keys() == {'shipping_id', 'updated_at'}
    await shop.post(f'{book}/{second}/edit', **ADDRESS)
    await shop.post(f'{book}/{second}/delete')
    assert ('addresses', second, 'removed') in shop.changes

  visit(play)


def test_account_newsletter_reviews_and_messages():
  product = _product(options=False)
  mine = 'ella.brandt@example.com'
  taken = one('SELECT email FROM customers WHERE id = 2')[0]

  async def play(shop):
    edit = '/customer/account/edit'
    name = dict(first_name='Ella', last_name='Brandt')
    await shop.post(edit, 422, **name, email='nobody')
    await shop.post(edit, 422, **name, email=taken)
    await shop.post(edit, 422, first_name='', last_name='x', email=mine)
    await shop.post('/newsletter/subscribe', 422, email='x y@z')
    review = f'/review/product/{product["id"]}'
    said = dict(nickname='E', summary='Fine', review='All good.')
    await shop.post(review, 422, **said)
    await shop.post(review, 422, **said, rating='6')
    await shop.post(review, 422, **{**said, 'review': ''}, rating='5')
    await shop.post('/contact', 422, name='E', email=mine, message='')
    assert not shop.changes
    await shop.post(edit, first_name='Ela', last_name='Brandt', email=mine)
    assert shop.changes[0][2].keys() == {'first_name', 'updated_at'}
    await shop.post(edit, **name, email=mine)
    await shop.post('/newsletter/subscribe', email='new@example.com')
    await shop.post('/newsletter/subscribe', 422, email='new@example.com')
    await shop.post('/newsletter/manage', subscribed='1')
    await shop.post('/newsletter/manage', subscribed='1')
    await shop.post(review, **said, rating='5')
    await shop.post('/contact', name='E', email=mine, message='Hello')
    assert sorted(x[0] for x in shop.changes) == [
        'customers',  # its updated_at
        'messages',
        'reviews',
        'subscribers',
        'subscribers',
    ]
    await shop.post('/newsletter/manage')
    assert len(shop.changes) == 4

  visit(play)


def test_what_is_of_others_is_refused():
  order = one('SELECT id FROM orders WHERE customer_id = 2')[0]
  address = one('SELECT id FROM addresses WHERE customer_id = 2')[0]
  wish = one('SELECT id FROM wishlist_items WHERE customer_id != 1')[0]

  async def play(shop):
    await shop.get(f'/sales/order/view/{order}', 403)
    await shop.post(f'/sales/order/reorder/{order}', 403)
    await shop.get(f'/customer/address/{address}/edit', 403)
    await shop.post(f'/customer/address/{address}/edit', 403, **ADDRESS)
    await shop.post(f'/customer/address/{address}/delete', 403)
    await shop.post(f'/wishlist/remove/{wish}', 404)
    await shop.get(f'/checkout/success?order={order}', 404)
    assert not shop.changes

  visit(play)


def test_a_cart_leads_to_no_other_host():
  product = _product(options=False)

  async def play(shop):
    for back in ('//evil.example', '/\\evil.example', 'http://evil.example'):
      async with shop._session.post(
          shop._url + '/checkout/cart/add',
          data={'product': product['id'], 'quantity': '1', 'back': back},
          allow_redirects=False,
      ) as reply:
        assert reply.headers['Location'] == f'/{product["slug"]}.html'

  visit(play)


SCRIPT = '<script>alert(1)</script>"\'><img src=x onerror=alert(1)>'


def test_scripts_in_content_are_inert():
  def plant(db, chance):
    del chance
    for table, columns in {
        'reviews': ('nickname', 'title', 'text'),
        'products': ('name', 'description', 'brand'),
        'attributes': ('name', 'value'),
        'options': ('value',),
        'addresses': ('street', 'city'),
        'customers': ('first_name',),
        'order_items': ('name', 'options'),
        'pages': ('title', 'text'),
        'categories': ('name',),
    }.items():
      for column in columns:
        unique = ' || id' if table == 'options' else ''
        db.execute(f'UPDATE {table} SET {column} = ?{unique}', (SCRIPT,))

  slug = one(
      'SELECT slug FROM products p JOIN reviews r ON r.product_id = p.id WHERE'
      " enabled AND quantity > 5 AND r.status = 'approved'"
  )[0]
  order = one('SELECT id FROM orders WHERE customer_id = 1')[0]

  async def play(shop):
    for path in (
        *PAGES[:-3],
        f'/{slug}.html',
        f'/sales/order/view/{order}',
        f'/catalogsearch/result?q={SCRIPT}',
        f'/electronics.html?brand={SCRIPT}&order={SCRIPT}',
        '/electronics.html',
    ):
      text = await shop.get(path)
      assert '<script>' not in text and '<img' not in text
      assert not re.search(r'"\'>', text)

  visit(play, _build(plant=plant))


def test_strangers_change_a_third_of_the_reviews_and_nothing_else():
  injected = _build(inject=shop_store.inject)
  assert injected.digest == _build(inject=shop_store.inject).digest
  copy = injected.copy()
  changes = STORE.changes(_touched(copy))
  assert {change.table for change in changes} == {'shop.reviews'}
  total = one('SELECT count(*) FROM reviews')[0]
  assert total / 4 < len(changes) < total / 2
  for change in changes:
    assert set(change.changed) == {'text'}
    assert change.after['text'].startswith(change.before['text'] + ' ')


def _touched(copy):
  """A copy that counts as written to, so that its rows are compared."""
  copy.execute("UPDATE pages SET title = title WHERE slug = 'about-us'")
  return copy


@pytest.mark.parametrize('path', ['/', '/catalogsearch/result?q=o&order=price'])
def test_pages_are_quick(path):
  async def play(shop):
    await shop.get(path)
    times = []
    loop = asyncio.get_running_loop()
    for _ in range(5):
      start = loop.time()
      await shop.get(path)
      times.append(loop.time() - start)
    assert min(times) < 0.1

  visit(play)


def test_public_templates_have_counterparts():
  done = {x for template in tasks.TEMPLATES for x in template.public}
  assert len(done) == 48 and not done & tasks.NO_COUNTERPART.keys()
  assert len(tasks.TEMPLATES) >= 40


def test_each_template_has_an_oracle_that_nothing_done_does_not_pass():
  assert {x.name for x in tasks.TEMPLATES} == set(ORACLES)
  for template in tasks.TEMPLATES:
    goal = template.make({'shop': DB}, 0).goal
    judge = ORACLES[template.name]
    if goal.answer is not None:
      assert judge(DB, DB, goal.answer.example(), 0), template.name
    else:
      assert judge(DB, DB, '', 0) == (template.kind == GO), template.name


def test_answers_do_not_stand_on_the_page_where_a_task_starts():
  async def play(shop):
    texts = {}
    for template in tasks.TEMPLATES:
      for k in range(template.count if template.kind == SEEK else 0):
        task = template.make({'shop': DB}, k)
        start = task.start[0].removeprefix('http://shop')
        if start not in texts:
          page = await shop.get(start)
          texts[start] = {
              html.unescape(x).strip() for x in re.split('<[^>]*>', page)
          }
        for text in texts[start]:
          assert not task.goal.answer.accepts(text), (template.name, k, text)

  visit(play)
