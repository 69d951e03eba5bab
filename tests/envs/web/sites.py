"""Servers of small pages, and episodes that visit them."""

import asyncio
import contextlib
import threading

from aiohttp import web

from agentrl.envs.web import commands, page_text
from agentrl.envs.web.tabs import Tabs

CALL_S = 40.0


class Server:
  """Pages on loopback, served from a thread of its own.

  Attributes:
    port: where it listens, on 127.0.0.1.
    hits: method and path of all that was asked for, in order.
    pages: path -> HTML, or a handler of aiohttp's.
  """

  def __init__(self):
    self.pages = {}
    self.hits = []
    self.loop = asyncio.new_event_loop()
    self._runner = None
    self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
    self._thread.start()
    self.port = self.run(self._start())

  @property
  def url(self):
    return f'http://127.0.0.1:{self.port}'

  @property
  def other_url(self):
    """The same server as another site, of which Chromium shares nothing."""
    return f'http://localhost:{self.port}'

  def run(self, coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

  def close(self):
    self.run(self._stop())
    self.loop.call_soon_threadsafe(self.loop.stop)
    self._thread.join()
    self.loop.close()

  async def _start(self):
    app = web.Application()
    app.router.add_route('*', '/{path:.*}', self._answer)
    # What never answers must not keep the server from closing.
    self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await self._runner.setup()
    place = web.TCPSite(self._runner, '127.0.0.1', 0)
    await place.start()
    return self._runner.addresses[0][1]

  async def _stop(self):
    await self._runner.cleanup()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:  # of requests that are never answered
      task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

  async def _answer(self, request):
    self.hits.append(f'{request.method} {request.path}')
    page = self.pages.get(request.path)
    if page is None:
      return web.Response(status=404, text='There is no such page.')
    if isinstance(page, str):
      return answer(page)
    return await page(request)


def answer(page, **options):
  """A response that no cache keeps."""
  return web.Response(
      text=page,
      content_type='text/html',
      charset='utf-8',
      headers={'Cache-Control': 'no-store', **options},
  )


def late(seconds, page):
  """A handler that answers after so long."""

  async def handler(request):
    del request
    await asyncio.sleep(seconds)
    return answer(page)

  return handler


async def never(request):
  del request
  await asyncio.sleep(600)


def moved(to):
  """A handler that redirects."""

  async def handler(request):
    del request
    raise web.HTTPFound(to)

  return handler


class Episode:
  """`Tabs`, called as an environment does."""

  def __init__(self, browser, hosts, observe='page'):
    self.browser, self.observe = browser, observe
    self.tabs = Tabs(browser, hosts, 480, 320)
    self.view = None

  def open(self, url):
    self.call(self.tabs.open(url))
    return self.look()

  def look(self):
    self.view = self.call(self.tabs.view(self.observe))
    return self.text

  def do(self, command, timeout_s=CALL_S):
    """Does a command as a policy writes it; returns what is seen then."""
    self.call(self.tabs.do(commands.parse(command)), timeout_s)
    return self.look()

  def click(self, name, role=None):
    return self.do(f'click [{self.number(name, role)}]')

  def type(self, name, text, enter=0):
    return self.do(f'type [{self.number(name)}] [{text}] [{enter}]')

  def number(self, name, role=None):
    """The number of the element of this name."""
    found = [
        node.number
        for node in self.view.nodes
        if node.name == name and role in (None, node.role)
    ]
    assert found, f'{name!r} is not in\n{self.text}'
    return found[0]

  def node(self, name):
    return self.view.nodes[self.number(name) - 1]

  def script(self, source):
    """The value of a JavaScript expression in the current tab."""
    return self.call(self.tabs.page.evaluate(source))

  def call(self, coroutine, timeout_s=CALL_S):
    return self.browser.call(coroutine, timeout_s)

  @property
  def text(self):
    return page_text.tree(self.view.nodes)

  @property
  def notes(self):
    return '\n'.join(self.view.notes)

  def close(self):
    self.tabs.close()


@contextlib.contextmanager
def serving(**pages):
  """A server of pages, by their names."""
  server = Server()
  server.pages.update({f'/{name}': page for name, page in pages.items()})
  try:
    yield server
  finally:
    server.close()
