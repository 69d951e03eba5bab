"""Tests for agentrl.http.bodies, over loopback."""

import asyncio
import contextlib
import functools
import gzip
import http.client
import time
import zlib

import aiohttp
import pytest
from aiohttp import web

from agentrl.envs import server
from agentrl.http import bodies

LIMIT = 1000


@contextlib.asynccontextmanager
async def serving():
  """A server that answers with the body it has read; its URL."""

  async def echo(request):
    try:
      return web.Response(body=await bodies.read(request))
    except bodies.Unreadable as error:
      return web.Response(text=str(error), status=error.status)

  app = web.Application(client_max_size=LIMIT)
  app.router.add_post('/', echo)
  runner = web.AppRunner(app, auto_decompress=False, access_log=None)
  await runner.setup()
  try:
    await web.TCPSite(runner, '127.0.0.1', 0).start()
    yield f'http://127.0.0.1:{runner.addresses[0][1]}/'
  finally:
    await runner.cleanup()


def post(body, encoding):
  """Status and body of the answer."""

  async def main():
    async with serving() as url, aiohttp.ClientSession() as session:
      headers = {'Content-Encoding': encoding} if encoding else {}
      async with session.post(url, data=body, headers=headers) as response:
        return response.status, await response.read()

  return asyncio.run(main())


def bare(data):
  stream = zlib.compressobj(wbits=-15)
  return stream.compress(data) + stream.flush()


@pytest.mark.parametrize(
    'encoding, pack',
    [
        (None, bytes),
        ('identity', bytes),
        ('gzip', gzip.compress),
        ('GZIP', gzip.compress),
        ('x-gzip', gzip.compress),
        ('gzip', lambda x: gzip.compress(x[:9]) + gzip.compress(x[9:])),
        ('deflate', zlib.compress),
        ('deflate', bare),
    ],
)
def test_a_body_up_to_the_limit_is_read(encoding, pack):
  body = b'x' * LIMIT
  assert post(pack(body), encoding) == (200, body)
  assert post(pack(body + b'x'), encoding)[0] == 413


# Without the time of compression: names of tests are the same in all processes.
@pytest.mark.parametrize(
    'encoding, body, status, words',
    [
        ('gzip', b'{}', 400, b'no gzip: Not a gzipped file'),
        ('gzip', gzip.compress(b'{}' * 9, mtime=0)[:-9], 400, b'no gzip: '),
        ('gzip', gzip.compress(b'{}', mtime=0) + b'junk', 400, b'no gzip: '),
        ('deflate', b'{}', 400, b'no deflate: '),
        (
            'deflate',
            zlib.compress(b'{}' * 99)[:-9],
            400,
            b'no deflate: it ends',
        ),
        ('br', b'{}', 415, b"'br'; send it plain, or as gzip or deflate"),
        ('zstd', b'{}', 415, b"'zstd'"),
        ('gzip, gzip', gzip.compress(b'', mtime=0), 415, b"'gzip, gzip'"),
        ('klingon', b'{}', 415, b"'klingon'"),
    ],
)
def test_a_broken_or_unknown_encoding_is_refused(encoding, body, status, words):
  found, text = post(body, encoding)
  assert found == status
  assert words in text and text.count(b'\n') == 0


@functools.cache
def bomb(encoding):
  """Some 300 kB that decompress to 300 MB."""
  if encoding == 'gzip members':
    return gzip.compress(b'0' * 2**22) * 75
  stream = zlib.compressobj(wbits={'gzip': 31, 'deflate': 15}[encoding])
  parts = [stream.compress(b'0' * 2**22) for _ in range(75)]
  return b''.join(parts) + stream.flush()


@pytest.mark.parametrize('encoding', ['gzip', 'deflate', 'gzip members'])
def test_a_bomb_does_not_hold_an_environment_server_up(encoding):
  """Nor after its refusal: 2 s at the time when aiohttp went on reading."""

  def explode(url):
    connection = http.client.HTTPConnection(url.removeprefix('http://'))
    headers = {'Content-Encoding': encoding.split()[0]}
    connection.request('POST', '/create', bomb(encoding), headers)
    first = connection.getresponse().status
    connection.close()
    connection.request('POST', '/reset', bomb(encoding), headers)
    return first, connection.getresponse().status

  async def main():
    gaps, last = [], time.monotonic()
    async with server.running('textcraft') as url:
      sending = asyncio.create_task(asyncio.to_thread(explode, url))
      end = time.monotonic() + 1
      while not sending.done() or time.monotonic() < end:
        await asyncio.sleep(0.005)
        gaps.append(time.monotonic() - last)
        last = time.monotonic()
      assert (await sending)[1] == 413
    # The loop's own start is in the first.
    return max(gaps[1:])

  assert asyncio.run(main()) < 0.7
