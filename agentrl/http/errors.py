"""Middleware that answers what handlers raise."""

from collections.abc import Awaitable, Callable

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def middleware(
    answer: Callable[[web.Request, Exception], web.Response],
    note: Callable[[web.StreamResponse], None],
):
  """A middleware that leaves no request without an answer.

  Args:
    answer: gives the response to what a handler raised.
    note: is called with every response whose status is 400 or above.
  """

  @web.middleware
  async def handle(
      request: web.Request, handler: Handler
  ) -> web.StreamResponse:
    try:
      response = await handler(request)
    except Exception as error:  # the edge: every client waits for an answer
      response = answer(request, error)
    if response.status >= 400:
      note(response)
    return response

  return handle
