"""Errors of the routes, and the shapes in which clients get them.

SGLang has three shapes for an error, and its OpenAI routes a fourth. A client
of one server must be able to read the other, so each refusal is in the shape
that SGLang 0.5.23 gives to its like.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from absl import logging
from aiohttp import web

from agentrl.errors import ChatTemplateError, EngineError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# When to come back to a full engine: a completion takes about so long.
_RETRY_AFTER_S = 1


class BodyError(ValueError):
  """A body is no JSON, or misses a field: what SGLang's FastAPI refuses."""


class ContractError(ValueError):
  """The request breaks the schema; SGLang's gate answers with a plain text."""


def refusal(message: str, status: int) -> web.Response:
  """A refused value, in the shape of SGLang's /generate."""
  return web.json_response({'error': {'message': message}}, status=status)


def openai_error(message: str, status: int) -> dict[str, Any]:
  """The body of an error on a /v1 route."""
  kind = 'BadRequestError' if status < 500 else 'InternalServerError'
  return {
      'object': 'error',
      'message': message,
      'type': kind,
      'param': None,
      'code': status,
  }


def http_error(message: str, status: int, kind: str) -> web.Response:
  """A refusal by the framework, in the shape of SGLang's."""
  return web.json_response(
      {
          'object': 'error',
          'message': message,
          'type': kind,
          'param': None,
          'code': status,
      },
      status=status,
  )


def middleware(max_body: int, count: Callable[[int], None]):
  """A middleware that gives refusals the shapes that SGLang's clients know.

  Args:
    max_body: bytes; the limit that the application has.
    count: is told the status of every refusal.
  """

  @web.middleware
  async def handle(
      request: web.Request, handler: Handler
  ) -> web.StreamResponse:
    response = await _answer(request, handler, max_body)
    if response.status >= 400:
      count(response.status)
    if response.status == 503 and not response.prepared:
      response.headers['Retry-After'] = str(_RETRY_AFTER_S)
    return response

  return handle


async def _answer(
    request: web.Request, handler: Handler, max_body: int
) -> web.StreamResponse:
  status = 400
  try:
    return await handler(request)
  except web.HTTPRequestEntityTooLarge:
    message = (
        f'The body has more than {max_body} bytes; send fewer prompts at once,'
        ' or start the engine with a larger max_body.'
    )
    return http_error(message, 413, '413')
  except web.HTTPException as error:  # no such route, or not with this method
    return web.json_response({'detail': error.reason}, status=error.status)
  except (ValueError, ChatTemplateError) as error:
    refused = error
  except EngineError as error:  # full or stopped
    refused, status = error, 503
  except Exception as error:  # a fault of ours, and yet a client waits
    logging.exception('%s %s failed.', request.method, request.path)
    refused, status = error, 500
  message = str(refused) if status != 500 else f'The engine failed: {refused!r}'
  if isinstance(refused, BodyError):
    return http_error(message, status, 'Bad Request')
  if request.path.startswith('/v1/'):
    return web.json_response(openai_error(message, status), status=status)
  if isinstance(refused, ContractError):
    return web.json_response({'error': message}, status=status)
  return refusal(message, status)
