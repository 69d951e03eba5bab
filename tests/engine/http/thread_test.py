"""Tests for agentrl.engine.http.thread."""

import urllib.request

import pytest
from aiohttp import web

from agentrl.engine.http.thread import HttpThread


def app():
  async def answer(request):
    return web.Response(text='here')

  app = web.Application()
  app.router.add_get('/', answer)
  return app


def test_an_application_is_served_until_the_stop():
  thread = HttpThread(app())
  url = f'http://127.0.0.1:{thread.start("127.0.0.1", 0)}/'
  assert urllib.request.urlopen(url, timeout=60).read() == b'here'
  thread.stop()
  with pytest.raises(OSError):
    urllib.request.urlopen(url, timeout=60)


def test_a_port_in_use_is_raised_where_it_was_asked_for():
  first, second = HttpThread(app()), HttpThread(app())
  port = first.start('127.0.0.1', 0)
  try:
    with pytest.raises(OSError, match='in use'):
      second.start('127.0.0.1', port)
    with pytest.raises(OverflowError):
      HttpThread(app()).start('127.0.0.1', 2**16)
  finally:
    first.stop()
