r"""The viewer's server: pages from static/ and JSON under /api/.

    python -m agentrl.viewer.server --root=runs --port=7000

prints one line with the link when it is ready. SIGTERM and SIGINT end it; so
does, with --exit_with_parent, the end of its standard input.
"""

import argparse
import asyncio
import contextlib
import pathlib
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Sequence

from aiohttp import web

from agentrl.errors import AgentrlError, DataError, EnvError
from agentrl.evaluation.workdirs import files, panels, run_facts
from agentrl.http import addresses, auth, bodies, errors
from agentrl.runtime import parent
from agentrl.viewer import (
    arms,
    compare,
    episode,
    episodes,
    events,
    export,
    failures,
    groups,
    guard,
    matrix,
    play,
    replay,
    runs,
    study,
    tasks,
    timeline,
    tokens,
)
from agentrl.viewer.index import Index
from agentrl.viewer.state import STATE, State

STATIC = pathlib.Path(__file__).parent / 'static'
# Modules of the viewer and their routes, all below /api/.
ROUTES = (
    arms.routes,
    episode.routes,
    episodes.routes,
    events.routes,
    export.routes,
    groups.routes,
    play.routes,
    replay.routes,
    compare.routes,
    failures.routes,
    matrix.routes,
    runs.routes,
    study.routes,
    tasks.routes,
    timeline.routes,
    tokens.routes,
)  # fmt: skip
# Until a server that hangs is left behind.
_SHUTDOWN_S = 5.0
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


def make_app(
    root: pathlib.Path,
    *,
    host: str = '127.0.0.1',
    token: str | None = None,
    environments: Sequence[str] = (),
    samplers: Sequence[str] = (),
    sampler_key: str | None = None,
) -> web.Application:
  """The application that shows the runs below a folder.

  Args:
    root: the folder.
    host: that the server will listen on.
    token: that requests must have; None: none.
    environments: of somebody's own, that may be imported and started.
    samplers: URLs of servers that live play may ask.
    sampler_key: their API key; it stays here.
  """
  app = web.Application(
      middlewares=[
          errors.middleware(_answer, lambda response: None),
          guard.middleware(host, token),
      ]
  )
  app[STATE] = State(root.resolve(), Index(root.resolve()))
  app.cleanup_ctx.append(_indexing)
  app[tokens.SOURCES] = tokens.Sources()
  replay.install(app, environments)
  play.install(app, samplers, sampler_key)
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
  if isinstance(error, web.HTTPException):
    if error.status < 400 or not request.path.startswith('/api/'):
      raise error
    words = (error.text or error.reason).strip()
    return web.json_response({'error': words}, status=error.status)
  if isinstance(error, bodies.Unreadable):
    return web.json_response({'error': str(error)}, status=error.status)
  if isinstance(error, RecursionError):
    words = 'This is JSON nested too deeply to be shown.'
    return web.json_response({'error': words}, status=422)
  if isinstance(error, OSError) and not isinstance(error, ConnectionError):
    words = f'A file of this run cannot be read: {error.strerror}.'
    return web.json_response({'error': words}, status=422)
  if isinstance(error, files.Missing):
    return web.json_response({'error': str(error)}, status=404)
  if isinstance(error, DataError):
    return web.json_response({'error': str(error)}, status=422)
  if isinstance(error, AgentrlError):
    return web.json_response({'error': str(error)}, status=400)
  if isinstance(error, sqlite3.OperationalError):  # locked, a full disk
    words = f'The index cannot be read just now: {error}.'
    return web.json_response({'error': words}, status=503)
  raise error


async def _indexing(app: web.Application) -> AsyncIterator[None]:
  """Keeps the index up to date while the server runs."""
  state = app[STATE]
  running_tasks = [
      asyncio.create_task(work) for work in (state.index.follow(), _warm(state))
  ]
  yield
  for task in running_tasks:
    task.cancel()
  await asyncio.gather(*running_tasks, return_exceptions=True)
  await asyncio.to_thread(app[STATE].index.close)


async def _warm(state: State) -> None:
  """Reads of all runs what their lists show, before somebody asks for it.

  Of thousands that takes seconds once, and nothing while they are as they are.
  """
  await state.index.ready()
  names = await state.runs()

  def read() -> None:
    for name in names:
      run_facts.read(state.root, name)
      panels.find(state.root, name)

  await asyncio.to_thread(read)
  await arms.grouped(state, ())


@contextlib.asynccontextmanager
async def running(
    root: pathlib.Path,
    *,
    host: str = '127.0.0.1',
    port: int = 0,
    token_file: str | None = None,
    environments: Sequence[str] = (),
    samplers: Sequence[str] = (),
    sampler_key_file: str | None = None,
) -> AsyncIterator[str]:
  """Serves inside the block, and gives the link to open.

  Args:
    root: folder of runs.
    host: address to listen on; beyond loopback, the link has a token.
    port: 0: a free one.
    token_file: file with the token; None: a new one, where one is needed.
    environments: of somebody's own, that may be imported and started.
    samplers: URLs of servers that live play may ask.
    sampler_key_file: file with their API key; None: none.

  Raises:
    ConfigError: the token file cannot be read.
    EnvError: the port cannot be had, or no index can be written.
  """
  token = guard.token_for(host, token_file)
  key = None if sampler_key_file is None else auth.read_token(sampler_key_file)
  app = make_app(
      root,
      host=host,
      token=token,
      environments=environments,
      samplers=samplers,
      sampler_key=key,
  )
  # An event stream never ends by itself.
  runner = web.AppRunner(
      app,
      auto_decompress=False,  # see `http.bodies`
      access_log=None,
      shutdown_timeout=0.5,
  )
  await runner.setup()
  try:
    site = web.TCPSite(runner, host, port)
    try:
      await site.start()
    except OSError as error:
      raise EnvError(
          f'Cannot serve on {addresses.listening(host, port)}: {error}'
      ) from error
    query = f'?token={token}' if token else ''
    yield f'{addresses.base_url(host, runner.addresses[0][1])}/{query}'
  finally:
    await runner.cleanup()


async def serve(
    root: pathlib.Path, *, exit_with_parent: bool = False, **settings
) -> None:
  """Serves until SIGTERM or SIGINT; prints the link when ready.

  Args:
    root: folder of runs.
    exit_with_parent: whether to end with standard input, too.
    **settings: as `running` has them.

  Raises:
    AgentrlError: the port or the token file cannot be used.
  """
  loop, stop = asyncio.get_running_loop(), asyncio.Event()
  for number in (signal.SIGTERM, signal.SIGINT):
    loop.add_signal_handler(number, stop.set)
  if exit_with_parent:
    parent.watch(loop, stop.set, _SHUTDOWN_S)
  async with running(root, **settings) as link:
    print(f'Showing {root}: {link}', flush=True)
    await stop.wait()


def main(argv: Sequence[str] | None = None) -> int:
  """Runs a server from the command line; returns its exit code."""
  parser = argparse.ArgumentParser(
      prog='python -m agentrl.viewer.server',
      description='Shows the runs below a folder.',
  )
  parser.add_argument('--root', required=True, type=pathlib.Path)
  parser.add_argument('--host', default='127.0.0.1')
  parser.add_argument('--port', type=int, default=0)
  parser.add_argument('--token_file')
  parser.add_argument('--exit_with_parent', action='store_true')
  args = vars(parser.parse_args(argv))
  try:
    asyncio.run(serve(args.pop('root'), **args))
  except AgentrlError as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  return 0


if __name__ == '__main__':
  sys.exit(main())
