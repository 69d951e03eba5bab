"""Tests for the hosts of the sites."""

import asyncio
import json

import pytest
from aiohttp import web

from agentrl.envs.webarena.public import sites as sites_lib
from agentrl.errors import ConfigError, EnvError
from tests.envs.web import sites


def probe(*urls, headers=None):
  named = dict(zip(sites_lib.VARIABLES, urls, strict=False))
  asyncio.run(sites_lib.probe(named, headers))


def status(code, **headers):
  async def handler(request):
    del request
    return web.Response(status=code, headers=headers)

  return handler


@pytest.fixture(scope='module')
def server():
  with sites.serving() as found:
    yield found


def test_only_what_is_set_is_there():
  assert sites_lib.from_environment({}) == {}
  found = sites_lib.from_environment(
      {'REDDIT': ' http://X.test:80/ ', 'GITLAB': '', 'SHOPPING_ADMIN':
       'https://x.test:7780/admin/', 'OTHER': 'http://y.test'}
  )  # fmt: skip
  assert found == {
      'shopping_admin': 'https://x.test:7780/admin',
      'reddit': 'http://x.test',
  }


@pytest.mark.parametrize(
    'url',
    [
        'x.test', 'ftp://x.test', 'http://', 'http://ann:pw@x.test',
        'http://x.test?a=1', 'http://x.test/#a', 'http://x.test:99999',
        'http://x y.test', 'http://[x', 'javascript:alert(1)',
    ],
)  # fmt: skip
def test_what_is_no_address_names_the_variable(url):
  with pytest.raises(ConfigError, match='REDDIT must be an address such as'):
    sites_lib.from_environment({'REDDIT': url})


def test_placeholders_are_filled_everywhere():
  value = {'a': ['__MAP__/x', 5], 'b': {'c': '__REDDIT__ or __MAP__'}}
  urls = {'map': 'http://m.test', 'reddit': 'http://r.test'}
  assert sites_lib.fill_all(value, urls) == {
      'a': ['http://m.test/x', 5],
      'b': {'c': 'http://r.test or http://m.test'},
  }


@pytest.mark.parametrize('code', [200, 204, 401, 403, 404])
def test_a_site_that_answers_is_alive(server, code):
  server.pages['/here'] = status(code)
  probe(f'{server.url}/here')


def test_a_redirect_within_a_site_is_followed(server):
  server.pages['/in'] = sites.moved('/in/sign-in')
  server.pages['/in/sign-in'] = 'Sign in'
  probe(f'{server.url}/in')
  assert server.hits[-1] == 'GET /in/sign-in'


@pytest.mark.parametrize(
    'to',
    [
        'http://elsewhere.test:7770/',  # no such host
        'https://127.0.0.1/',
        '//127.0.0.1:1/x',
    ],
)
def test_a_redirect_elsewhere_says_where(server, to):
  server.pages['/out'] = sites.moved('/out/2')
  server.pages['/out/2'] = sites.moved(to)
  with pytest.raises(
      EnvError, match=r'SHOPPING=.*/out leads to http.*: set the variable to'
  ):
    probe(f'{server.url}/out')


def test_a_redirect_to_a_living_site_is_elsewhere_too(server):
  server.pages['/out'] = sites.moved(f'{server.other_url}/')
  with pytest.raises(EnvError, match='leads to http://localhost'):
    probe(f'{server.url}/out')


@pytest.mark.parametrize(
    'page,words',
    [
        (status(500), 'answers with status 500'),
        (status(503), 'answers with status 503'),
        (sites.moved('/bad'), 'redirects more than 10 times'),
        (status(302, Location='http://[x/'), 'does not answer: Invalid IPv6'),
    ],
)
def test_a_broken_site(server, page, words):
  server.pages['/bad'] = page
  with pytest.raises(EnvError, match=f'SHOPPING=http.*/bad {words}'):
    probe(f'{server.url}/bad')


def test_the_dead_one_of_several_is_named(server):
  with sites.serving() as dead:
    url = dead.url
  server.pages['/'] = 'Home'
  probe(server.url, server.url)
  with pytest.raises(EnvError, match=f'SHOPPING_ADMIN={url} does not answer'):
    probe(server.url, url)


def test_a_site_that_never_answers(server, monkeypatch):
  monkeypatch.setattr(sites_lib, '_ANSWER_S', 0.1)
  server.pages['/never'] = sites.never
  with pytest.raises(EnvError, match='/never does not answer: .'):
    probe(f'{server.url}/never')


def test_headers_are_sent(server):
  seen = []

  async def handler(request):
    seen.append(request.headers.get('X-M2-Customer-Auto-Login'))
    return web.Response()

  server.pages['/in'] = handler
  headers = sites_lib.login_headers(
      {'shopping': 'ann:pw', 'reddit': 'bob:pw'}, ['shopping', 'map']
  )
  probe(f'{server.url}/in', headers=headers)
  assert seen == ['ann:pw'] and len(headers) == 1


@pytest.mark.parametrize(
    'accounts,words',
    [
        (
            {'gitlab': 'a:b'},
            "'gitlab' does not sign in by a header; those that",
        ),
        ({'bank': 'a:b'}, "'bank' does not sign in"),
        ({'reddit': 'ann'}, 'account of reddit must be name:password'),
        ({'reddit': 'a:b\r\nX: y'}, 'must be name:password'),
    ],
)
def test_bad_accounts(accounts, words):
  with pytest.raises(ConfigError, match=words):
    sites_lib.login_headers(accounts, accounts)


def test_a_storage_state_is_read(tmp_path):
  path = tmp_path / 'state.json'
  state = {'cookies': [], 'origins': []}
  path.write_text(json.dumps(state))
  assert sites_lib.read_storage_state(str(path)) == state
  for text, words in (
      ('[]', "no storage state of Playwright's"),
      ('{"cookies": 5}', "no storage state of Playwright's"),
      ('x', 'is no JSON file'),
  ):
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
      sites_lib.read_storage_state(str(path))
  with pytest.raises(EnvError, match='cannot be read'):
    sites_lib.read_storage_state(str(tmp_path / 'none'))
