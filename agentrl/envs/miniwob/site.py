"""The pages of the miniwob wheel, served on loopback to the browser alone."""

import importlib.util
import pathlib
import socket

from aiohttp import web

from agentrl import shipped
from agentrl.envs.web import serving
from agentrl.errors import EnvError

ORIGIN = 'http://miniwob'  # as policies see it


def folder() -> pathlib.Path:
  """The wheel's HTML files.

  Raises:
    EnvError: the wheel is missing.
  """
  spec = importlib.util.find_spec('miniwob')  # its import would want selenium
  places = spec.submodule_search_locations if spec else None
  for place in places or ():
    path = pathlib.Path(place) / 'html'
    if path.is_dir():
      return path
  raise EnvError(
      'MiniWoB needs the pages of the miniwob wheel: pip install --no-deps -r'
      f' {shipped.requirements("data")}'
  )


def path_of(page: str) -> str:
  """The path of a page on the site."""
  if page.startswith('flight.'):
    return f'/{page.replace(".", "/")}/wrapper.html'
  return f'/miniwob/{page}.html'


async def _name_charset(
    request: web.Request, response: web.StreamResponse
) -> None:
  """The pages are UTF-8, and do not say so."""
  del request
  if response.content_type == 'text/html':
    response.charset = 'utf-8'


class Site:
  """The server; its methods run in one event loop.

  Args:
    files: see `folder`.
  """

  def __init__(self, files: pathlib.Path):
    self._files = files
    self._socket = socket.create_server(('127.0.0.1', 0))
    self._runner: web.AppRunner | None = None

  @property
  def url(self) -> str:
    return 'http://{}:{}'.format(*self._socket.getsockname())

  async def start(self) -> None:
    app = web.Application()
    app.on_response_prepare.append(_name_charset)
    app.add_routes([web.static('/', self._files)])
    self._runner = serving.runner(app)
    await self._runner.setup()
    await web.SockSite(self._runner, self._socket).start()

  async def stop(self) -> None:
    if self._runner is None:
      self._socket.close()
    else:
      await self._runner.cleanup()
