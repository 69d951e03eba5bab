"""Reading what clients ask of an environment server; they may be anybody's."""

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from agentrl.http import bodies

MAX_BODY_BYTES = 256 * 1024
_INTEGERS = 2**63


class Refusal(Exception):
  """A request that is answered with `status` and a sentence."""

  def __init__(self, status: int, message: str):
    super().__init__(message)
    self.status = status


async def read_body(request: web.Request) -> dict[str, Any]:
  """The JSON object of a request.

  Raises:
    Refusal: it has another body.
  """
  try:
    content = await bodies.read(request)
  except bodies.Unreadable as error:
    raise Refusal(error.status, str(error)) from error
  try:
    body = json.loads(content)
  except RecursionError as error:
    raise Refusal(400, 'The body is JSON nested too deeply.') from error
  except ValueError as error:
    raise Refusal(400, f'The body is not JSON: {error}') from error
  if not isinstance(body, dict):
    raise Refusal(422, 'The body must be a JSON object.')
  return body


def integer(
    body: Mapping[str, Any], key: str, default: int | None = None
) -> int:
  """An integer field.

  Raises:
    Refusal: it is something else, or missing without a default.
  """
  value = body.get(key, default)
  if not isinstance(value, int) or isinstance(value, bool):
    raise Refusal(422, f'"{key}" must be an integer, got {value!r:.80}.')
  if not -_INTEGERS <= value < _INTEGERS:
    raise Refusal(422, f'"{key}" must be an integer of 64 bits.')
  return value


def text(body: Mapping[str, Any], key: str) -> str:
  """A text field.

  Raises:
    Refusal: it is something else, or missing.
  """
  value = body.get(key)
  if not isinstance(value, str):
    raise Refusal(422, f'"{key}" must be a string, got {value!r:.80}.')
  return value


def queried(request: web.Request, key: str) -> int:
  """A number of the query string.

  Raises:
    Refusal: it is something else, or missing.
  """
  value = request.query.get(key, '')
  # Python reads other alphabets' digits, too.
  if not (value.isascii() and value.isdecimal() and len(value) < 19):
    raise Refusal(422, f'"{key}" must be a number, got {value!r:.80}.')
  return int(value)
