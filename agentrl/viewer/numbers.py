"""Numbers in the query of a request."""

from aiohttp import web

from agentrl.errors import DataError


def query(
    request: web.Request, name: str, default: int, least: int, most: int
) -> int:
  """The integer parameter `name`, at most `most`; `default` without it.

  Raises:
    DataError: it is no integer, or below `least`.
  """
  text = request.query.get(name, '')
  if not text:
    return min(default, most)
  if not text.isascii() or not text.isdecimal() or int(text[:18]) < least:
    raise DataError(f'{name}={text!r} is no whole number from {least} on.')
  return min(int(text[:18]), most)
