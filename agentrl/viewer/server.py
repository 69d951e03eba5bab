"""The viewer's server: pages from static/ and JSON under /api/."""

import asyncio
import contextlib
import pathlib
import signal
from collections.abc import AsyncIterator

from aiohttp import web

from agentrl.errors import AgentrlError, DataError, EnvError
from agentrl.http import errors
from agentrl.viewer import (
    compare,
    episode,
    episodes,
    events,
    export,
    failures,
    files,
    groups,
    replay,
    runs,
    tokens,
)
from agentrl.viewer.index import Index
from agentrl.viewer.state import STATE, State

STATIC = pathlib.Path(__file__).parent / 'static'
# A module of the viewer -> its routes, all below /api/.
ROUTES = (
    episode.routes,
    episodes.routes,
    events.routes,
    export.routes,
    groups.routes,
    replay.routes,
    compare.routes,
    failures.routes,
    runs.routes,
    tokens.routes,
)  # fmt: skip
# Nothing from elsewhere, nothing inline, and no frame around a page.
_POLICY = '; '.join((
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data: blob:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
))
_HEADERS = {
    'Content-Security-Policy': _POLICY,
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'no-referrer',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cache-Control': 'no-cache',
}


def make_app(root: pathlib.Path) -> web.Application:
  """The application that shows the runs below a folder."""
  app = web.Application(
      middlewares=[errors.middleware(_answer, lambda response: None)]
  )
  app[STATE] = State(root.resolve(), Index(root.resolve()))
  app.cleanup_ctx.append(_indexing)
  app.cleanup_ctx.append(replay.context)
  app[tokens.SOURCES] = tokens.Sources()
  app.on_response_prepare.append(_add_headers)
  for routes in ROUTES:
    app.add_routes(routes())
  app.router.add_get('/', _index_page)
  app.router.add_static('/static/', STATIC)
  return app


async def _index_page(request: web.Request) -> web.FileResponse:
  del request
  return web.FileResponse(STATIC / 'index.html')


async def _add_headers(
    request: web.Request, response: web.StreamResponse
) -> None:
  del request
  response.headers.update(_HEADERS)


def _answer(request: web.Request, error: Exception) -> web.Response:
  """The response to what a handler raised."""
  del request
  if isinstance(error, web.HTTPException):
    return error
  if isinstance(error, files.Missing):
    return web.json_response({'error': str(error)}, status=404)
  if isinstance(error, DataError):
    return web.json_response({'error': str(error)}, status=422)
  if isinstance(error, AgentrlError):
    return web.json_response({'error': str(error)}, status=400)
  raise error


async def _indexing(app: web.Application) -> AsyncIterator[None]:
  """Keeps the index up to date while the server runs."""
  task = asyncio.create_task(app[STATE].index.follow())
  yield
  task.cancel()
  with contextlib.suppress(asyncio.CancelledError):
    await task
  app[STATE].index.close()


@contextlib.asynccontextmanager
async def running(
    root: pathlib.Path, *, host: str = '127.0.0.1', port: int = 0
) -> AsyncIterator[str]:
  """Serves inside the block, and gives the URL.

  Raises:
    EnvError: the port cannot be had.
  """
  runner = web.AppRunner(make_app(root), access_log=None)
  await runner.setup()
  try:
    site = web.TCPSite(runner, host, port)
    try:
      await site.start()
    except OSError as error:
      raise EnvError(f'Cannot serve on {host}:{port}: {error}') from error
    yield f'http://{host}:{runner.addresses[0][1]}/'
  finally:
    await runner.cleanup()


async def serve(
    root: pathlib.Path, *, host: str, port: int, token_file: str | None = None
) -> None:
  """Serves until SIGTERM or SIGINT; prints the link when ready.

  Raises:
    AgentrlError: the port or the token file cannot be used.
  """
  del token_file
  loop, stop = asyncio.get_running_loop(), asyncio.Event()
  for number in (signal.SIGTERM, signal.SIGINT):
    loop.add_signal_handler(number, stop.set)
  async with running(root, host=host, port=port) as url:
    print(f'Showing {root} at {url}', flush=True)
    await stop.wait()
