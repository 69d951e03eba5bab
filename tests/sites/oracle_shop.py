"""A second grader of the shop's tasks: from the intent's words and the rows.

It knows neither goals nor answers of the package; of a task it reads the intent
alone, as a person would, and looks up in the seed what that asks for.
"""

import datetime
import re
from decimal import Decimal

from agentrl.sites import table
from tests.sites.judging import added, change, changed, go, seek

ME = 1
FEES = {'Standard Delivery': 499, 'Express Delivery': 1299, 'Store Pickup': 0}
LABELS = {'On Hold': 'on_hold', 'Suspected Fraud': 'fraud'}


def rows(db, sql, *values):
  return [dict(row) for row in db.execute(sql, values)]


def one(db, sql, *values):
  (row,) = rows(db, sql, *values)
  return row


def dollars(cents):
  return Decimal(cents) / 100


# --- products


def named(db, name):
  return one(db, 'SELECT * FROM products WHERE enabled AND name = ?', name)


def of_kind(db, kind):
  """What a person finds by searching for these words."""
  found = rows(db, 'SELECT * FROM products WHERE enabled')
  words = [word.rstrip('s') for word in kind.lower().split()]
  return [x for x in found if all(w in x['name'].lower() for w in words)]


def in_category(db, name):
  return rows(
      db,
      'SELECT p.* FROM products p JOIN categories c ON c.id = p.category_id'
      ' WHERE c.name = ? AND p.enabled',
      name,
  )


def cheapest(found):
  first, second = sorted(x['price_cents'] for x in found)[:2]
  assert first < second
  return next(x for x in found if x['price_cents'] == first)


def reviews(db, product):
  return rows(
      db,
      "SELECT * FROM reviews WHERE status = 'approved' AND product_id = ?",
      product['id'],
  )


def average(db, product):
  """As pages show it, or None."""
  stars = [x['stars'] for x in reviews(db, product)]
  if not stars:
    return None
  return Decimal(f'{sum(stars) / len(stars):.1f}')


def fact(db, product, name):
  return one(
      db,
      'SELECT value FROM attributes WHERE product_id = ? AND name = ?',
      product['id'],
      name,
  )['value']


# --- questions about products


def prices(found):
  found = [x['price_cents'] for x in found]
  return dollars(min(found)), dollars(max(found))


def brand_range(db, brand, category):
  return prices(x for x in in_category(db, category) if x['brand'] == brand)


def brand_names(db, kind, brand):
  return [x['name'] for x in of_kind(db, kind) if x['brand'] == brand]


def most_reduced(db, category):
  found = sorted(
      (x['list_cents'] - x['price_cents'], x['name'])
      for x in in_category(db, category)
      if x['list_cents']
  )
  assert found[-1][0] > found[-2][0]
  return found[-1][1]


def rating(db, name):
  return average(db, named(db, name))


def summary(db, name):
  product = named(db, name)
  return len(reviews(db, product)), average(db, product)


def criticism(db, name):
  return [x['title'] for x in reviews(db, named(db, name)) if x['stars'] <= 2]


def who_gave(db, stars, name):
  wanted = {int(x) for x in stars.split(' or ')}
  return [
      x['nickname']
      for x in reviews(db, named(db, name))
      if x['stars'] in wanted
  ]


# Complaint -> how texts that make it read.
COMPLAINTS = {
    'the parcel arrived late': r'parcel (came two weeks|was) late',
    'the manual is useless': r'manual is of no use|write a manual',
    'it looks different from the photos': (
        r'(nothing like|far from that in)' r' the photos'
    ),
    'it has a bad smell': r'chemical smell|The smell when',
    'the lid leaks': r'lid (leaks|began to leak)',
    'it irritated the skin': r'my skin (red|was itching)',
    'the seams came apart': r'seams came apart|the seams: mine are open',
    'the fabric is thin': r'fabric (is|would be) so thin',
    'the edges are sharp': r'edges are (so sharp|sharp as)',
    'the print rubbed off': r'print (rubbed off|on it has rubbed)',
    'the plastic cracked': r'plastic cracked',
    'the grip is slippery': r'grip gets slippery|slippery grip',
    'it wobbles': r'(It wobbles|wobbled) (on|from)',
    'screws were missing': r'screws were missing|no screws',
    'it is too sweet': r'too sweet|So sweet',
    'it was stale': r'(was|tasted) stale',
    'the finish flaked off': r'finish (flaked|has flaked)',
    'it is too heavy to carry': r'[Tt]oo heavy|so heavy',
    'the corners were dented': r'corners were dented|dented corners',
    'it was scratched': r'deep scratch|came scratched',
}


def mentions(db, name, complaint):
  return [
      x['nickname']
      for x in reviews(db, named(db, name))
      if re.search(COMPLAINTS[complaint], x['text'])
  ]


def brand_complaints(db, kind, brand, complaint):
  return [
      nickname
      for name in brand_names(db, kind, brand)
      for nickname in mentions(db, name, complaint)
  ]


def review_title(db, nickname, name):
  (title,) = (
      x['title']
      for x in reviews(db, named(db, name))
      if x['nickname'] == nickname
  )
  return title


def my_review(db, name):
  return one(
      db,
      'SELECT title FROM reviews r JOIN products p ON p.id = r.product_id WHERE'
      ' customer_id = ? AND name = ?',  # it may be sold no more
      ME,
      name,
  )['title']


FACTS = (
    (r'which material is the (.+) made with', 'Material'),
    (r'which capacity does the (.+) have', 'Capacity'),
    (r'for what or whom is the (.+) recommended', 'Recommended For'),
    (r'which fill weight does the (.+) have', 'Fill Weight'),
    (r'how much power does the (.+) have', 'Power'),
)


def a_fact(db, question):
  for pattern, name in FACTS:
    found = re.fullmatch(pattern, question)
    if found:
      return fact(db, named(db, found[1]), name)
  raise AssertionError(question)


# --- orders


def orders(db):
  """The user's, the latest first, with items and total in cents."""
  found = rows(db, 'SELECT * FROM orders WHERE customer_id = ?', ME)
  for order in found:
    order['items'] = rows(
        db,
        'SELECT i.*, p.kind FROM order_items i JOIN products p ON p.id ='
        ' i.product_id WHERE order_id = ? ORDER BY i.id',
        order['id'],
    )
    goods = sum(x['price_cents'] * x['quantity'] for x in order['items'])
    order['total'] = goods + order['shipping_cents'] - order['discount_cents']
    order['day'] = order['created_at'][:10]
  return sorted(found, key=lambda x: x['created_at'], reverse=True)


def with_status(db, label):
  status = LABELS.get(label, label.lower())
  return [x for x in orders(db) if x['status'] == status]


def in_month(db, month):
  start = datetime.datetime.strptime(month, '%B %Y').strftime('%Y-%m-')
  return [x for x in orders(db) if x['day'].startswith(start)]


def numbered(db, number):
  (order,) = (x for x in orders(db) if x['id'] == int(number))
  return order


def item_of(db, kind, month):
  (found,) = (
      (order, item)
      for order in in_month(db, month)
      for item in order['items']
      if item['kind'].lower() == kind
  )
  return found


def shipment(db, order):
  return one(db, 'SELECT * FROM shipments WHERE order_id = ?', order['id'])


def detail(db, what, number):
  order = numbered(db, number)
  if what in ('tracking number', 'carrier'):
    return shipment(db, order)[what.split()[0]]
  return order[
      {
          'shipping method': 'shipping',
          'order date': 'day',
          'postal code of the shipping address': 'postcode',
      }[what]
  ]


def early(db, which):
  place = 'first second third fourth fifth'.split().index(which)
  return orders(db)[::-1][place]['day']


def spent(db, month):
  return dollars(sum(x['total'] for x in in_month(db, month)))


def spent_on(db, department, number):
  path = one(db, 'SELECT path FROM categories WHERE name = ?', department)
  found = rows(
      db,
      'SELECT i.price_cents * i.quantity AS paid FROM order_items i JOIN'
      ' products p ON p.id = i.product_id JOIN categories c ON c.id ='
      ' p.category_id WHERE i.order_id = ? AND c.path LIKE ?',
      numbered(db, number)['id'],
      path['path'] + '/%',
  )
  return dollars(sum(x['paid'] for x in found))


def last_ordered(db, what):
  kind = re.sub('^an? ', '', what)
  for order in orders(db):
    if kind in [x['kind'].lower() for x in order['items']]:
      return order['day']
  raise AssertionError(what)


def chosen_option(db, option, kind, month):
  _, item = item_of(db, kind, month)
  pairs = dict(x.split(': ') for x in item['options'].split(', '))
  return {name.lower(): value for name, value in pairs.items()}[option]


def refund(db, month):
  (order,) = (x for x in in_month(db, month) if x['status'] == 'canceled')
  return dollars(order['total'])


PERIODS = {
    'from January to March 2023': ('2023-01', '2023-03'),
    'in the last three months of 2022': ('2022-10', '2022-12'),
    'from July to September 2022': ('2022-07', '2022-09'),
    'in the first four months of 2022': ('2022-01', '2022-04'),
    'from August to November 2021': ('2021-08', '2021-11'),
}


def complete_orders(db, period):
  first, last = PERIODS[period]
  found = [
      x['total']
      for x in with_status(db, 'Complete')
      if first <= x['day'][:7] <= last
  ]
  return len(found), dollars(sum(found))


def arrival(db, month):
  order = in_month(db, month)[0]
  sent = shipment(db, order)['created_at'][:10]
  return order['status'].capitalize(), sent


HELP = {
    'Which phone number should I call to reach customer service?': (
        'customer-service',
        r'Call ([\d-]+)',
    ),
    'Within how many days can I send back something that I have not used?': (
        'shipping-and-returns',
        r'within (\d+) days',
    ),
    'How many months is a gift card of this shop valid?': (
        'gift-cards',
        r'valid for (\d+) months',
    ),
    'How many months do I have for sending back something faulty?': (
        'shipping-and-returns',
        r'faulty ones within (\d+) months',
    ),
    'Which phone number is there for business customers?': (
        'customer-service',
        r'business customers: ([\d-]+)',
    ),
}


def help_text(db, question):
  slug, pattern = HELP[question]
  text = one(db, 'SELECT text FROM pages WHERE slug = ?', slug)['text']
  found = re.search(pattern, text)[1]
  return int(found) if found.isdigit() else found


# --- lists and the cart


def wish(db, name):
  product = named(db, name)['id']
  return [added('wishlist_items', customer_id=ME, product_id=product)]


def wish_cheapest(db, _, kind):
  return wish(db, cheapest(of_kind(db, kind))['name'])


def unwish(db, _, name):
  item = one(
      db,
      'SELECT id FROM wishlist_items WHERE customer_id = ? AND product_id = ?',
      ME,
      named(db, name)['id'],
  )
  return [('-', 'wishlist_items', item['id'])]


def in_cart(product, quantity=1, options=''):
  return added(
      'cart_items',
      customer_id=ME,
      product_id=product['id'],
      quantity=quantity,
      options=options,
  )


def wish_to_cart(db, _, name):
  return [*unwish(db, _, name), in_cart(named(db, name))]


def cart_named(db, _, count, name, options):
  return [in_cart(named(db, name), int(count), options)]


def two_in_cart(db, _, first, count, second):
  return [in_cart(named(db, first)), in_cart(named(db, second), int(count))]


def per_piece(seed, final, answer, k):
  """The tabs where it starts are part of what is asked for."""
  start = table.TEMPLATES['shop/per_piece'].make({'shop': seed}, k).start

  def wanted(db, _):
    found = []
    for url in start:
      slug = url.removeprefix('http://shop/').removesuffix('.html')
      product = one(db, 'SELECT * FROM products WHERE slug = ?', slug)
      pieces = int(re.search(r'Pack of (\d+)', product['name'])[1])
      found.append((Decimal(product['price_cents']) / pieces, product['id']))
    (best, key), (second, _), _ = sorted(found)
    assert best < second
    return [in_cart({'id': key})]

  judge = change(
      'shop/per_piece',
      r'My tabs show three packs of the kind ".+"\. Add the one that costs'
      r' least for each piece in it to the cart, once\.',
      wanted,
  )
  return judge(seed, final, answer, k)


def coupon(db, _, name, code):
  cart = one(db, 'SELECT id FROM carts WHERE customer_id = ?', ME)
  return [in_cart(named(db, name)), changed('carts', cart['id'], coupon=code)]


def compare(db, _, first, second):
  return [
      added('compare_items', customer_id=ME, product_id=named(db, x)['id'])
      for x in (first, second)
  ]


def review(db, _, kind, month, stars, nickname, title, text):
  _, item = item_of(db, kind, month)
  return [
      added(
          'reviews',
          product_id=item['product_id'],
          customer_id=ME,
          stars=int(stars),
          nickname=nickname,
          title=title,
          text=text,
          status='pending',
      )
  ]


# --- orders that are placed


def address(db, city=None):
  """The one in a city, or the default one for deliveries."""
  if city is not None:
    return one(
        db,
        'SELECT * FROM addresses WHERE customer_id = ? AND city = ?',
        ME,
        city,
    )
  return one(
      db,
      'SELECT a.* FROM addresses a JOIN customers c ON a.id = c.shipping_id'
      ' WHERE c.id = ?',
      ME,
  )


def placed(db, final, bought, *, to=None, shipping='Standard Delivery', **more):
  """An order of pairs of a product with options, and a quantity."""
  key = max(x['id'] for x in rows(final, 'SELECT id FROM orders'))
  to = dict(to or address(db))
  del to['id'], to['customer_id']
  order = dict(
      customer_id=ME,
      status='pending',
      shipping=shipping,
      shipping_cents=FEES[shipping],
      discount_cents=0,
  )
  return [
      added('orders', **{**order, **to, **more}),
      *(
          added(
              'order_items',
              order_id=key,
              product_id=product['id'],
              name=product['name'],
              sku=product['sku'],
              options=options,
              price_cents=product['price_cents'],
              quantity=quantity,
          )
          for product, options, quantity in bought
      ),
  ]


def best_within(db, final, category, low, high, options):
  found = [
      (average(db, x), x['id'], x)
      for x in in_category(db, category)
      if int(low) <= dollars(x['price_cents']) <= int(high) and reviews(db, x)
  ]
  *_, second, best = sorted(found, key=lambda x: x[:2])
  assert second[0] < best[0]
  return placed(db, final, [(best[2], options or '', 1)])


def best_reviewed(db, final, kind, options):
  found = [
      (-average(db, x), x['price_cents'], x['id'], x)
      for x in of_kind(db, kind)
      if len(reviews(db, x)) >= 5
  ]
  best, second, *_ = sorted(found, key=lambda x: x[:3])
  assert best[:2] < second[:2]
  return placed(db, final, [(best[3], options or '', 1)])


def buy_cheapest(db, final, category, options):
  product = cheapest(in_category(db, category))
  return placed(db, final, [(product, options or '', 1)])


def express(db, final, count, name, city):
  return placed(
      db,
      final,
      [(named(db, name), '', int(count))],
      to=address(db, city),
      shipping='Express Delivery',
  )


def with_coupon(db, final, name, code):
  product = named(db, name)
  rule = one(db, 'SELECT * FROM price_rules WHERE code = ?', code)
  off = rule['amount']
  if rule['kind'] == 'percent':
    off = product['price_cents'] * off // 100
  return placed(
      db,
      final,
      [(product, '', 1)],
      shipping='Store Pickup',
      coupon=code,
      discount_cents=off,
  )


def again(db, order):
  return [
      (
          one(db, 'SELECT * FROM products WHERE id = ?', x['product_id']),
          x['options'],
          x['quantity'],
      )
      for x in order['items']
  ]


def canceled_again(db, final, month):
  (order,) = (x for x in in_month(db, month) if x['status'] == 'canceled')
  return placed(db, final, again(db, order))


def refill(db, _, number, count, name):
  return [
      in_cart(
          product, int(count) if product['name'] == name else quantity, options
      )
      for product, options, quantity in again(db, numbered(db, number))
  ]


def all_but_one(db, _, number, name):
  return [
      in_cart(product, quantity, options)
      for product, options, quantity in again(db, numbered(db, number))
      if product['name'] != name
  ]


# --- the account, and messages


def moved(db, _, street, city, region, postcode):
  old = address(db)
  new = dict(street=street, city=city, region=region, postcode=postcode)
  differ = {x: y for x, y in new.items() if y != old[x]}
  return [changed('addresses', old['id'], **differ)]


def add_address(db, _, street, city, region, postcode, phone):
  del db
  return [
      added(
          'addresses',
          customer_id=ME,
          first_name='Ella',
          last_name='Brandt',
          street=street,
          city=city,
          region=region,
          postcode=postcode,
          phone=phone,
      )
  ]


def delete_address(db, _, city):
  return [('-', 'addresses', address(db, city)['id'])]


def default_address(db, _, city, name):
  return [changed('customers', ME, **{f'{name}_id': address(db, city)['id']})]


def message(db, text):
  me = one(
      db,
      'SELECT c.*, a.phone FROM customers c JOIN addresses a ON a.id ='
      ' c.billing_id WHERE c.id = ?',
      ME,
  )
  return [
      added(
          'messages',
          name=f'{me["first_name"]} {me["last_name"]}',
          email=me['email'],
          phone=me['phone'],
          text=text,
      )
  ]


def broken(db, _, kind, month, text):
  order, item = item_of(db, kind, month)
  text = text.replace('ORDER NUMBER', f'{order["id"]:09d}')
  return message(db, text.replace('SKU', item['sku']))


def pay_back(db, _, kind, month, text):
  order, item = item_of(db, kind, month)
  text = text.replace('NUMBER', f'{order["id"]:09d}')
  paid = dollars(item['price_cents'])
  return message(db, text.replace('AMOUNT', f'${paid:,.2f}'))


def send_elsewhere(db, _, text):
  order = next(
      x for x in orders(db) if x['status'] in ('pending', 'processing')
  )
  return message(db, text.replace('NUMBER', f'{order["id"]:09d}'))


ORDER_IT = (
    r' Order one piece with Standard Delivery to my default address\.'
    r'(?: Choose (.+)\.)?'
)
AS_IT_IS = r' Leave the other fields of the form as they are\.'
QUOTED = r'"([^"]+)"'
NUMBER = r'(\d{9})'
PLACE = r'(.+), ([^,]+), ([^,]+), (\d{5})'

ORACLES = {
    **{
        f'shop/{name}': go(f'shop/{name}')
        for name in (
            'browse', 'search', 'sorted_category', 'sorted_search',
            'up_to_price', 'by_brand', 'dearest', 'latest_order', 'card_case',
            'shoe_rack', 'model_year', 'for_a_use',
        )
    },
    **{
        f'shop/{name}': seek(f'shop/{name}', pattern, wanted)
        for name, pattern, wanted in (
            (
                'order_total',
                rf'What is the grand total of my latest order that is {QUOTED}'
                r'\? Answer with the amount\.',
                lambda db, x: dollars(with_status(db, x)[0]['total']),
            ),
            (
                'order_number',
                r'Which number does my most recent order with the status'
                rf' {QUOTED} have\?',
                lambda db, x: with_status(db, x)[0]['id'],
            ),
            (
                'order_detail',
                rf'Tell me the (.+) of my order number {NUMBER}\.',
                detail,
            ),
            (
                'early_order',
                r'On which day did I place my (\w+) order ever in this shop\?',
                early,
            ),
            (
                'spent_in_month',
                r'Add up the grand totals of all orders that I placed in (.+),'
                r' whatever became of them\. How much is it\?',
                spent,
            ),
            (
                'spent_on',
                rf'How much did I spend on (.+) in my order number {NUMBER}\?'
                r' Count the goods alone, without shipping or discounts\.',
                spent_on,
            ),
            (
                'last_ordered',
                r'When did I last order (.+)\? Tell me the date\.',
                last_ordered,
            ),
            (
                'chosen_option',
                r'Which (.+) did I choose for the (.+) that I ordered in'
                r' (.+)\?',
                chosen_option,
            ),
            (
                'refund',
                r'My order of (.+) was canceled\. How much money do I get back,'
                r' with the shipping fee\?',
                refund,
            ),
            (
                'complete_orders',
                r'How many of my orders placed (.+) are complete, and what do'
                r' their grand totals add up to\? Answer with the number and'
                r' the amount, separated by a semicolon\.',
                complete_orders,
            ),
            (
                'arrival',
                r'What is the status of my last order in (.+), and when was it'
                r' sent\? Answer with the status and the date, separated by a'
                r' semicolon\.',
                arrival,
            ),
            (
                'order_names',
                rf'Which products did I buy with order {NUMBER}\? Give their'
                r' full names, separated by semicolons\.',
                lambda db, x: [y['name'] for y in numbered(db, x)['items']],
            ),
            ('help', r'(.+)', help_text),
            (
                'price_range',
                r'What are the lowest and the highest price that this shop asks'
                rf' for a product called {QUOTED}\? .+',
                lambda db, kind: prices(of_kind(db, kind)),
            ),
            (
                'brand_range',
                rf'Which range do the prices of (.+) have in the category'
                rf' {QUOTED}\? Answer with the lowest and the highest price,'
                r' separated by a semicolon\.',
                brand_range,
            ),
            (
                'brand_names',
                rf'Give me the full names of all products called {QUOTED} that'
                r' are made by (.+), separated by semicolons\.',
                brand_names,
            ),
            (
                'cheapest',
                r'What is the full name of the cheapest product called'
                rf' {QUOTED}\?',
                lambda db, kind: cheapest(of_kind(db, kind))['name'],
            ),
            (
                'most_reduced',
                rf'Look at the reduced products of the category {QUOTED}\. .+',
                most_reduced,
            ),
            (
                'rating',
                r'What is the average rating of the (.+), as the shop shows it'
                r'\? Answer with the number of stars to one decimal place\.',
                rating,
            ),
            (
                'summary',
                r'Sum up what buyers make of the (.+): how many reviews does it'
                r' have, and which average rating\? .+',
                summary,
            ),
            (
                'criticism',
                r'What do critics say about this product, the (.+)\? Give the'
                r' titles of all reviews with one or two stars, separated by'
                r' semicolons\.',
                criticism,
            ),
            (
                'who_gave',
                r'Who gave (\d(?: or \d)?) stars to the (.+)\? List the'
                r' nicknames of these reviewers, separated by semicolons\.',
                who_gave,
            ),
            (
                'mentions',
                r'Which reviewers of the (.+) complain that (.+)\? List their'
                r' nicknames, separated by semicolons\.',
                mentions,
            ),
            (
                'brand_complaints',
                rf'Read the reviews of all products called {QUOTED} by (.+)\.'
                r' Which reviewers complain that (.+)\? List their nicknames,'
                r' separated by semicolons\.',
                brand_complaints,
            ),
            (
                'review_title',
                r'What did (.+) say about the (.+)\? Answer with the title of'
                r' the review\.',
                review_title,
            ),
            (
                'my_review',
                r'Under which title did I review the (.+)\?',
                my_review,
            ),
            (
                'fact',
                r'According to its table of facts, (.+)\? Answer as the table'
                r' has it\.',
                a_fact,
            ),
            (
                'sku',
                r'What is the SKU of the (.+)\?',
                lambda db, name: named(db, name)['sku'],
            ),
        )
    },
    **{
        f'shop/{name}': change(f'shop/{name}', pattern, wanted)
        for name, pattern, wanted in (
            (
                'wish_this',
                r'Put the product of this page, the (.+), on my wish list\.',
                lambda db, _, name: wish(db, name),
            ),
            (
                'wish_named',
                r'Find the (.+) and add it to my wish list\.',
                lambda db, _, name: wish(db, name),
            ),
            (
                'wish_cheapest',
                r'I would like to have a bargain: add the cheapest of all'
                rf' products called {QUOTED} to my wish list\.',
                wish_cheapest,
            ),
            (
                'unwish',
                r'I do not want the (.+) any more: take it off my wish list\.',
                unwish,
            ),
            (
                'wish_to_cart',
                r'Move the (.+) from my wish list into the cart\.',
                wish_to_cart,
            ),
            (
                'cart_this',
                r'Put one piece of the product shown here, the (.+), into my'
                r' cart\.',
                lambda db, _, name: [in_cart(named(db, name))],
            ),
            (
                'cart_named',
                r'Put (\d+) pieces of the (.+) \((.+)\) into the cart\.',
                cart_named,
            ),
            (
                'two_in_cart',
                r'Into my cart, please: one (.+) and (\d+) pieces of the'
                r' (.+)\.',
                two_in_cart,
            ),
            (
                'coupon',
                r'Put one (.+) into the cart and apply the coupon code (\w+)'
                r' there\. Do not order yet\.',
                coupon,
            ),
            (
                'compare',
                r'I cannot decide between the (.+) and the (.+)\. Put both into'
                r' the comparison\.',
                compare,
            ),
            (
                'review',
                r'Review the (.+) that I ordered in (.+): (\d) stars?, nickname'
                rf' {QUOTED}, summary {QUOTED}, and as review {QUOTED}',
                review,
            ),
            (
                'best_within',
                r'Buy the product with the highest average rating in the'
                rf' category {QUOTED} that costs from \$(\d+) to \$(\d+)\.'
                rf'{ORDER_IT}',
                best_within,
            ),
            (
                'best_reviewed',
                rf'Among the products called {QUOTED} with at least 5 reviews,'
                r' buy the one with the highest average rating; if several have'
                rf' it, the cheapest of them\.{ORDER_IT}',
                best_reviewed,
            ),
            (
                'buy_cheapest',
                r'Buy me whatever costs least in the category'
                rf' {QUOTED}\.{ORDER_IT}',
                buy_cheapest,
            ),
            (
                'express',
                r'Order (\d) pieces? of the (.+) with Express Delivery to my'
                r' address in (.+)\.',
                express,
            ),
            (
                'with_coupon',
                r'Buy one (.+) with the coupon (\w+)\. I will fetch it myself'
                r' \(Store Pickup\), so leave the default address\.',
                with_coupon,
            ),
            (
                'canceled_again',
                r'In (.+) I ordered something, and the order was canceled\.'
                r' Order the same again, with Standard Delivery to my default'
                r' address\.',
                canceled_again,
            ),
            (
                'refill',
                rf'Fill my cart with what order {NUMBER} had, in the same'
                r' quantities, but with (\d) pieces of the (.+)\. Do not order'
                r' yet\.',
                refill,
            ),
            (
                'all_but_one',
                rf'Put all products of my order {NUMBER} into the cart, as many'
                r' of each as then, without the (.+)\.',
                all_but_one,
            ),
            (
                'moved',
                rf'I have moved\. Change my default address to {PLACE}; the'
                r' phone number stays\.',
                moved,
            ),
            (
                'add_address',
                r'Add a further address to my address book, without making it'
                rf' a default: Ella Brandt, {PLACE}, phone (.+)\.',
                add_address,
            ),
            (
                'delete_address',
                r'Delete the address in (.+) from my address book\.',
                delete_address,
            ),
            (
                'default_address',
                r'Make my address in (.+) the default (\w+) address\.',
                default_address,
            ),
            (
                'account_details',
                r'Change the (.+) of my account to (\S+)\. The rest stays\.',
                lambda db, _, name, value: [
                    changed(
                        'customers', ME, **{name.replace(' ', '_'): value}
                    )
                ],
            ),
            (
                'newsletter',
                r'Sign up (\S+) for the newsletter of this shop\.',
                lambda db, _, email: [added('subscribers', email=email)],
            ),
            (
                'broken',
                r'I am not content with the (.+) that I ordered in (.+)\. Send'
                r' this through the contact form, with the order number \(nine'
                rf' digits\) and the SKU put in: {QUOTED}{AS_IT_IS}',
                broken,
            ),
            (
                'pay_back',
                r'I want the price of the (.+) back that I ordered in (.+),'
                r' without shipping\. Write to the shop with the contact form,'
                r' and fill in the number of the order \(nine digits\) and the'
                rf' amount \(such as \$9\.99\): {QUOTED}{AS_IT_IS}',
                pay_back,
            ),
            (
                'ask_coupon',
                r'Send the shop exactly this message with the contact form:'
                rf' {QUOTED}{AS_IT_IS}',
                lambda db, _, text: message(db, text),
            ),
            (
                'send_elsewhere',
                r'Orders cannot be changed here, .+ Send with the contact form'
                rf' {QUOTED} and put in the nine digits of its'
                rf' number\.{AS_IT_IS}',
                send_elsewhere,
            ),
        )
    },
    'shop/per_piece': per_piece,
}  # fmt: skip
