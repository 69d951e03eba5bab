"""Tests for agentrl.http.thread."""

import gc
import socket
import urllib.request

import pytest
from aiohttp import web

from agentrl.http.thread import HttpThread


def app():
  async def answer(request):
    return web.Response(text='here')

  app = web.Application()
  app.router.add_get('/', answer)
  app.router.add_post('/', answer)
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


def test_a_body_that_never_ends_does_not_outlive_the_stop(caplog):
  thread = HttpThread(app())
  port = thread.start('127.0.0.1', 0)
  with socket.create_connection(('127.0.0.1', port), timeout=60) as client:
    client.sendall(
        b'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nbegun'
    )
    assert b'200 OK' in client.recv(1 << 16)  # the rest is not waited for
    thread.stop()
  gc.collect()
  assert not caplog.records  # as of a task that was destroyed
