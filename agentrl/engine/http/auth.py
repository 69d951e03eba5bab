"""Who may call which route."""

import dataclasses
import hmac
from collections.abc import Collection

from aiohttp import web

from agentrl.engine.http.errors import Handler

# Probes and scrapers carry no secret, and these routes tell none.
_OPEN = ('/health', '/ready', '/metrics')


@dataclasses.dataclass(frozen=True)
class Keys:
  """What a request must carry as `Authorization: Bearer KEY`.

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


def middleware(keys: Keys, control: Collection[str]):
  """Refuses who has not the key; `control` names the control routes' paths."""

  @web.middleware
  async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
    is_control = request.path in control
    admin = is_control and keys.admin is not None
    wanted = keys.admin if admin else keys.api
    if wanted is None or request.path.startswith(_OPEN):
      return await handler(request)
    scheme, _, given = request.headers.get('Authorization', '').partition(' ')
    # Bytes, as a header may hold anything; and in a time that tells nothing.
    same = hmac.compare_digest(
        given.encode('utf-8', 'surrogateescape'), wanted.encode()
    )
    if same and scheme.lower() == 'bearer':
      return await handler(request)
    name = 'admin key' if admin else 'API key'
    return web.json_response(
        {
            'error': (
                f'Unauthorized: {request.path} wants the {name} of this server,'
                ' as "Authorization: Bearer KEY".'
            )
        },
        status=401,
    )

  return check
