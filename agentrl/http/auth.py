"""Bearer tokens: files that hold them, headers that carry them, and their check."""

import dataclasses
import hmac
import pathlib

from aiohttp import web

from agentrl.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Keys:
  """Tokens of a server, which requests carry as `Authorization: Bearer KEY`.

  Attributes:
    api: for every route that is not open; None: nothing.
    admin: for control routes, where it takes the place of `api`; None: `api`
      opens them too.
  """

  api: str | None = None
  admin: str | None = None

  def __post_init__(self):
    if '' in (self.api, self.admin):
      raise ValueError('A key must not be empty; None asks for none.')


def read_token(path: str) -> str:
  """The one line of a token file.

  Raises:
    ConfigError: it cannot be read, or is not one line of visible ASCII.
  """
  try:
    token = pathlib.Path(path).read_text().strip()
  except (OSError, UnicodeDecodeError) as error:
    raise ConfigError(f'Cannot read the token file {path}: {error}') from error
  # Shown neither here nor anywhere else.
  if not token or not token.isascii() or not token.isprintable():
    raise ConfigError(
        f'The token file {path} must hold one line of visible ASCII characters.'
    )
  return token


def headers(token: str | None) -> dict[str, str]:
  """The headers that carry a token; empty without one."""
  return {'Authorization': f'Bearer {token}'} if token else {}


def is_authorized(request: web.Request, token: str) -> bool:
  """True if the request carries the token, compared in constant time."""
  scheme, _, credentials = request.headers.get('Authorization', '').partition(
      ' '
  )
  # Headers are bytes, which need not be UTF-8.
  same = hmac.compare_digest(
      credentials.encode('utf-8', 'surrogateescape'), token.encode()
  )
  return same and scheme.lower() == 'bearer'
