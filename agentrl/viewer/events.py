"""Server-sent events about what runs still write."""

import contextlib
import json

from aiohttp import web

from agentrl.viewer.state import STATE


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  return [web.get('/api/events', _events)]


async def _events(request: web.Request) -> web.StreamResponse:
  """GET /api/events: an event `change` after each change of the files."""
  response = web.StreamResponse(
      headers={'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache'}
  )
  await response.prepare(request)
  index, changes = request.app[STATE].index, -1
  with contextlib.suppress(ConnectionError):  # the page was closed
    while True:
      changes = await index.wait(changes)
      data = json.dumps({'changes': changes})
      await response.write(f'event: change\ndata: {data}\n\n'.encode())
  return response
