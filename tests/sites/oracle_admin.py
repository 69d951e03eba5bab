"""A second grader of the administration's tasks, in the manner of the shop's.

It knows neither goals nor answers of the package; of a task it reads the intent
alone, as a person would, and looks up in the seed what that asks for.
"""

import calendar
import re
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal

from agentrl.sites import table
from tests.sites.judging import added, change, changed, go, seek
from tests.sites.oracle_shop import dollars, one, rows

# Words for a status that are not its name.
STATUSES = {
    'suspected fraud': 'fraud',
    'on hold': 'on_hold',
    'held': 'on_hold',
    'completed': 'complete',
    'not approved': 'rejected',
}
PLACES = {None: 1, 'second': 2, 'third': 3}
ORDINALS = ('first', 'second', 'third', 'fourth')
MONTHS = list(calendar.month_name)


def status_of(words):
  return STATUSES.get(words.lower(), words.lower())


def span(words):
  """The first and the last month of a time, as YYYY-MM."""
  year = words[-4:]
  part = re.match(r'the (\w+) (quarter|half) of', words)
  if part:
    size = {'quarter': 3, 'half': 6}[part[2]]
    last = size * (ORDINALS.index(part[1]) + 1)
    first = last - size + 1
  elif words.startswith('the year'):
    first, last = 1, 12
  else:
    first, *_, last = [MONTHS.index(x) for x in words[:-5].split(' to ')] * 2
  return f'{year}-{first:02d}', f'{year}-{last:02d}'


def within(found, words):
  """Those rows that were made in this time."""
  first, last = span(words)
  return [x for x in found if first <= x['created_at'][:7] <= last]


def ranked(counts, many):
  """The keys that are counted most, which must be clear."""
  found = counts.most_common(many + 1)
  assert len({size for _, size in found}) == len(found)
  return [key for key, _ in found[:many]]


# --- orders and customers


def orders(db, status=None):
  """All of a status, the latest first, with items and total in cents."""
  found = {
      x['id']: {
          **x,
          'items': 0,
          'total': x['shipping_cents'] - x['discount_cents'],
      }
      for x in rows(db, 'SELECT * FROM orders ORDER BY created_at DESC')
  }
  for item in rows(db, 'SELECT * FROM order_items'):
    order = found[item['order_id']]
    order['items'] += item['quantity']
    order['total'] += item['quantity'] * item['price_cents']
  return [x for x in found.values() if status in (None, x['status'])]


def numbered(db, number):
  (order,) = (x for x in orders(db) if x['id'] == int(number))
  return order


def customers(db):
  """All by their ids, with their names and phones."""
  return {
      x['id']: {**x, 'name': f'{x["first_name"]} {x["last_name"]}'}
      for x in rows(
          db,
          'SELECT c.*, a.phone FROM customers c JOIN addresses a ON a.id ='
          ' c.billing_id',
      )
  }


def customer(db, name):
  (found,) = (x for x in customers(db).values() if x['name'] == name)
  return found


def of_customer(db, name, status):
  key = customer(db, name)['id']
  return [x for x in orders(db, status) if x['customer_id'] == key]


def newest(db, words, asked):
  order = orders(db, status_of(words))[0]
  buyer = customers(db)[order['customer_id']]
  return {
      'name of the customer': buyer['name'],
      'order number': order['id'],
      'day of purchase': order['created_at'][:10],
      'email address of the customer': buyer['email'],
      'grand total': dollars(order['total']),
  }[asked]


def total_of_last(db, count, words):
  found = orders(db, status_of(words))[: int(count)]
  return dollars(sum(x['total'] for x in found))


def items_of_last(db, count, words):
  return sum(x['items'] for x in orders(db, status_of(words))[: int(count)])


def invoice_total(db, number):
  found = one(db, 'SELECT * FROM invoices WHERE id = ?', int(number))
  return dollars(numbered(db, found['order_id'])['total'])


def tracking(db, number):
  return one(
      db, 'SELECT tracking FROM shipments WHERE order_id = ?', int(number)
  )['tracking']


def caller(db, phone):
  (found,) = {
      x['customer_id']
      for x in rows(db, 'SELECT * FROM addresses WHERE phone = ?', phone)
  }
  found = customers(db)[found]
  return [found['name'], found['email']]


# --- products, reviews and search terms


def product(db, name):
  return one(db, 'SELECT * FROM products WHERE name = ?', name)


def beginning(db, line):
  found = rows(db, 'SELECT * FROM products')
  return [x for x in found if x['name'].startswith(line)]


def with_units(db, units, word):
  found = rows(db, 'SELECT * FROM products WHERE quantity = ?', int(units))
  return [x[{'SKUs': 'sku', 'names': 'name'}[word]] for x in found]


def dearest(db, brand):
  prices = Counter({
      x['name']: x['list_cents'] or x['price_cents']
      for x in rows(db, 'SELECT * FROM products WHERE brand = ?', brand)
  })
  return ranked(prices, 1)[0]


def reviews(db, name):
  """All of a product, the latest first."""
  return rows(
      db,
      'SELECT * FROM reviews WHERE product_id = ? ORDER BY created_at DESC',
      product(db, name)['id'],
  )


def only(found, stars):
  (review,) = (x for x in found if x['stars'] == stars)
  return review


def unhappiest(db, name, asked):
  found = reviews(db, name)
  review = only(found, min(x['stars'] for x in found))
  buyer = customers(db)[review['customer_id']]
  return buyer[{'email address': 'email', 'full name': 'name'}[asked]]


def latest_praise(db, name):
  return next(x for x in reviews(db, name) if x['stars'] == 5)['nickname']


def rating(db, name):
  stars = [x['stars'] for x in reviews(db, name) if x['status'] == 'approved']
  exact = Decimal(sum(stars)) / len(stars)
  return exact.quantize(Decimal('0.01'), ROUND_HALF_UP)


def count_of(db, words, stars):
  return len([
      x
      for x in rows(db, 'SELECT * FROM reviews')
      if x['status'] == status_of(words)
      and (stars is None or x['stars'] == int(stars))
  ])


def containing(db, term):
  found = rows(db, 'SELECT text FROM reviews')
  return len([x for x in found if term in x['text'].lower()])


def top_terms(db, count):
  uses = {x['text']: x['uses'] for x in rows(db, 'SELECT * FROM search_terms')}
  return tuple(ranked(Counter(uses), int(count)))


def top_brand(db, low, high):
  texts = [
      x['text']
      for x in rows(db, 'SELECT * FROM search_terms')
      if int(low) <= x['uses'] <= int(high)
  ]
  counts = Counter(
      x['brand']
      for x in rows(db, 'SELECT DISTINCT brand FROM products')
      for text in texts
      if re.search(rf'\b{re.escape(x["brand"].lower())}\b', text)
  )
  return ranked(counts, 1)[0]


# --- reports


def sold(db, words):
  """How many pieces of each product were sold and not canceled."""
  kept = {
      x['id']
      for x in within(rows(db, 'SELECT * FROM orders'), words)
      if x['status'] != 'canceled'
  }
  names = {x['id']: x['name'] for x in rows(db, 'SELECT * FROM products')}
  counts = Counter()
  for item in rows(db, 'SELECT * FROM order_items'):
    if item['order_id'] in kept:
      counts[names[item['product_id']]] += item['quantity']
  return counts


def buyer_of_rank(db, status, place, words):
  found = within(orders(db, status), words)
  counts = Counter(x['customer_id'] for x in found)
  return customers(db)[ranked(counts, PLACES[place])[-1]]


def canceling(db, place, words, asked):
  buyer = buyer_of_rank(db, 'canceled', place, words)
  column = {
      'email address': 'email',
      'phone number in the list of customers': 'phone',
      'full name': 'name',
  }[asked]
  return buyer[column]


def monthly(db, words):
  found = within(orders(db, 'complete'), words)
  counts = Counter(x['created_at'][5:7] for x in found)
  return tuple(f'{month}:{counts[month]}' for month in sorted(counts))


def refunded(db, words):
  found = within(rows(db, 'SELECT * FROM refunds'), words)
  totals = {x['id']: x['total'] for x in orders(db)}
  return dollars(sum(totals[x['order_id']] for x in found))


def charged(db, method, words):
  return dollars(
      sum(
          x['shipping_cents']
          for x in within(orders(db), words)
          if x['shipping'] == method
      )
  )


# --- changes of orders


def becomes(number, status):
  return changed('orders', int(number), status=status)


def release(db, _, name):
  (order,) = of_customer(db, name, 'on_hold')
  paid = rows(db, 'SELECT * FROM invoices WHERE order_id = ?', order['id'])
  return [becomes(order['id'], 'processing' if paid else 'pending')]


def hold(db, _, number, name):
  assert numbered(db, number)['customer_id'] == customer(db, name)['id']
  return [becomes(number, 'on_hold')]


def invoice(db, _, number):
  del db
  return [
      added('invoices', order_id=int(number)),
      becomes(number, 'processing'),
  ]


def ship(db, _, number, carrier, track):
  key = int(number)
  one(db, 'SELECT * FROM invoices WHERE order_id = ?', key)  # so it is complete
  return [
      added('shipments', order_id=key, carrier=carrier, tracking=track),
      becomes(number, 'complete'),
  ]


def refund(db, _, number):
  del db
  return [added('refunds', order_id=int(number)), becomes(number, 'closed')]


def notify(db, _, name, text):
  order = of_customer(db, name, 'pending')[0]
  return [added('order_notes', order_id=order['id'], text=text, notified=1)]


def order_address(db, _, number, street, city, region, postcode):
  old = numbered(db, number)
  new = dict(street=street, city=city, region=region, postcode=postcode)
  differ = {x: y for x, y in new.items() if y != old[x]}
  return [changed('orders', old['id'], **differ)]


# --- changes of products and reviews


def priced(row, cents):
  assert row['list_cents'] is None
  return changed('products', row['id'], price_cents=cents)


def price_of_this(seed, final, answer, k):
  """The page where it starts is part of what is asked for."""
  template = table.TEMPLATES['admin/price-of-this']
  key = int(template.make({'shop': seed}, k).start[0].rpartition('/')[2])

  def wanted(db, _, verb, dollars_off, percent):
    row = one(db, 'SELECT * FROM products WHERE id = ?', key)
    price = row['price_cents']
    by = (
        Decimal(dollars_off) * 100
        if dollars_off
        else Decimal(percent) * price / 100
    )
    after = price + (by if verb == 'Raise' else -by)
    assert after == int(after)
    return [priced(row, int(after))]

  judge = change(
      'admin/price-of-this',
      r'(Reduce|Raise) the price of this product by (?:\$([\d.]+?)|(\d+)'
      r' percent)\.',
      wanted,
  )
  return judge(seed, final, answer, k)


def price_of_line(db, _, verb, line, amount):
  found = beginning(db, line)
  assert len(found) == 2
  by = int(Decimal(amount) * 100) * {'Raise': 1, 'Lower': -1}[verb]
  return [priced(x, x['price_cents'] + by) for x in found]


def sale(db, _, brand, kind, amount):
  found = rows(
      db, 'SELECT * FROM products WHERE brand = ? AND kind = ?', brand, kind
  )
  special = int(Decimal(amount) * 100)
  assert len(found) == 2
  assert all(x['list_cents'] is None for x in found)
  assert all(special < x['price_cents'] for x in found)
  return [
      changed(
          'products',
          x['id'],
          price_cents=special,
          list_cents=x['price_cents'],
      )
      for x in found
  ]


def arrived(db, _, more, name):
  row = product(db, name)
  return [changed('products', row['id'], quantity=row['quantity'] + int(more))]


def disable(db, _, name):
  return [changed('products', product(db, name)['id'], enabled=0)]


def enable(db, _, kind):
  found = rows(
      db, 'SELECT id FROM products WHERE kind = ? AND NOT enabled', kind
  )
  return [changed('products', x['id'], enabled=1) for x in found]


def sold_out(db, _, line):
  return [changed('products', x['id'], quantity=0) for x in beginning(db, line)]


def quote(db, _, name):
  title = only(reviews(db, name), 5)['title']
  row = product(db, name)
  text = f'{row["description"]} "{title}"'
  return [changed('products', row['id'], description=text)]


def colour(db, _, name, value):
  key = product(db, name)['id']
  return [added('options', product_id=key, name='Colour', value=value)]


def new_product(
    db, final, name, sku, brand, kind, category, units, price, size, shade
):
  *_, group, leaf = category.split(' / ')
  key = one(final, 'SELECT max(id) AS last FROM products')['last']
  row = added(
      'products',
      sku=sku,
      name=name,
      slug=name.lower().replace(' ', '-'),
      category_id=one(
          db,
          'SELECT c.id FROM categories c JOIN categories g ON g.id ='
          ' c.parent_id WHERE c.name = ? AND g.name = ?',
          leaf,
          group,
      )['id'],
      kind=kind,
      brand=brand,
      price_cents=int(Decimal(price) * 100),
      description='',
      quantity=int(units),
      enabled=1,
  )
  return [
      row,
      added('options', product_id=key, name='Size', value=size),
      added('options', product_id=key, name='Colour', value=shade),
  ]


def pending(db, stars, authors):
  found = rows(db, "SELECT * FROM reviews WHERE status = 'pending'")
  return [
      x['id']
      for x in found
      if x['stars'] == int(stars)
      and (x['customer_id'] is None) == (authors == 'guests')
  ]


def approve(db, _, stars, authors):
  return [
      changed('reviews', key, status='approved')
      for key in pending(db, stars, authors)
  ]


def delete(db, _, stars, authors):
  return [('-', 'reviews', key) for key in pending(db, stars, authors)]


def reject(db, _, name, nickname):
  (review,) = (
      x
      for x in reviews(db, name)
      if (x['nickname'], x['status']) == (nickname, 'pending')
  )
  return [changed('reviews', review['id'], status='rejected')]


# --- changes of the rest


def email(db, _, name, address):
  return [changed('customers', customer(db, name)['id'], email=address)]


def unsubscribe(db, _, address):
  row = one(db, 'SELECT id FROM subscribers WHERE email = ?', address)
  return [('-', 'subscribers', row['id'])]


def rule(name, amount, percent, **more):
  kind, size = 'percent', percent
  if amount:
    kind, size = 'fixed', Decimal(amount) * 100
  return [
      added(
          'price_rules',
          name=name,
          kind=kind,
          amount=int(size),
          active=1,
          **more,
      )
  ]


def coupon(db, _, name, code, amount, percent, first, last):
  del db
  return rule(name, amount, percent, code=code, starts_on=first, ends_on=last)


def end_coupon(db, _, code):
  row = one(db, 'SELECT id FROM price_rules WHERE code = ?', code)
  return [changed('price_rules', row['id'], active=0)]


def page_title(db, _, old, new):
  row = one(db, 'SELECT id FROM pages WHERE title = ?', old)
  return [changed('pages', row['id'], title=new)]


NUMBER = r'(\d{9})'
QUOTED = r'"([^"]+)"'
PLACE = r'the (?:(second|third) )?'
DISCOUNT = r'(?:\$(\d+)|(\d+) percent)'
AMOUNT = r' Answer with the amount\.'
COUNT = r' Answer with the number\.'
NAME = r' Answer with its name\.'

ORACLES = {
    **{
        f'admin/{name}': go(f'admin/{name}')
        for name in (
            'orders-by-status', 'product-by-sku', 'open-list', 'preview-theme',
            'customer-of-order', 'report-of-span', 'report-of-today',
        )
    },
    **{
        f'admin/{name}': seek(f'admin/{name}', pattern, wanted)
        for name, pattern, wanted in (
            (
                'order-total',
                rf'What is the grand total of order {NUMBER}\?{AMOUNT}',
                lambda db, x: dollars(numbered(db, x)['total']),
            ),
            (
                'invoice-total',
                rf'Look up invoice {NUMBER} and tell me its grand'
                rf' total\.{AMOUNT}',
                invoice_total,
            ),
            (
                'newest-order',
                rf'Take the most recent order with the status {QUOTED}\. What'
                r' is the (.+)\?',
                newest,
            ),
            (
                'last-totals',
                r'Add up the grand totals of the last (\d) (\w+) orders\. Which'
                r' amount is it\?',
                total_of_last,
            ),
            (
                'items-sold',
                r'How many items were sold in the (\d+) most recent (\w+)'
                rf' orders, all in all\?{COUNT}',
                items_of_last,
            ),
            (
                'tracking-number',
                r'A customer asks where the parcel is\. Which tracking number'
                rf' does order {NUMBER} have\?',
                tracking,
            ),
            (
                'orders-of-customer',
                rf'How many of the orders of (.+) are complete\?{COUNT}',
                lambda db, x: len(of_customer(db, x, 'complete')),
            ),
            (
                'product-quantity',
                rf'How many units of {QUOTED} are in stock\?{COUNT}',
                lambda db, x: product(db, x)['quantity'],
            ),
            (
                'units-left',
                r'Which products have exactly (\d+) units left\? Answer with'
                r' their (\w+), separated by semicolons\.',
                with_units,
            ),
            (
                'dearest-product',
                r'Which product of the brand (.+) has the highest price,'
                rf' special prices aside\?{NAME}',
                dearest,
            ),
            (
                'unhappiest-customer',
                rf'Which customer is the unhappiest with {QUOTED}, going by the'
                r' stars of all its reviews\? Answer with the (.+) of the'
                r' customer\.',
                unhappiest,
            ),
            (
                'unhappy-nicknames',
                rf'Who has given {QUOTED} only one or two stars\? Answer with'
                r' the nicknames, separated by semicolons\.',
                lambda db, x: [
                    y['nickname'] for y in reviews(db, x) if y['stars'] in (1, 2)
                ],
            ),
            (
                'one-star-review',
                r'What is the title of the only one-star review of'
                rf' {QUOTED}\?',
                lambda db, x: only(reviews(db, x), 1)['title'],
            ),
            (
                'five-star-review',
                rf'Find the most recent five-star review of {QUOTED}\. Under'
                r' which nickname was it written\?',
                latest_praise,
            ),
            (
                'reviews-of-month',
                rf'How many reviews did our shop receive in (.+)\?{COUNT}',
                lambda db, x: len(
                    within(rows(db, 'SELECT * FROM reviews'), x)
                ),
            ),
            (
                'reviews-by-status',
                rf'What is the total count of reviews with the status {QUOTED}'
                rf'(?: and the rating (\d))?\?{COUNT}',
                count_of,
            ),
            (
                'reviews-with-term',
                r'In how many of all reviews that our shop received does the'
                rf' text contain {QUOTED}\?{COUNT}',
                containing,
            ),
            (
                'average-rating',
                rf'Which average rating do the approved reviews of {QUOTED}'
                r' come to\? Answer with the number, rounded to two decimals\.',
                rating,
            ),
            (
                'customer-by-phone',
                r'Somebody with the phone number (\S+) has called us\. Find out'
                r' which customer this is, and answer with the name and the'
                r' email address, separated by a semicolon\.',
                caller,
            ),
            (
                'top-search-terms',
                r'List the (\d) search terms that visitors of the shop have'
                r' used most often, the most used first, separated by'
                r' semicolons\.',
                top_terms,
            ),
            (
                'top-brand',
                r'Which brand appears in the most of those search terms that'
                rf' were used (\d+) to (\d+) times\?{NAME}',
                top_brand,
            ),
            (
                'term-uses',
                rf'How many times was {QUOTED} searched for\?{COUNT}',
                lambda db, x: one(
                    db, 'SELECT uses FROM search_terms WHERE text = ?', x
                )['uses'],
            ),
            (
                'monthly-orders',
                r'How many of the orders of each month are complete, from'
                r' (.+)\? Answer in the form MM:COUNT, one after the other,'
                r' separated by semicolons\.',
                monthly,
            ),
            (
                'bestseller',
                rf'Which is {PLACE}best-selling product of (.+), going by the'
                rf' quantities in the bestsellers report\?{NAME}',
                lambda db, x, y: ranked(sold(db, y), PLACES[x])[-1],
            ),
            (
                'bestsellers',
                r'Name the (\d) best-selling products of (.+) by the'
                r' bestsellers report, the best first, separated by'
                r' semicolons\.',
                lambda db, x, y: tuple(ranked(sold(db, y), int(x))),
            ),
            (
                'most-orders',
                rf'Which customer has {PLACE}most complete orders from (.+)\?'
                r' Answer with the full name\.',
                lambda db, x, y: buyer_of_rank(db, 'complete', x, y)['name'],
            ),
            (
                'most-cancellations',
                rf'Take the customer with {PLACE}most canceled orders from'
                r' (.+)\. What is the (.+)\?',
                canceling,
            ),
            (
                'refunded',
                rf'How much money was refunded in (.+)\?{AMOUNT}',
                refunded,
            ),
            (
                'shipping-charges',
                r'Which amount does the shipping report give for (.+ Delivery)'
                r' in (.+), over orders of any status\?',
                charged,
            ),
        )
    },
    **{
        f'admin/{name}': change(f'admin/{name}', pattern, wanted)
        for name, pattern, wanted in (
            (
                'cancel-order',
                rf'Cancel order {NUMBER}\.',
                lambda db, _, x: [becomes(x, 'canceled')],
            ),
            (
                'hold-order',
                rf'Put order {NUMBER} of (.+) on hold until we know more\.',
                hold,
            ),
            (
                'release-order',
                r'One order of (.+) is on hold\. Release it from there\.',
                release,
            ),
            (
                'invoice-order',
                rf'The payment for order {NUMBER} has come\. Create its'
                r' invoice\.',
                invoice,
            ),
            (
                'ship-order',
                rf'Order {NUMBER} has left the house\. Ship it with the carrier'
                r' (.+) under the tracking number (\d+)\.',
                ship,
            ),
            (
                'refund-order',
                rf'Everything of order {NUMBER} was sent back\. Refund it with'
                r' a credit memo\.',
                refund,
            ),
            (
                'notify-customer',
                r'Write this comment to the most recent pending order of (.+)'
                rf' and have the customer notified of it: {QUOTED}',
                notify,
            ),
            (
                'order-address',
                rf'Change the address of order {NUMBER}: it goes to (.+) in'
                r' (.+), (.+), zip code (\d{5})\. Name and phone number stay\.',
                order_address,
            ),
            (
                'disable-product',
                rf'Disable the product {QUOTED}; buyers complain about its'
                r' quality\.',
                disable,
            ),
            (
                'stock-arrived',
                rf'(\d+) more units of {QUOTED} have arrived\. Add them to the'
                r' quantity in stock\.',
                arrived,
            ),
            (
                'sold-out',
                rf'All products whose name begins with {QUOTED} are sold out\.'
                r' Set their quantity to 0\.',
                sold_out,
            ),
            (
                'price-of-line',
                r'(Raise|Lower) the prices of both products whose name begins'
                rf' with {QUOTED} by \$([\d.]+) each\.',
                price_of_line,
            ),
            (
                'sale-price',
                rf'Mark both products of the brand (.+) and the type {QUOTED}'
                r' as on sale: give each a special price of \$([\d.]+)\.',
                sale,
            ),
            (
                'quote-review',
                r'Let our buyers speak: append to the description of'
                rf' {QUOTED} the title of its only five-star review, in double'
                r' quotes and after a space\.',
                quote,
            ),
            (
                'add-colour',
                rf'From now on {QUOTED} also comes in (.+)\. Add this colour to'
                r' its options\.',
                colour,
            ),
            (
                'new-product',
                rf'Add a product named {QUOTED} \(SKU (.+), brand (.+), type'
                rf' (.+)\) to the category {QUOTED}: (\d+) in stock, price'
                r' \$([\d.]+), size (\w+), colour (\w+), without a'
                r' description\.',
                new_product,
            ),
            (
                'enable-products',
                rf'Enable every product of the type {QUOTED} that is'
                r' disabled\.',
                enable,
            ),
            (
                'approve-reviews',
                r'Approve all pending reviews with (\d) stars that were written'
                r' by (\w+)\.',
                approve,
            ),
            (
                'delete-reviews',
                r'Delete all pending reviews with (\d) stars? that were written'
                r' by (\w+)\.',
                delete,
            ),
            (
                'reject-review',
                rf'The pending review of {QUOTED} by (.+) is not to be shown\.'
                r' Set it to "Not Approved"\.',
                reject,
            ),
            (
                'customer-email',
                r'The customer (.+) has a new email address: (\S+)\. Change it'
                r' in the account\.',
                email,
            ),
            (
                'unsubscribe',
                r'(\S+) does not want our newsletter any more\. Remove this'
                r' address from the subscribers\.',
                unsubscribe,
            ),
            (
                'new-price-rule',
                rf'Create a cart price rule named {QUOTED} that takes'
                rf' {DISCOUNT} off every cart\. It is active and has neither a'
                r' coupon code nor days of start and end\.',
                lambda db, _, *said: rule(*said),
            ),
            (
                'new-coupon',
                rf'Set up an active cart price rule {QUOTED} with the coupon'
                rf' code (\w+): {DISCOUNT} off, from (\S+) to (\S+)\.',
                coupon,
            ),
            (
                'end-coupon',
                r'The coupon (\w+) is no longer to be taken\. Set its price'
                r' rule to inactive\.',
                end_coupon,
            ),
            (
                'page-title',
                rf'Change the title of the page {QUOTED} of our shop to'
                rf' {QUOTED}\.',
                page_title,
            ),
        )
    },
    'admin/price-of-this': price_of_this,
}  # fmt: skip
