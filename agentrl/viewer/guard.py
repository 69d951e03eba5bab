"""Which requests the viewer answers: those of its own pages, with its token.

Any page that a browser has open may send requests to loopback. It cannot name a
host of ours (that would be DNS rebinding) nor hide its origin, so both are
checked. Beyond loopback a token is required: the link carries it once, a cookie
that scripts cannot read keeps it.
"""

import hmac
import ipaddress
import secrets
import urllib.parse
from collections.abc import Awaitable, Callable

from aiohttp import web

from agentrl.http import auth

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_COOKIE = 'agentrl-viewer'
# Of a request by another page, as browsers say themselves.
_FOREIGN = ('cross-site', 'same-site')


def is_loopback(host: str) -> bool:
  """True for a name or an address of this machine alone."""
  if host.lower() == 'localhost':
    return True
  try:
    return ipaddress.ip_address(host.strip('[]')).is_loopback
  except ValueError:
    return False


def token_for(host: str, token_file: str | None) -> str | None:
  """The token of a server that listens on `host`; None: none is needed.

  Raises:
    ConfigError: the token file cannot be read.
  """
  if token_file is not None:
    return auth.read_token(token_file)
  return None if is_loopback(host) else secrets.token_urlsafe(32)


def middleware(host: str, token: str | None):
  """A middleware that refuses the requests of others.

  Args:
    host: that the server listens on.
    token: that requests must have; None: none.
  """

  @web.middleware
  async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
    if is_loopback(host) and not is_loopback(_name(request)):
      raise _refusal(f'The viewer has no host {request.host!r}.')
    origin = request.headers.get('Origin')
    if origin is not None and _netloc(origin) != request.host.lower():
      raise _refusal(f'The viewer does not answer pages of {origin!r}.')
    api = request.path.startswith('/api/')
    if api and request.headers.get('Sec-Fetch-Site') in _FOREIGN:
      raise _refusal('The viewer answers its own pages only.')
    if token is None:
      return await handler(request)
    cookie = f'{_COOKIE}-{_port(request)}'
    if _same(request.query.get('token'), token):
      # Away from the address bar and the history.
      response = web.HTTPSeeOther(request.path)
      response.set_cookie(cookie, token, httponly=True, samesite='Strict')
      raise response
    if _same(request.cookies.get(cookie), token) or auth.is_authorized(
        request, token
    ):
      return await handler(request)
    raise web.HTTPUnauthorized(
        text='Open the link with the token that the viewer printed.\n'
    )

  return check


def _refusal(words: str) -> web.HTTPForbidden:
  return web.HTTPForbidden(text=f'{words}\n')


def _same(candidate: str | None, token: str) -> bool:
  return candidate is not None and hmac.compare_digest(
      candidate.encode('utf-8', 'surrogateescape'), token.encode()
  )


def _name(request: web.Request) -> str:
  """The name in the Host header, without its port; '' where it is none."""
  try:
    parts = urllib.parse.urlsplit(f'//{request.host}')
    _port(request)  # also a ValueError where it is no number
    return parts.hostname or ''
  except ValueError:
    return ''


def _netloc(origin: str) -> str:
  try:
    return urllib.parse.urlsplit(origin).netloc.lower()
  except ValueError:  # of no host, and so not of ours
    return ''


def _port(request: web.Request) -> int:
  """Browsers give a host's cookies to all of its ports."""
  return request.url.port or 0
