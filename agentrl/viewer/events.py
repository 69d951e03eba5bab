"""Server-sent events about what runs still write."""

import asyncio
import contextlib
import json

from aiohttp import web

from agentrl.viewer.state import STATE

_ALIVE_S = 15.0


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  return [web.get('/api/events', _events)]


async def _events(request: web.Request) -> web.StreamResponse:
  """GET /api/events: an event `change` after each change of the files.

  The first comes at once, so that nothing is missed in between.
  """
  response = web.StreamResponse(
      headers={'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache'}
  )
  await response.prepare(request)
  index, changes = request.app[STATE].index, -1
  with contextlib.suppress(ConnectionError):  # the page was closed
    while True:
      try:
        changes = await asyncio.wait_for(index.wait(changes), _ALIVE_S)
      except TimeoutError:
        await response.write(b': nothing new\n\n')  # is the page still there?
        continue
      data = json.dumps({'changes': changes, 'indexed': index.progress})
      await response.write(f'event: change\ndata: {data}\n\n'.encode())
  return response
