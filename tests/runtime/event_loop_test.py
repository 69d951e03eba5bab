"""Tests for agentrl.runtime.event_loop, against a server on loopback."""

import asyncio
import queue
import threading
import time

from aiohttp import web

from agentrl.runtime import event_loop
from agentrl.runtime.event_loop import EventLoop


def serve(started):
  """A server that hangs up after a moment; its URL goes to `started`."""

  async def main():
    app = web.Application()
    app.router.add_post('/', answer)
    runner = web.AppRunner(app, keepalive_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, '127.0.0.1', 0).start()
    end = asyncio.Event()
    started.put((runner.addresses[0][1], asyncio.get_running_loop(), end))
    await end.wait()
    await runner.cleanup()

  async def answer(request):
    return web.Response(text='yes')

  asyncio.run(main())


def test_a_server_may_hang_up_while_the_loop_stands_still(monkeypatch):
  monkeypatch.setattr(event_loop, 'KEEP_ALIVE_S', 0.1)
  started = queue.Queue()
  thread = threading.Thread(target=serve, args=(started,))
  thread.start()
  port, loop, end = started.get(timeout=60)
  try:
    with EventLoop() as host:

      async def post():
        async with host.session.post(f'http://127.0.0.1:{port}/') as response:
          return await response.text()

      for _ in range(3):
        assert host.run(post()) == 'yes'
        time.sleep(1)  # an update
  finally:
    loop.call_soon_threadsafe(end.set)
    thread.join()
