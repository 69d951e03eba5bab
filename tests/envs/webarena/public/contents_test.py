"""Tests for checks of pages and the helpers they name, without a browser."""

import asyncio
import json

import aiohttp
import pytest
from aiohttp import web
from playwright.async_api import Error

from agentrl.envs.webarena.public import contents, helpers
from agentrl.errors import EnvError
from tests.envs.web import sites
from tests.envs.webarena.public.pages import Page


def check(locator='', url='last', **required):
  return {'url': url, 'locator': locator, 'required_contents': required}


def evaluate(page, *checks, urls=None):
  return asyncio.run(contents.evaluate(checks, urls or {}, page))


def test_the_last_page_is_looked_at():
  page = Page('<p>Ann &amp; Bob</p>')
  right = check(must_include=['ann & bob'])
  assert evaluate(page, right) == 1
  assert evaluate(page, right, check(must_include=['Cy'])) == 0
  assert evaluate(page) == 1


@pytest.mark.parametrize(
    'value,wanted,score',
    [
        ('Closed', 'closed', 1),
        ('Open', 'closed', 0),
        (5, '5', 1),
        (None, 'None', 1),  # as the original's Python writes it
        (True, 'true', 1),
        # Thrown on every page but the right one: no text.
        (Error('Cannot read properties of null'), '', 1),
        (Error('Cannot read properties of null'), 'closed', 0),
    ],
)
def test_a_part_of_a_page(value, wanted, score):
  page = Page(**{'document.x': value})
  assert evaluate(page, check('document.x', exact_match=wanted)) == score


def test_preparations_come_first():
  page = Page(**{'a()': None, 'document.x': 'y'})
  prepared = {**check('document.x', exact_match='y'), 'prep_actions': ['a()']}
  assert evaluate(page, prepared) == 1


@pytest.mark.parametrize(
    'page',
    [
        Page(Error('Target crashed')),
        Page(**{'document.x': Error('Page crashed')}),
        Page(closed=True, **{'document.x': Error('gone')}),
    ],
)
def test_a_page_that_is_gone_is_an_error_and_no_zero(page):
  locator = 'document.x' if page.scripts else ''
  with pytest.raises(EnvError, match=f'^{page.url} (cannot be read|is gone)'):
    evaluate(page, check(locator, exact_match='x'))


# --- helpers


@pytest.mark.parametrize(
    'url,post',
    [
        ('http://x.test/f/books/7/title', 'http://x.test/f/books/7/'),
        ('http://x.test/f/books/7/t/-/comment/9', 'http://x.test/f/books/7/'),
        ('http://x.test/f/books', 'http://x.test/f/books'),
        ('http://x.test/user/f/books/7', 'http://x.test/user/f/books/7'),
        ('about:blank', 'about:blank'),
    ],
)
def test_the_post_of_a_page(url, post):
  assert helpers.post_url(url) == post
  call = "func:reddit_get_post_url('__last_url__')"
  assert asyncio.run(helpers.address(call, None, url)) == post


REVIEW = "func:shopping_get_sku_latest_review_{}('B0')"
ORDER = 'func:shopping_get_latest_order_url()'


@pytest.mark.parametrize(
    'text',
    [
        REVIEW.format('author'),
        'func:gitlab_get_project_memeber_role(__page__, \'ann\')',
    ],
)  # fmt: skip
def test_calls_that_are_known(text):
  helpers.check_locator(text)
  assert helpers.needs_shop(text) is ('shopping' in text)


@pytest.mark.parametrize(
    'text',
    [
        'func:eval("1")', 'func:x', REVIEW.format('text'),
        "func:shopping_get_sku_latest_review_author('B0', 'B1')",
        'func:shopping_get_sku_latest_review_author()',
        'func:shopping_get_sku_latest_review_author(open("x"))',
        ORDER,
    ],
)  # fmt: skip
def test_calls_that_are_not(text):
  with pytest.raises(ValueError, match='unknown helper .*; known: shopping'):
    helpers.check_locator(text)
  if text != ORDER:
    with pytest.raises(ValueError, match='unknown helper .*; known: shopping'):
      helpers.check_address(text)


class Rest:
  """A shop's REST interface, with these replies at paths."""

  def __init__(self, server):
    self.server = server
    self.tokens = 0
    server.pages['/rest/default/V1/integration/admin/token'] = self._token

  async def _token(self, request):
    assert await request.json() == helpers.SHOP_ADMIN
    self.tokens += 1
    return web.json_response('secret')

  def reply(self, path, value, status=200):
    async def handler(request):
      assert request.headers['Authorization'] == 'Bearer secret'
      text = value if isinstance(value, str) else json.dumps(value)
      return web.Response(
          text=text, status=status, content_type='application/json'
      )

    self.server.pages[path] = handler


@pytest.fixture
def rest():
  with sites.serving() as server:
    yield Rest(server)


REVIEWS = '/rest/V1/products/B0/reviews'
LATEST = {'nickname': 'Ann', 'ratings': [{'percent': 80}]}


@pytest.mark.parametrize(
    'reviews,part,wanted,score',
    [
        ([{'nickname': 'Bob'}, LATEST], 'author', 'ann', 1),
        ([{'nickname': 'Bob'}, LATEST], 'author', 'bob', 0),
        ([LATEST], 'rating', '80', 1),
        ([], 'author', '', 1),
        ([], 'rating', '80', 0),
    ],
)
def test_a_check_asks_the_shop(rest, reviews, part, wanted, score):
  rest.reply(REVIEWS, reviews)
  asked = check(REVIEW.format(part), exact_match=wanted)
  urls = {'shopping': rest.server.url}
  assert evaluate(Page(), asked, asked, urls=urls) == score
  assert rest.tokens == 1


@pytest.mark.parametrize(
    'reply,status,words',
    [
        ('{', 200, 'cannot be read'),
        ([], 401, 'answers with status 401'),
        ([], 500, 'answers with status 500'),
        ([{'name': 'x'}], 200, 'the shop has no such record'),
        ({'message': 'x'}, 200, 'the shop has no such record'),
    ],
)
def test_a_shop_that_answers_otherwise_is_an_error(rest, reply, status, words):
  rest.reply(REVIEWS, reply, status)
  asked = check(REVIEW.format('author'), exact_match='x')
  with pytest.raises(EnvError, match=words):
    evaluate(Page(), asked, urls={'shopping': rest.server.url})


@pytest.mark.parametrize(
    'reply,end',
    [
        ({'items': [{'increment_id': '000000189'}]}, '/order_id/189/'),
        ({'items': []}, None),
        ({'items': [{'increment_id': 'x'}]}, None),
    ],
)
def test_the_latest_order(rest, reply, end):
  rest.reply('/rest/V1/orders', reply)

  async def ask():
    async with aiohttp.ClientSession() as session:
      shop = helpers.Shop({'shopping': rest.server.url}, session)
      return await helpers.address(ORDER, shop, '')

  if end is None:
    with pytest.raises(EnvError, match='the shop has no such record'):
      asyncio.run(ask())
  else:
    assert asyncio.run(ask()) == f'{rest.server.url}/sales/order/view{end}'


def test_without_a_shop_the_variable_is_named():
  asked = check(REVIEW.format('author'), exact_match='x')
  with pytest.raises(EnvError, match='SHOPPING is not set'):
    evaluate(Page(), asked, urls={'reddit': 'http://x.test'})
