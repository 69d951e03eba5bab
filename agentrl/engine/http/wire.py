"""What all routes share: reading bodies, and the shapes of refusals.

SGLang has three shapes for an error, and its OpenAI routes a fourth. A client
of one server must be able to read the other, so each refusal is in the shape
that SGLang 0.5.23 gives to its like.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from absl import logging
from aiohttp import web

from agentrl.engine.http import fields, strict_json
from agentrl.engine.http.fields import BodyError, ContractError, Field
from agentrl.errors import ChatTemplateError, EngineError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# When to come back to a full engine: a completion takes about so long.
_RETRY_AFTER_S = 1
# Bytes of a body that takes milliseconds to read, and so too long for the loop.
LARGE = 2**15


async def read_json(request: web.Request) -> Any:
  """The decoded body.

  A large one is decoded in another thread. That helps where the decoder lets
  others run, between containers: a flat list of ids holds the interpreter, and
  so the loop, for a second and a half a 64 MB.

  Raises:
    BodyError: it is not JSON, or not said to be; see `strict_json`.
  """
  kind, _, suffix = request.content_type.rpartition('/')[2].partition('+')
  if 'json' not in (kind, suffix):
    raise BodyError(
        f'The body is not JSON, but {request.content_type}; send it with the'
        ' content type application/json.'
    )
  body = await request.read()
  if len(body) < LARGE:
    return _decode(body)
  return await asyncio.to_thread(_decode, body)


def _decode(body: bytes) -> Any:
  try:
    return strict_json.loads(body)
  except ValueError as error:
    raise BodyError(f'The body is not JSON: {error}.') from error


async def read_object(request: web.Request) -> dict[str, Any]:
  """The body of an OpenAI route.

  Raises:
    BodyError: it is no object.
  """
  body = await read_json(request)
  if not isinstance(body, dict):
    raise BodyError(f'The body must be an object, got {body!r:.80}.')
  return body


async def read_fields(request: web.Request, **wanted: Field) -> dict[str, Any]:
  """The fields of a control route's body; see `fields.read`."""
  return fields.read(await read_json(request), wanted)


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


def errors(max_body: int, count: Callable[[int], None]):
  """A middleware that gives refusals the shapes that SGLang's clients know.

  Args:
    max_body: bytes; the limit that the application has.
    count: is told the status of every refusal.
  """

  @web.middleware
  async def middleware(
      request: web.Request, handler: Handler
  ) -> web.StreamResponse:
    response = await _answer(request, handler, max_body)
    if response.status >= 400:
      count(response.status)
    if response.status == 503 and not response.prepared:
      response.headers['Retry-After'] = str(_RETRY_AFTER_S)
    return response

  return middleware


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
