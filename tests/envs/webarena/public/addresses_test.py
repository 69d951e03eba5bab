"""Tests for addresses as webarena-verified compares them."""

import base64

import pytest
from hypothesis import example, given, strategies as st

from agentrl.envs.webarena.public import addresses
from agentrl.envs.webarena.public.addresses import Places, Rules
from tests.envs.webarena.public.traces import URLS

PLACES = Places(URLS)
FORUM = URLS['reddit']
NO_RULES = Rules()


def parse(text, rules=NO_RULES, *, expected=False, **others):
  return addresses.parse(text, PLACES, rules, expected=expected, **others)


@pytest.mark.parametrize(
    'url,canonical',
    [
        ('http://X.test:80/a', 'http://x.test/a'),
        ('HTTPS://x.test:443', 'https://x.test/'),
        ('http:///x.test/a', 'http://x.test/a'),
        ('//x.test/a', 'https://x.test/a'),
        ('x.test', 'https://x.test/'),
        ('http://x.test/a/./b/../c//d/', 'http://x.test/a/c/d/'),
        ('http://x.test/../a', 'http://x.test/a'),
        ('http://x.test/a%7Eb c', 'http://x.test/a~b%20c'),
        ('http://x.test/?b=1&&a=%32', 'http://x.test/?b=1&a=2'),
        ('http://x.test/?a=', 'http://x.test/?a'),
        ('http://x.test/a?', 'http://x.test/a'),
        ('http://x.test/#!a', 'http://x.test/?_escaped_fragment_=a'),
        ('http://x.test:0123/', 'http://x.test:123/'),
        ('http://bücher.test/', 'http://xn--bcher-kva.test/'),
        ('http://ann@x.test/', 'http://ann@x.test/'),
        ('/a/b', '/a/b'),
    ],
)
def test_canonical(url, canonical):
  assert addresses.canonical(url) == canonical
  assert addresses.canonical(canonical) == canonical


@given(st.text(st.sampled_from('/.ab%:?#&=@[]!\u00e9 '), max_size=20))
@example('??=')
def test_canonical_gives_one_form_or_a_value_error(rest):
  try:
    once = addresses.canonical(f'http://x.test/{rest}')
  except ValueError:
    return
  # A second '#!' is a query of its own; '?' and '&' at an end are cut off.
  if '#!' not in rest and not once.endswith(('?', '&')):
    assert addresses.canonical(once) == once


@pytest.mark.parametrize(
    'one,other,equal',
    [
        (f'{FORUM}/f/books', '__REDDIT__/f/books', True),
        (f'{FORUM}/f/books/', '__REDDIT__/F/Books', True),
        (f'{FORUM}/f/books?a=1', '__REDDIT__/f/books?a=2', True),
        (f'{FORUM}/f/books', '__REDDIT__/f/book', False),
        (f'{FORUM}/f/books', '__GITLAB__/f/books', False),
        (f'{URLS["shopping_admin"]}/sales', '__SHOPPING_ADMIN__/sales', True),
        ('git@host.test:ann/x.git', 'ssh://git@other.test/ann/x.git', True),
        ('git@host.test:ann/x.git', 'git@host.test:ann/y.git', False),
    ],
)
def test_bases(one, other, equal):
  a, b = parse(other, expected=True), parse(one)
  assert addresses.same_base(a, b, PLACES) is equal


@pytest.mark.parametrize(
    'pattern,url,match',
    [
        ('^__REDDIT__/f/.*$', f'{FORUM}/f/books', True),
        ('^__REDDIT__/f/.*$', f'{FORUM}/g/books', False),
        ('^.*/route/v1/.*$', f'{URLS["map"]}/car/route/v1/x', True),
        ('^.*/route/v1/.*$', 'http://elsewhere.test/route/v1/x', True),
        # Its end counts.
        ('^__REDDIT__/f$', f'{FORUM}/f/books', False),
    ],
)
def test_patterns_are_the_tasks(pattern, url, match):
  expected = parse(pattern, expected=True)
  assert expected.pattern
  assert addresses.same_base(expected, parse(url), PLACES) is match
  assert not parse(pattern.replace('^', 'x')).pattern


def test_a_query_has_one_form_and_its_rules():
  found = parse(f'{FORUM}/?B=Two&a=2&a=1&page=3&_x=1&empty=')
  assert found.query == {
      'B': ('two',),
      'a': ('1', '2'),
      'page': ('3',),
      '_x': ('1',),
      'empty': ('',),
  }
  rules = Rules(ignored=('page',), patterns=('^_', '^EMPTY$'))
  found = parse(f'{FORUM}/?B=Two&a=2&page=3&_x=1&empty=', rules)
  assert found.query.keys() == {'B', 'a'}
  assert parse(f'{FORUM}/?a=1', query={'b': ['X ']}).query == {'b': ('x',)}


def test_a_query_in_base64_is_read_where_the_task_says_so():
  code = base64.urlsafe_b64encode(b'a=1&b=%32').decode().rstrip('=')
  url = f'{FORUM}/filter/{code}/list?c=3'
  plain = parse(url)
  assert code in plain.base and plain.query == {'c': ('3',)}
  found = parse(url, Rules(base64=True))
  assert addresses.same_base(parse(f'{FORUM}/filter/list'), found, PLACES)
  assert found.query == {'a': ('1',), 'b': ('2',), 'c': ('3',)}
  # A word that only looks like it stays.
  assert parse(f'{FORUM}/books/', Rules(base64=True)).base.endswith('/books')


@pytest.mark.parametrize(
    'text,expected,words',
    [
        (' ', False, 'empty'),
        ('__UNKNOWN__/a', False, 'on none of'),
        ('http://elsewhere.test/a', True, 'on none of'),
        ('http://[x/', False, 'IPv6'),
    ],
)
def test_what_is_no_address_is_refused(text, expected, words):
  with pytest.raises(ValueError, match=words):
    parse(text, expected=expected)


@given(st.sampled_from(sorted(URLS)), st.sampled_from(['', '/', '/a/b?c=d']))
def test_placeholders_and_urls_are_two_names(site, rest):
  text = addresses.placeholder(site) + rest
  url = PLACES.rendered(text)
  assert url == URLS[site] + rest
  assert PLACES.derendered(url) == text


def test_a_url_may_be_the_beginning_of_another():
  urls = {'shopping': 'http://x.test', 'shopping_admin': 'http://x.test/admin'}
  for order in (urls, dict(reversed(urls.items()))):
    places = Places(order)
    for path, name in (
        ('/admin/a', 'SHOPPING_ADMIN__/a'),
        ('/a', 'SHOPPING__/a'),
    ):
      assert places.derendered(f'http://x.test{path}') == f'__{name}'
