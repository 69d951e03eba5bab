"""Tests of who is answered: hosts, origins, tokens, headers."""

import asyncio
import json

import aiohttp
import pytest

from agentrl.errors import ConfigError
from agentrl.viewer import guard, server
from tests.viewer import runs


def ask(root, path='/', headers=None, host='127.0.0.1', token=None):
  """Status, headers and body of one request, without following a redirect."""

  async def main():
    async with server.running(root, host=host, token_file=token) as link:
      url, _, query = link.partition('?')
      made = {
          k: v.replace('HERE', url.split('/')[2])
          for k, v in (headers or {}).items()
      }
      path_ = path.replace('TOKEN', query.partition('=')[2])
      if host == '0.0.0.0':
        url = url.replace('0.0.0.0', '127.0.0.1')
      async with aiohttp.ClientSession() as session:
        async with session.get(
            url + path_.lstrip('/'), headers=made, allow_redirects=False
        ) as response:
          return response.status, response.headers, await response.text()

  return asyncio.run(main())


@pytest.mark.parametrize(
    'headers, status',
    [
        ({}, 200),
        ({'Host': 'localhost:1'}, 200),  # as an SSH tunnel has it
        ({'Host': '[::1]:8000'}, 200),
        ({'Host': 'evil.example'}, 403),  # DNS rebinding
        ({'Host': '127.0.0.1.evil.example'}, 403),
        ({'Host': '127.0.0.1@evil.example'}, 403),
        ({'Host': '192.168.1.5:80'}, 403),
        ({'Host': ''}, 403),
        ({'Origin': 'http://HERE'}, 200),
        ({'Origin': 'http://127.0.0.1:1'}, 403),  # another server here
        ({'Origin': 'https://evil.example'}, 403),
        ({'Origin': 'null'}, 403),
        ({'Sec-Fetch-Site': 'same-origin'}, 200),
        ({'Sec-Fetch-Site': 'cross-site'}, 403),
        ({'Sec-Fetch-Site': 'same-site'}, 403),
    ],
)
def test_hosts_and_origins(tmp_path, headers, status):
  assert ask(tmp_path, '/api/episodes', headers)[0] == status


def test_every_answer_has_the_policy(tmp_path):
  for path in ('/', '/static/app.js', '/api/episodes', '/none', '/api/text'):
    _, headers, _ = ask(tmp_path, path)
    policy = headers['Content-Security-Policy']
    assert "default-src 'none'" in policy and 'unsafe' not in policy
    assert headers['X-Content-Type-Options'] == 'nosniff'
  _, headers, _ = ask(tmp_path, '/', {'Host': 'evil.example'})
  assert 'Content-Security-Policy' in headers


def test_loopback_needs_no_token():
  assert guard.token_for('127.0.0.1', None) is None
  assert guard.token_for('localhost', None) is None
  assert guard.token_for('::1', None) is None
  first = guard.token_for('0.0.0.0', None)
  assert len(first) > 30 and first != guard.token_for('0.0.0.0', None)


def test_elsewhere_a_token_is_required(tmp_path):
  elsewhere = dict(host='0.0.0.0')
  for path in ('/', '/api/episodes', '/static/app.js', '/?token=wrong'):
    status, _, text = ask(tmp_path, path, **elsewhere)
    assert status == 401 and 'the viewer printed' in text
  status, headers, _ = ask(tmp_path, '/?token=TOKEN', **elsewhere)
  assert status == 303 and headers['Location'] == '/'
  cookie = headers['Set-Cookie']
  assert 'HttpOnly' in cookie and 'SameSite=Strict' in cookie


def test_a_token_of_a_file(tmp_path):
  file = tmp_path / 'token'
  file.write_text('secret-token\n')
  root = tmp_path / 'runs'
  root.mkdir()
  get = lambda **headers: ask(root, '/api/episodes', headers, token=str(file))
  assert get()[0] == 401
  assert get(Authorization='Bearer secret-token')[0] == 200
  assert get(Authorization='Bearer secret')[0] == 401
  with pytest.raises(ConfigError, match='token file'):
    ask(root, token=str(tmp_path / 'none'))


def test_the_cookie_opens_it(tmp_path):
  async def main():
    async with server.running(tmp_path, host='0.0.0.0') as link:
      link = link.replace('0.0.0.0', '127.0.0.1')
      # Cookies of an address are not kept otherwise.
      jar = aiohttp.CookieJar(unsafe=True)
      async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.get(link) as response:
          assert response.status == 200
          assert 'token' not in str(response.url)
        url = link.partition('?')[0]
        async with session.get(f'{url}api/episodes') as response:
          assert response.status == 200

  asyncio.run(main())


@pytest.mark.parametrize(
    'path, status',
    [
        ('/static/../server.py', 404),
        ('/static/%2e%2e/server.py', 404),
        ('/static/..%2fserver.py', 404),
        ('/api/text?run=..&file=secret&line=0', 404),
        ('/api/turns?run=run&file=../secret&line=0', 404),
        ('/api/turns?run=run&file=episodes/train/000000.jsonl&line=9', 404),
        ('/api/turns?run=run&file=episodes/train/000000.jsonl&line=x', 404),
    ],
)
def test_no_way_out(tmp_path, path, status):
  (tmp_path / 'secret').write_text('s')
  runs.write(tmp_path / 'root')
  found, _, text = ask(tmp_path / 'root', path)
  assert found in (status, 403)
  if path.startswith('/api'):
    assert 'There is no' in json.loads(text)['error']
