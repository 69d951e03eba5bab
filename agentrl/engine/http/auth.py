"""The keys that routes ask for."""

from collections.abc import Collection

from aiohttp import web

from agentrl.http import auth
from agentrl.http.auth import Keys
from agentrl.http.errors import Handler

# Probes and scrapers carry no secret, and these routes give none away.
_OPEN = ('/health', '/ready', '/metrics')


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
