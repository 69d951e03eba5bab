"""Tests for agentrl.envs.requests: what servers are asked and cannot do."""

import asyncio
import gzip
import logging
import re

import aiohttp
import pytest

from agentrl.envs import server


def ask(body, env_name='textcraft', **options):
  """Runs `body(session, url)` against a server of ours."""

  async def main():
    async with (
        server.running(env_name, **options) as url,
        aiohttp.ClientSession(url) as session,
    ):
      await body(session, url)

  asyncio.run(main())


async def send(url, content, *, wait=True):
  """The whole answer to these bytes; without `wait` we hang up at once."""
  host, port = url.removeprefix('http://').split(':')
  reader, writer = await asyncio.open_connection(host, int(port))
  writer.write(content)
  await writer.drain()
  answer = await asyncio.wait_for(reader.read(), 20) if wait else b''
  writer.close()
  return answer


GZIPPED = {'Content-Encoding': 'gzip'}


@pytest.mark.parametrize(
    'content, status, words',
    [
        (b'[' * 10**5 + b']' * 10**5, 400, 'nested too deeply'),
        (b'{"id": ' * 10**4, 400, 'nested too deeply'),
        (b'{"id": %s}' % (b'1' * 5000), 400, 'not JSON: Exceeds the limit'),
        (b'{"id": %s}' % (b'1' * 400), 422, '"id" must be an integer of 64'),
        (b'{"id": 1.0}', 422, '"id" must be an integer, got 1.0'),
        (b'{"id": 0, "data_idx": 1%s}' % (b'0' * 99), 422, '"data_idx" must'),
        (b'{"id": 0, "seed": 1%s}' % (b'0' * 99), 422, '"seed" must'),
        (b'\xff\xfe\xff', 400, 'not JSON'),
        ((GZIPPED, b'{}'), 400, 'cannot be read: .*gzip'),
        ((GZIPPED, gzip.compress(b' ' * 10**8)), 413, 'more than 262144'),
    ],
)
def test_a_body_that_cannot_be_used_is_refused_in_a_line(
    content, status, words, caplog
):
  caplog.set_level(logging.DEBUG)
  headers, content = content if isinstance(content, tuple) else ({}, content)

  async def body(session, url):
    await session.post('/create')
    async with session.post('/reset', data=content, headers=headers) as reply:
      assert reply.status == status
      error = (await reply.json())['error']
    assert re.search(words, error) and len(error) < 400
    # The next request is answered, on whatever connection it comes.
    async with session.post('/reset', json={'id': 0}) as reply:
      assert reply.status == 200

  ask(body)
  assert 'Traceback' not in caplog.text


@pytest.mark.parametrize('number', ['٣', '٠', '²', '1' * 5000, '-1', '1.0', ''])
def test_a_number_of_a_query_is_ascii_and_short(number):
  async def body(session, url):
    for _ in range(4):
      await session.post('/create')
    async with session.get('/observation', params={'id': number}) as reply:
      assert reply.status == 422
      assert '"id" must be a number' in (await reply.json())['error']

  ask(body)


def test_a_token_that_is_no_text_is_wrong(tmp_path):
  (tmp_path / 'token').write_text('secret')

  async def body(session, url):
    request = b'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n'
    answer = await send(url, request + b'Authorization: Bearer \xff\r\n\r\n')
    assert answer.startswith(b'HTTP/1.1 401 ')

  ask(body, token_file=str(tmp_path / 'token'))


@pytest.mark.parametrize(
    'content',
    [
        b'POST /step HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"id"',
        b'POST /step HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"i',
        b'POST /step HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}',
        b'POST /step HTTP/1.1\r\nContent-Length: -5\r\n\r\n{}',
        b'GET / HTTP/1.1\r\nX: ' + b'a' * 10**5 + b'\r\n\r\n',
        b'GET http://[::1/ HTTP/1.1\r\nHost: x\r\n\r\n',
        b'FOO / HTTP/1.1\r\n\r\n',
        b'\x00\xff\xfe\r\n\r\n',
        b'',
    ],
)
def test_a_client_that_hangs_up_or_speaks_no_http_leaves_no_traceback(
    content, caplog
):
  caplog.set_level(logging.DEBUG)

  async def body(session, url):
    await send(url, content, wait=False)
    await asyncio.sleep(0.1)
    async with session.get('/health') as reply:
      assert (await reply.json())['status'] == 'ok'

  ask(body)
  assert 'Traceback' not in caplog.text and ' failed' not in caplog.text
