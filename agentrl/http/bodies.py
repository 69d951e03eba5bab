"""Bodies of requests, decompressed no further than the application's limit.

A server that reads them here runs with `auto_decompress=False`. aiohttp itself
decompresses on the event loop, and after a refusal it goes on to the end of the
body to keep the connection: 300 kB can hold it up for seconds.
"""

import gzip
import io
import zlib

from aiohttp import web

from agentrl.errors import one_line
from agentrl.http.errors import Handler


class Unreadable(ValueError):
  """A body that cannot be read; `status` is that of the answer."""

  def __init__(self, message: str, status: int = 400):
    super().__init__(message)
    self.status = status


async def read(request: web.Request) -> bytes:
  """The body of a request, decompressed.

  Raises:
    Unreadable: it is broken off, or its encoding is broken or unknown.
    web.HTTPRequestEntityTooLarge: it has more bytes than the application's
      `client_max_size`, before or after decompression.
  """
  try:
    packed = await request.read()
  except (web.RequestPayloadError, ConnectionError) as error:
    words = one_line(error)
    raise Unreadable(f'The body cannot be read: {words}') from error
  limit = request.client_max_size
  body = _decompress(packed, encoding_of(request), limit)
  if len(body) > limit:
    raise web.HTTPRequestEntityTooLarge(limit)
  return body


@web.middleware
async def uncompressed(
    request: web.Request, handler: Handler
) -> web.StreamResponse:
  """Refuses compressed bodies, for servers that read forms."""
  if encoding_of(request):
    raise web.HTTPUnsupportedMediaType(text='Send the form uncompressed.')
  return await handler(request)


def encoding_of(request: web.Request) -> str:
  """The encodings of a body, separated by commas; '' for none."""
  named = ','.join(request.headers.getall('Content-Encoding', ()))
  return '' if named.strip().lower() == 'identity' else named.strip().lower()


def _decompress(packed: bytes, encoding: str, limit: int) -> bytes:
  """The first `limit + 1` bytes of what a body decompresses to."""
  if not encoding:
    return packed
  try:
    if encoding in ('gzip', 'x-gzip'):  # may have several members
      with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        return file.read(limit + 1)
    if encoding == 'deflate':
      # RFC 9110 means zlib's format, whose first byte ends in 8; some clients
      # send the bare stream.
      bits = 15 if packed[:1] and packed[0] & 0xF == 8 else -15
      stream = zlib.decompressobj(bits)
      body = stream.decompress(packed, limit + 1)
      if not stream.eof and len(body) <= limit:
        raise EOFError('it ends before the end of the stream')
      return body
  except (OSError, EOFError, zlib.error) as error:
    raise Unreadable(
        f'The body cannot be read: it is no {encoding}: {error}'
    ) from error
  raise Unreadable(
      f'The body has the encoding {encoding!r:.40}; send it plain, or as gzip'
      ' or deflate.',
      415,
  )
