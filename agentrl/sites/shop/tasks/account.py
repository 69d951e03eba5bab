"""Tasks that change the account, or write to the shop."""

from agentrl.sites import picking as pick, seed_data, task as t
from agentrl.sites.goals import added, changed, removed
from agentrl.sites.shop.seed.orders import USER
from agentrl.sites.shop.tasks import paths
from agentrl.sites.shop.tasks.paths import change

_VALUES = seed_data.read(__file__)
_LABELS = _VALUES['labels']
_MOVES = _VALUES['moves']


def _book(*steps: t.Step) -> tuple[t.Step, ...]:
  return (t.link('My Account'), t.link('Address Book'), *steps)


def _moved(db: t.Db, k: int) -> t.Task:
  street, city, region, postcode = _MOVES[k]
  new = {'street': street, 'city': city, 'region': region, 'postcode': postcode}
  old = paths.default_address(db)
  other = {name: x for name, x in new.items() if x != old[name]}
  return change(
      f'I have moved. Change my default address to {street}, {city}, {region},'
      f' {postcode}; the phone number stays.',
      changed('shop.addresses', old['id'], **other),
      *_book(t.link(f'Edit {old["street"]}')),
      *(t.fill(_LABELS[name], x) for name, x in new.items()),
      t.button('Save Address'),
  )


def _added(_: t.Db, k: int) -> t.Task:
  street, city, region, postcode = _MOVES[-1 - k]
  phone = f'312-555-01{k + 1}4'
  place = {'street': street, 'city': city, 'region': region}
  new = {'phone': phone, **place, 'postcode': postcode}
  return change(
      'Add a further address to my address book, without making it a default:'
      f' Ella Brandt, {street}, {city}, {region}, {postcode}, phone {phone}.',
      added(
          'shop.addresses',
          customer_id=USER,
          first_name='Ella',
          last_name='Brandt',
          **new,
      ),
      *_book(t.link('Add New Address')),
      *(t.fill(_LABELS[name], x) for name, x in new.items()),
      t.button('Save Address'),
  )


def _deleted(db: t.Db, k: int) -> t.Task:
  address = paths.other_addresses(db)[k]
  return change(
      f'Delete the address in {address["city"]} from my address book.',
      removed('shop.addresses', address['id']),
      *_book(t.link(f'Delete {address["street"]}'), t.button('Delete')),
  )


def _default(db: t.Db, k: int) -> t.Task:
  address = paths.other_addresses(db)[k % 2]
  name = ('shipping', 'billing')[k // 2]
  return change(
      f'Make my address in {address["city"]} the default {name} address.',
      changed('shop.customers', USER, **{f'{name}_id': address['id']}),
      *_book(
          t.link(f'Edit {address["street"]}'),
          t.click_on('checkbox', f'Use as my default {name} address'),
          t.button('Save Address'),
      ),
  )


def _details(_: t.Db, k: int) -> t.Task:
  column, label, value = _VALUES['details'][k]
  return change(
      f'Change the {label.lower()} of my account to {value}. The rest stays.',
      changed('shop.customers', USER, **{column: value}),
      t.link('My Account'),
      t.link('Account Information'),
      t.fill(label, value),
      t.button('Save'),
  )


def _newsletter(_: t.Db, k: int) -> t.Task:
  email = _VALUES['newsletter'][k]
  return change(
      f'Sign up {email} for the newsletter of this shop.',
      added('shop.subscribers', email=email),
      t.fill('Sign Up for Our Newsletter', email),
      t.button('Subscribe'),
  )


def _message(db: t.Db, intent: str, text: str, *steps: t.Step) -> t.Task:
  phone = db.value(
      'SELECT a.phone FROM addresses a JOIN customers c ON c.billing_id = a.id'
      f' WHERE c.id = {USER}'
  )
  return change(
      intent,
      added(
          'shop.messages',
          name='Ella Brandt',
          email='ella.brandt@example.com',
          phone=phone,
          text=text,
      ),
      *steps,
      t.link('Contact Us'),
      t.fill("What's on your mind?", text),
      t.button('Submit'),
  )


_FORM = 'Leave the other fields of the form as they are.'


def _broken(db: t.Db, k: int) -> t.Task:
  item = pick.kth(paths.one_item(db, 20), k)
  order = paths.orders(db, 'o.id = ?', item['order_id'])[0]
  template = (
      'Refund, please: order {order}, product {sku}, faulty after 3 days.'
  )
  return _message(
      db,
      f'I am not content with the {item["kind"].lower()} that I ordered in'
      f' {paths.month(item["created_at"])}. Send this through the contact'
      ' form, with the order number (nine digits) and the SKU put in: "'
      f'{template.format(order="ORDER NUMBER", sku="SKU")}" {_FORM}',
      template.format(order=f'{order["id"]:09d}', sku=item['sku']),
      *paths.open_order(order),
  )


def _amount(db: t.Db, k: int) -> t.Task:
  item = pick.kth((x for x in paths.one_item(db, 33) if x['quantity'] == 1), k)
  order = paths.orders(db, 'o.id = ?', item['order_id'])[0]
  template = 'Order {order} came damaged. I ask you to pay back {amount}.'
  return _message(
      db,
      f'I want the price of the {item["kind"].lower()} back that I ordered in'
      f' {paths.month(item["created_at"])}, without shipping. Write to the shop'
      ' with the contact form, and fill in the number of the order (nine'
      ' digits) and the amount (such as $9.99): "'
      f'{template.format(order="NUMBER", amount="AMOUNT")}" {_FORM}',
      template.format(
          order=f'{order["id"]:09d}', amount=paths.dollars(item['price_cents'])
      ),
      *paths.open_order(order),
  )


def _ask_coupon(db: t.Db, k: int) -> t.Task:
  reason = _VALUES['ask_coupon'][k]
  text = f'May I have a coupon? I ask because {reason}.'
  return _message(
      db,
      f'Send the shop exactly this message with the contact form: "{text}"'
      f' {_FORM}',
      text,
  )


def _redirect(db: t.Db, k: int) -> t.Task:
  street, city, region, postcode = _MOVES[k]
  order = paths.orders(db, "o.status IN ('pending', 'processing')")[0]
  template = 'Please send order {order} to {address}.'
  address = f'{street}, {city}, {region} {postcode}'
  return _message(
      db,
      'Orders cannot be changed here, so ask the shop to do it: my most recent'
      ' order that is pending or processing has to go to another address. Send'
      ' with the contact form "'
      f'{template.format(order="NUMBER", address=address)}" and put in the nine'
      f' digits of its number. {_FORM}',
      template.format(order=f'{order["id"]:09d}', address=address),
      *paths.open_orders(order['place']),
  )


TEMPLATES = (
    t.Template('shop/moved', t.CHANGE, _moved, 5, (165,)),
    t.Template('shop/add_address', t.CHANGE, _added, 5),
    t.Template('shop/delete_address', t.CHANGE, _deleted, 2),
    t.Template('shop/default_address', t.CHANGE, _default, 4),
    t.Template('shop/account_details', t.CHANGE, _details, 5),
    t.Template('shop/newsletter', t.CHANGE, _newsletter, 5, (199,)),
    t.Template('shop/broken', t.CHANGE, _broken, 5, (153,)),
    t.Template('shop/pay_back', t.CHANGE, _amount, 5, (154,)),
    t.Template('shop/ask_coupon', t.CHANGE, _ask_coupon, 5, (163,)),
    t.Template('shop/send_elsewhere', t.CHANGE, _redirect, 5, (191,)),
)
