"""The route of a study as one file: all groups, pairs and tasks on a page."""

import asyncio
import pathlib
import re
from collections.abc import Sequence

from aiohttp import web

from agentrl.evaluation.curves import figure
from agentrl.evaluation.studies import page, study as study_lib
from agentrl.viewer import arms
from agentrl.viewer.state import STATE


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  return [web.get('/api/study', _study)]


async def _study(request: web.Request) -> web.Response:
  """GET /api/study: the page of mode 'study', by the fields of `group`."""
  root = request.app[STATE].root
  text = await asyncio.to_thread(_page, root, arms.fields_of(request))
  name = re.sub(r'[^\w.-]+', '-', f'study-{root.name}')[:80]
  return web.Response(
      text=text,
      content_type='text/html',
      charset='utf-8',
      headers={'Content-Disposition': f'attachment; filename="{name}.html"'},
  )


def _page(root: pathlib.Path, group: Sequence[str]) -> str:
  figure.check_drawing(page.WHAT)
  return page.html(
      study_lib.read(root, group=group),
      title=f'Study of {root.name}',
      command=page.command(root.name, group, 'study'),
  )
