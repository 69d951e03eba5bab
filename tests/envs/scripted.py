"""An environment server whose answers a test writes."""

import contextlib

from aiohttp import web


@contextlib.asynccontextmanager
async def serving(replies):
  """A server with scripted replies; gives its URL and the requests it got.

  Args:
    replies: path -> a reply to encode, a response, or a list to take them from.
  """
  requests = []

  async def answer(request):
    body = await request.json() if request.can_read_body else None
    requests.append((request.path, body))
    reply = replies[request.path]
    if isinstance(reply, list):
      reply = reply.pop(0)
    if callable(reply):
      reply = await reply()
    return (
        reply if isinstance(reply, web.Response) else web.json_response(reply)
    )

  app = web.Application()
  app.router.add_route('*', '/{path:.*}', answer)
  runner = web.AppRunner(app, shutdown_timeout=0.1)
  await runner.setup()
  await web.TCPSite(runner, '127.0.0.1', 0).start()
  try:
    yield f'http://127.0.0.1:{runner.addresses[0][1]}', requests
  finally:
    await runner.cleanup()


def textcraft(**replies):
  """AgentGym's TextCraft server, whose episode has the id 5."""
  reset = {'id': 5, 'observation': 'Goal', 'done': False, 'reward': 0}
  return {
      '/': 'This is environment TextCraft.',
      '/create': reset,
      '/reset': reset,
      '/close': True,
      '/step': [],
  } | {f'/{route}': reply for route, reply in replies.items()}


def step(**fields):
  """A step's reply, of fields as they stand in its JSON."""
  fields = {'observation': '"x"', 'reward': '0', 'done': 'false'} | fields
  body = b','.join(
      f'"{key}":'.encode() + (x if isinstance(x, bytes) else x.encode())
      for key, x in fields.items()
  )
  return web.Response(body=b'{' + body + b'}')
