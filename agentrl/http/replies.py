"""Bounded, typed reading of replies; a server may be anybody's."""

from collections.abc import Callable
from typing import TypeVar

import aiohttp
import msgspec

from agentrl.errors import one_line
from agentrl.http import surrogates

T = TypeVar('T')


class TooLong(Exception):
  """A reply that is longer than it may be; its beginning is in `body`."""

  def __init__(self, body: bytes):
    super().__init__(body)
    self.body = body


class OutsideContract(ValueError):
  """JSON of another type than the route has, or nested too deeply."""


class NotJson(ValueError):
  """A reply that is no JSON."""


async def read(response: aiohttp.ClientResponse, limit: int) -> bytes:
  """The body of a reply, unpacked.

  Raises:
    TooLong: it has more than `limit` bytes.
    aiohttp.ClientError: it broke off, or its encoding is broken.
  """
  body = bytearray()
  async for chunk in response.content.iter_chunked(2**16):
    body += chunk
    if len(body) > limit:
      raise TooLong(bytes(body))
  return bytes(body)


def decode(body: bytes, decoder: Callable[[bytes], T]) -> T:
  """The value of a body, by a decoder of msgspec.

  Half of a surrogate pair, which an environment's or a model's text may have and
  no UTF-8 has, is read as U+FFFD.

  Raises:
    OutsideContract: names the field, where one is wrong.
    NotJson: it is something else.
  """
  try:
    return decoder(body)
  except msgspec.ValidationError as error:
    raise OutsideContract(str(error)) from error
  except RecursionError as error:
    raise OutsideContract('JSON nested too deeply') from error
  except ValueError as error:  # msgspec's own, and UnicodeDecodeError
    mended = surrogates.mend(body)
    if mended != body:
      return decode(mended, decoder)
    raise NotJson(str(error)) from error


def excerpt(body: bytes, size: int) -> str:
  """Up to `size` characters of a body's beginning, on one line."""
  return one_line(body[: 4 * size].decode('utf-8', 'replace'), size)
