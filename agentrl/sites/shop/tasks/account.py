"""Tasks that change the account, or write to the shop."""

from agentrl.sites.goals import ADDED, CHANGED, REMOVED, Goal, Row
from agentrl.sites.shop.seed.orders import USER
from agentrl.sites.shop.tasks import picks
from agentrl.sites.task import (
    CHANGE,
    Step,
    Stores,
    Task,
    Template,
    click_on,
    fill,
    stop,
)

_LABELS = {
    'phone': 'Phone Number',
    'street': 'Street Address',
    'city': 'City',
    'region': 'State/Province',
    'postcode': 'Zip/Postal Code',
}
_MOVES = (
    ('231 Willow Way, Suite 100', 'Chicago', 'Illinois', '60601'),
    ('18 Ropewalk Lane', 'Baltimore', 'Maryland', '21202'),
    ('4090 Sawmill Road', 'Eugene', 'Oregon', '97401'),
    ('7 Cider Press Court', 'Rutland', 'Vermont', '05701'),
    ('655 Palm Terrace, Flat 3', 'Tampa', 'Florida', '33602'),
)


def _change(intent: str, rows: tuple[Row, ...], *steps: Step) -> Task:
  return Task(
      intent=intent,
      goal=Goal(rows=rows),
      steps=(*steps, stop()),
      start=(picks.HOME,),
  )


def _book(*steps: Step) -> tuple[Step, ...]:
  return (
      click_on('link', 'My Account'),
      click_on('link', 'Address Book'),
      *steps,
  )


def _moved(stores: Stores, k: int) -> Task:
  street, city, region, postcode = _MOVES[k]
  new = {
      'street': street,
      'city': city,
      'region': region,
      'postcode': postcode,
  }
  old = picks.default_address(stores)
  changed = {name: x for name, x in new.items() if x != old[name]}
  return _change(
      f'I have moved. Change my default address to {street}, {city}, {region},'
      f' {postcode}; the phone number stays.',
      (Row('shop.addresses', CHANGED, changed, key=old['id']),),
      *_book(click_on('link', f'Edit {old["street"]}')),
      *(fill(_LABELS[name], x) for name, x in new.items()),
      click_on('button', 'Save Address'),
  )


def _added(stores: Stores, k: int) -> Task:
  del stores
  street, city, region, postcode = _MOVES[-1 - k]
  phone = f'312-555-01{k + 1}4'
  new = {
      'phone': phone,
      'street': street,
      'city': city,
      'region': region,
      'postcode': postcode,
  }
  return _change(
      'Add a further address to my address book, without making it a default:'
      f' Ella Brandt, {street}, {city}, {region}, {postcode}, phone {phone}.',
      (
          Row(
              'shop.addresses',
              ADDED,
              {
                  'customer_id': USER,
                  'first_name': 'Ella',
                  'last_name': 'Brandt',
                  **new,
              },
          ),
      ),
      *_book(click_on('link', 'Add New Address')),
      *(fill(_LABELS[name], x) for name, x in new.items()),
      click_on('button', 'Save Address'),
  )


def _deleted(stores: Stores, k: int) -> Task:
  address = picks.other_addresses(stores)[k]
  return _change(
      f'Delete the address in {address["city"]} from my address book.',
      (Row('shop.addresses', REMOVED, key=address['id']),),
      *_book(
          click_on('link', f'Delete {address["street"]}'),
          click_on('button', 'Delete'),
      ),
  )


def _default(stores: Stores, k: int) -> Task:
  address = picks.other_addresses(stores)[k % 2]
  name = ('shipping', 'billing')[k // 2]
  return _change(
      f'Make my address in {address["city"]} the default {name} address.',
      (
          Row(
              'shop.customers',
              CHANGED,
              {f'{name}_id': address['id']},
              key=USER,
          ),
      ),
      *_book(
          click_on('link', f'Edit {address["street"]}'),
          click_on('checkbox', f'Use as my default {name} address'),
          click_on('button', 'Save Address'),
      ),
  )


def _details(stores: Stores, k: int) -> Task:
  del stores
  column, label, value = (
      ('last_name', 'Last Name', 'Brandt-Solano'),
      ('email', 'Email', 'ella.b@mail.example'),
      ('first_name', 'First Name', 'Elena'),
      ('email', 'Email', 'shopping.ella@example.org'),
      ('last_name', 'Last Name', 'Okafor'),
  )[k]
  return _change(
      f'Change the {label.lower()} of my account to {value}. The rest stays.',
      (Row('shop.customers', CHANGED, {column: value}, key=USER),),
      click_on('link', 'My Account'),
      click_on('link', 'Account Information'),
      fill(label, value),
      click_on('button', 'Save'),
  )


def _newsletter(stores: Stores, k: int) -> Task:
  del stores
  email = (
      'ella.brandt@example.com',
      'office@tern-studio.example',
      'grandma.brandt@example.org',
      'reading.club@example.com',
      'ella+letters@example.net',
  )[k]
  return _change(
      f'Sign up {email} for the newsletter of this shop.',
      (Row('shop.subscribers', ADDED, {'email': email}),),
      fill('Sign Up for Our Newsletter', email),
      click_on('button', 'Subscribe'),
  )


def _message(stores: Stores, intent: str, text: str, *steps: Step) -> Task:
  (phone,) = picks.rows(
      stores,
      'SELECT a.phone FROM addresses a JOIN customers c ON c.billing_id = a.id'
      f' WHERE c.id = {USER}',
  )[0]
  return _change(
      intent,
      (
          Row(
              'shop.messages',
              ADDED,
              {
                  'name': 'Ella Brandt',
                  'email': 'ella.brandt@example.com',
                  'phone': phone,
                  'text': text,
              },
          ),
      ),
      *steps,
      click_on('link', 'Contact Us'),
      fill("What's on your mind?", text),
      click_on('button', 'Submit'),
  )


_FORM = 'Leave the other fields of the form as they are.'


def _broken(stores: Stores, k: int) -> Task:
  item = picks.nth(picks.one_item(stores, 20), k)
  order = picks.orders(stores, 'o.id = ?', item['order_id'])[0]
  asked = 'Refund, please: order {order}, product {sku}, faulty after 3 days.'
  return _message(
      stores,
      f'I am not content with the {item["kind"].lower()} that I ordered in'
      f' {picks.month(item["created_at"])}. Send this through the contact'
      ' form, with the order number (nine digits) and the SKU put in: "'
      f'{asked.format(order="ORDER NUMBER", sku="SKU")}" {_FORM}',
      asked.format(order=f'{order["id"]:09d}', sku=item['sku']),
      *picks.open_order(order),
  )


def _amount(stores: Stores, k: int) -> Task:
  item = picks.nth(
      (x for x in picks.one_item(stores, 33) if x['quantity'] == 1), k
  )
  order = picks.orders(stores, 'o.id = ?', item['order_id'])[0]
  asked = 'Order {order} came damaged. I ask you to pay back {amount}.'
  return _message(
      stores,
      f'I want the price of the {item["kind"].lower()} back that I ordered in'
      f' {picks.month(item["created_at"])}, without shipping. Write to the shop'
      ' with the contact form, and fill in the number of the order (nine'
      ' digits) and the amount (such as $9.99): "'
      f'{asked.format(order="NUMBER", amount="AMOUNT")}" {_FORM}',
      asked.format(
          order=f'{order["id"]:09d}', amount=picks.dollars(item['price_cents'])
      ),
      *picks.open_order(order),
  )


def _ask_coupon(stores: Stores, k: int) -> Task:
  reason = (
      'I have been a loyal customer for two years',
      'my last parcel came late',
      'a coupon was promised to me on the phone',
      'next week is my birthday',
      'I plan to furnish a whole office',
  )[k]
  text = f'May I have a coupon? I ask because {reason}.'
  return _message(
      stores,
      f'Send the shop exactly this message with the contact form: "{text}"'
      f' {_FORM}',
      text,
  )


def _redirect(stores: Stores, k: int) -> Task:
  street, city, region, postcode = _MOVES[k]
  order = picks.orders(stores, "o.status IN ('pending', 'processing')")[0]
  asked = 'Please send order {order} to {address}.'
  address = f'{street}, {city}, {region} {postcode}'
  return _message(
      stores,
      'Orders cannot be changed here, so ask the shop to do it: my most recent'
      ' order that is pending or processing has to go to another address. Send'
      ' with the contact form "'
      f'{asked.format(order="NUMBER", address=address)}" and put in the nine'
      f' digits of its number. {_FORM}',
      asked.format(order=f'{order["id"]:09d}', address=address),
      *picks.open_orders(order['place']),
  )


TEMPLATES = (
    Template('shop/moved', CHANGE, _moved, 5, (165,)),
    Template('shop/add_address', CHANGE, _added, 5),
    Template('shop/delete_address', CHANGE, _deleted, 2),
    Template('shop/default_address', CHANGE, _default, 4),
    Template('shop/account_details', CHANGE, _details, 5),
    Template('shop/newsletter', CHANGE, _newsletter, 5, (199,)),
    Template('shop/broken', CHANGE, _broken, 5, (153,)),
    Template('shop/pay_back', CHANGE, _amount, 5, (154,)),
    Template('shop/ask_coupon', CHANGE, _ask_coupon, 5, (163,)),
    Template('shop/send_elsewhere', CHANGE, _redirect, 5, (191,)),
)
