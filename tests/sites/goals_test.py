"""Tests for goals: exactly the rows, the answer, the place."""

import pytest

from agentrl.sites import goals
from agentrl.sites.answers import Number
from agentrl.sites.goals import ADDED, CHANGED, REMOVED, Goal, New, Outcome, Row
from agentrl.sites.state import Request
from agentrl.sites.store import Change

POST = Request('shop', 'POST', '/orders', 303, True)
GET = Request('shop', 'GET', '/orders?page=2', 200, True)


def outcome(*changes, answer='', url='http://shop/', requests=(POST,)):
  return Outcome(answer, changes, url, requests)


def added(table='shop.orders', key=9, **values):
  return Change(table, key, None, {'id': key, 'created_at': 'now', **values})


ORDER = Row('shop.orders', ADDED, {'user_id': 1, 'note': 'be quick'})
LINE = Row('shop.lines', ADDED, {'order_id': New('shop.orders'), 'count': 2})
PRICE = Row('shop.things', CHANGED, {'price': 5}, key=7)
GONE = Row('shop.things', REMOVED, key=8)
order = added(user_id=1, note='be  quick\r\n')
line = added('shop.lines', 3, order_id=9, count=2, gift=None)
price = Change('shop.things', 7, {'id': 7, 'price': 4}, {'id': 7, 'price': 5})
gone = Change('shop.things', 8, {'id': 8, 'price': 4}, None)


def test_exactly_these_rows():
  goal = Goal(rows=(ORDER, LINE, PRICE, GONE))
  assert goals.reached(goal, outcome(gone, price, line, order))
  changes = [order, line, price, gone]
  for k in range(4):
    rest = changes[:k] + changes[k + 1 :]
    assert goals.missing(goal, outcome(*rest)) == 'rows'
  more = added('shop.other', 1)
  assert goals.missing(goal, outcome(*changes, more)) == 'rows'


@pytest.mark.parametrize(
    'row,change',
    [
        (ORDER, added(user_id=2, note='be quick')),
        (ORDER, added(user_id='1', note='be quick')),
        (ORDER, added(user_id=1, note='be quick!')),
        (ORDER, added(user_id=1)),
        (ORDER, added(user_id=1, note='be quick', gift=1)),
        (ORDER, added('shop.things', user_id=1, note='be quick')),
        (
            PRICE,
            Change('shop.things', 6, {'price': 4}, {'price': 5}),
        ),
        (
            PRICE,
            Change(
                'shop.things', 7, {'price': 4, 'n': 1}, {'price': 5, 'n': 2}
            ),
        ),
        (PRICE, gone),
        (GONE, price),
        (GONE, Change('shop.things', 7, {'id': 7}, None)),
    ],
)
def test_near_misses(row, change):
  assert goals.missing(Goal(rows=(row,)), outcome(change)) == 'rows'


def test_what_was_undone_is_forgiven_and_what_is_left_is_not():
  goal = Goal(rows=(PRICE,))
  touched = Change(
      'shop.orders',
      4,
      {'id': 4, 'status': 'pending', 'updated_at': 'then'},
      {'id': 4, 'status': 'pending', 'updated_at': 'now'},
  )
  lost = Change('shop.wishes', 3, {'id': 3, 'product_id': 5}, None)
  back = Change('shop.wishes', 9, None, {'id': 9, 'product_id': 5})
  other = Change('shop.wishes', 9, None, {'id': 9, 'product_id': 6})
  slip = added('forum.posts', 11, title='x', is_deleted=1)
  assert goals.reached(goal, outcome(price, touched, lost, back, slip))
  for left in ((lost,), (back,), (lost, other), (touched, lost)):
    assert goals.missing(goal, outcome(price, *left)) == 'rows'


def test_a_wanted_row_that_was_taken_back_is_missing():
  back = Change('shop.things', 9, None, gone.before)
  assert goals.missing(Goal(rows=(GONE,)), outcome(gone, back)) == 'rows'


def test_a_new_row_refers_to_the_one_that_was_not_deleted():
  goal = Goal(rows=(ORDER, LINE))
  slip = added(key=8, user_id=1, note='be quick', is_deleted=1)
  assert goals.reached(goal, outcome(slip, order, line))


def test_a_row_that_refers_to_another_new_one():
  goal = Goal(rows=(ORDER, LINE))
  wrong = added('shop.lines', 3, order_id=8, count=2)
  assert goals.missing(goal, outcome(order, wrong)) == 'rows'


def test_one_change_cannot_be_two_rows():
  goal = Goal(rows=(ORDER, ORDER))
  assert goals.missing(goal, outcome(order)) == 'rows'
  assert goals.reached(
      goal, outcome(order, added(key=10, user_id=1, note='be quick'))
  )


def test_answer_and_nothing_changed():
  goal = Goal(answer=Number('12'))
  assert goals.reached(goal, outcome(answer='12', requests=(GET,)))
  assert goals.missing(goal, outcome(answer='13')) == 'answer'
  assert goals.missing(goal, outcome(order, answer='12')) == 'rows'


@pytest.mark.parametrize(
    'query,url,at',
    [
        ('', 'http://shop/cart', True),
        ('', 'http://shop/cart/', True),
        ('', 'http://shop/carts', False),
        ('', 'http://shop/cart?q=&sort=name&dir=asc&page=1#top', True),
        ('', 'http://shop/cart?page=2', False),
        ('', 'http://shop/cart?q=lamp', False),
        ('?page=2', 'http://shop/cart?page=2&sort=name#top', True),
        ('?page=2', 'http://shop/cart?page=1&sort=name', False),
        ('?page=2', 'http://shop/cart?page=2&page=1', False),
        ('?page=2', 'http://shop/cart', False),
        ('?page=2', 'http://forum/cart?page=2', False),
    ],
)
def test_the_place(query, url, at):
  goal = Goal(url=f'http://shop/cart{query}')
  assert (goals.missing(goal, outcome(url=url)) == '') == at


@pytest.mark.parametrize(
    'wanted,url,at',
    [
        ('shop/catalogsearch/result?q=face+wash', '?q=Face++WASH', True),
        ('shop/catalogsearch/result?q=face+wash', '?q=+wash%20faces+', True),
        ('shop/catalogsearch/result?q=face+wash', '?q=face', False),
        ('shop/catalogsearch/result?q=face+wash', '?q=face+wash+oil', False),
        ('shop/catalogsearch/result?q=face+wash', '?q=facewash', False),
        ('shop/x.html?brand=Gauntlet+Nine', '?brand=gauntlet+nine', False),
        ('shop/Cart', 'http://shop/cart', False),
        ('forum/search?q=new+lens', '?q=Lens+NEW', True),
        ('forum/search?q=new+lens', '?q=new+lenses', False),
        ('forum/f/travel/new', 'http://forum/f/Travel/new', True),
        ('forum/f/travel/new', 'http://forum/f/TRAVEL/new/', True),
        ('forum/f/travel/new', 'http://forum/f/travels/new', False),
        ('forum/f/travel/new', 'http://forum/f/travel/top', False),
        ('forum/f/caf%C3%A9', 'http://forum/f/caf\u00e9', True),
        ('forge/Emma/notes', 'http://forge/emma/Notes', True),
        ('forge/a/b/-/issues?search=log+in', '?search=IN+log', True),
        ('forge/a/b/-/issues?label_name%5B%5D=bug', '?label_name[]=Bug', True),
        (
            'forge/a/b/-/issues?label_name%5B%5D=bug',
            '?label_name[]=bugs',
            False,
        ),
        ('forge/x?assignee_username=emma', '?assignee_username=@Emma', True),
        ('forge/x?assignee_username=emma', '?assignee_username=em', False),
    ],
)
def test_an_address_is_read_as_its_site_reads_it(wanted, url, at):
  wanted = f'http://{wanted}'
  if url.startswith('?'):
    url = wanted.partition('?')[0] + url
  goal = Goal(url=wanted)
  assert (goals.missing(goal, outcome(url=url)) == '') == at


@pytest.mark.parametrize('status,at', [(200, True), (404, False), (401, False)])
def test_the_page_of_the_place_must_be_shown(status, at):
  goal = Goal(url='http://forum/f/travel')
  pages = (
      Request('forum', 'GET', '/f/travel/', 500, True),
      Request('forum', 'GET', '/f/travel/', status, True),
      Request('forum', 'GET', '/missing.png', 404, False),
      Request('shop', 'GET', '/f/travel/', 404, True),
  )
  found = outcome(url='http://forum/f/travel/#top', requests=pages)
  assert (goals.missing(goal, found) == '') == at


def test_requests():
  goal = Goal(requests=('GET shop /orders.*',))
  assert goals.reached(goal, outcome(requests=(GET,)))
  assert goals.missing(goal, outcome()) == 'requests'
  failed = Request('shop', 'GET', '/orders', 500, True)
  assert goals.missing(goal, outcome(requests=(failed,))) == 'requests'


def test_rows_do_not_change_by_reading():
  """A site that writes on GET has a fault, or the records were reached aside."""
  goal = Goal(rows=(ORDER,))
  assert goals.missing(goal, outcome(order, requests=(GET,))) == 'requests'


def test_a_text_that_is_left_to_the_policy():
  row = Row('shop.orders', ADDED, {'user_id': 1, 'note': goals.Anything()})
  goal = Goal(rows=(row,))
  for note in ('', 'be quick'):
    assert goals.reached(goal, outcome(added(user_id=1, note=note)))
  for near in (added(user_id=1), added(user_id=1, note=None)):
    assert goals.missing(goal, outcome(near)) == 'rows'
