"""Routes of the episode table.

Filters are one language in the page's URL and in the API's: a column's name and
a value. A number may be a range, `2..5`, `..5` or `2..`, ends included; `none`
is a missing value. Columns: run, file, origin, policy, step, env, task, subtask,
split, sample, return, success (0 or 1), stop_reason, turns, tokens,
parse_errors, repeated, first_reward, horizon, version. `q` has words that a text
of the episode has.
"""

from aiohttp import web

from agentrl.viewer.state import STATE


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  return [web.get('/api/episodes', _episodes)]


async def _episodes(request: web.Request) -> web.Response:
  """GET /api/episodes: rows of the table."""
  rows = await request.app[STATE].query(
      'SELECT * FROM episodes JOIN files USING (file_id) LIMIT 100'
  )
  return web.json_response({'rows': [dict(row) for row in rows]})
