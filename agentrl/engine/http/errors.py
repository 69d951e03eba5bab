"""Errors of the routes, and the shapes in which clients get them.

SGLang has three shapes for an error, and its OpenAI routes a fourth. A client
of one server must be able to read the other, so each refusal is in the shape
that SGLang 0.5.23 gives to its like.
"""

import functools
from collections.abc import Callable
from typing import Any

from absl import logging
from aiohttp import web

from agentrl.errors import ChatTemplateError, EngineError
from agentrl.http import errors

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
  body = openai_error(message, status) | {'type': kind}
  return web.json_response(body, status=status)


def middleware(max_body: int, count: Callable[[int], None]):
  """A middleware that gives refusals the shapes that SGLang's clients know.

  Args:
    max_body: bytes; the limit that the application has.
    count: is called with the status of every refusal.
  """

  def note(response: web.StreamResponse) -> None:
    count(response.status)
    if response.status == 503 and not response.prepared:
      response.headers['Retry-After'] = str(_RETRY_AFTER_S)

  answer = functools.partial(_answer, max_body=max_body)
  return errors.middleware(answer, note)


def _answer(
    request: web.Request, error: Exception, *, max_body: int
) -> web.Response:
  if isinstance(error, web.HTTPRequestEntityTooLarge):
    message = (
        f'The body has more than {max_body} bytes; send fewer prompts at once,'
        ' or start the engine with a larger max_body.'
    )
    return http_error(message, 413, '413')
  if isinstance(error, web.HTTPException):  # no such route, or method
    return web.json_response({'detail': error.reason}, status=error.status)
  status, message = 400, str(error)
  if isinstance(error, EngineError):  # full or stopped
    status = 503
  elif not isinstance(error, (ValueError, ChatTemplateError)):
    # A fault of ours, and yet a client waits.
    logging.exception('%s %s failed.', request.method, request.path)
    status, message = 500, f'The engine failed: {error!r}'
  if isinstance(error, BodyError):
    return http_error(message, status, 'Bad Request')
  if request.path.startswith('/v1/'):
    return web.json_response(openai_error(message, status), status=status)
  if isinstance(error, ContractError):
    return web.json_response({'error': message}, status=status)
  return refusal(message, status)
