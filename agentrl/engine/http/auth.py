"""Keys of the server: one for all routes, one for control routes."""

import dataclasses
from collections.abc import Collection

from aiohttp import web

from agentrl.http import auth
from agentrl.http.errors import Handler

# Probes and scrapers carry no secret, and these routes give none away.
_OPEN = ('/health', '/ready', '/metrics')


@dataclasses.dataclass(frozen=True)
class Keys:
  """Secrets that requests carry as `Authorization: Bearer KEY`.

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
  """Refuses requests without their key; `control`: paths of control routes."""

  @web.middleware
  async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
    admin = request.path in control and keys.admin is not None
    key = keys.admin if admin else keys.api
    if (
        key is None
        or request.path.startswith(_OPEN)
        or auth.is_authorized(request, key)
    ):
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
