"""The sites' server: all of them, for all episodes, on loopback.

A cookie of the browser's context names the episode, so each has its own copy
of the records; who has none gets nothing.
"""

import asyncio
import functools
import secrets
import socket
import sqlite3
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
from aiohttp import web
from multidict import MultiDict, MultiMapping

from agentrl.envs.web import serving
from agentrl.http import bodies
from agentrl.sites.site import (
    Answer,
    Forbidden,
    Handler,
    Missing,
    Page,
    Redirect,
    Site,
    Visit,
    Wrong,
)
from agentrl.sites.state import Request, State
from agentrl.sites.store import NOW

COOKIE = 'agentrl_episode'
_MOST_BYTES = 2**20  # of a form
_HEADERS = {
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    # No script but the site's own, wherever one may have been written.
    'Content-Security-Policy': (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self'"
        " data:; object-src 'none'; base-uri 'none'"
    ),
}
# SQLite's codes for records that cannot be used. Others are of a query, in which
# a policy's words may be.
_BROKEN = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOTADB,
)


class Server:
  """The server; its methods run in one event loop.

  Args:
    sites: all of them.
  """

  def __init__(self, sites: Sequence[Site]):
    self._sites = {site.name: site for site in sites}
    self._sockets = {
        site.name: socket.create_server(('127.0.0.1', 0)) for site in sites
    }
    self._states: dict[str, State] = {}  # by the value of the cookie
    self._runners: list[web.AppRunner] = []
    self._templates = {site.name: _templates(site, self.urls) for site in sites}

  @property
  def urls(self) -> Mapping[str, str]:
    """Site -> its real address, without a slash at the end."""
    return {
        name: 'http://{}:{}'.format(*each.getsockname())
        for name, each in self._sockets.items()
    }

  def open(self, state: State) -> str:
    """The value of the cookie for an episode with this state."""
    key = secrets.token_urlsafe()
    self._states[key] = state
    return key

  def close(self, key: str) -> None:
    """Forgets an episode."""
    state = self._states.pop(key, None)
    if state is not None:
      state.close()

  async def start(self) -> None:
    for site in self._sites.values():
      app = web.Application(
          client_max_size=_MOST_BYTES, middlewares=[bodies.uncompressed]
      )
      for method, path, handler in site.routes:
        app.router.add_route(
            method, path, functools.partial(self._answer, site, handler)
        )
      app.router.add_static('/static/', site.folder / 'static')
      app.router.add_post('/sign-in', functools.partial(self._sign_in, site))
      app.router.add_route(
          '*', '/{path:.*}', functools.partial(self._answer, site, _missing)
      )
      runner = serving.runner(app, auto_decompress=False, shutdown_timeout=1.0)
      await runner.setup()
      self._runners.append(runner)
      await web.SockSite(runner, self._sockets[site.name]).start()

  async def stop(self) -> None:
    for runner in self._runners:
      await runner.cleanup()
    for each in self._sockets.values():
      each.close()

  async def _answer(
      self, site: Site, handler: Handler, request: web.Request
  ) -> web.Response:
    state = self._states.get(request.cookies.get(COOKIE, ''))
    if state is None:
      return web.Response(status=403, text='No episode is played here.')
    form: MultiDict[str] = MultiDict()
    if request.method == 'POST':
      try:
        sent = await request.post()
      except web.HTTPRequestEntityTooLarge:
        handler = _too_long
      else:
        form = MultiDict(
            (name, value)
            for name, value in sent.items()
            if isinstance(value, str)
        )
    trouble = ''
    if request.method == 'GET' and _is_document(request):
      trouble = state.trouble(site.name, request.path_qs)
    if trouble == 'slow':
      await asyncio.sleep(state.faults.slow_s)
    elif trouble == 'error':
      return self._fail(site, state, request)
    try:
      return self._visited(site, handler, state, request, form)
    except sqlite3.DatabaseError as error:
      if getattr(error, 'sqlite_errorcode', 0) & 0xFF in _BROKEN:
        state.failure = f'{request.method} {site.name}{request.path}: {error}'
      raise

  def _visited(
      self,
      site: Site,
      handler: Handler,
      state: State,
      request: web.Request,
      form: MultiMapping[str],
  ) -> web.Response:
    visit = Visit(
        db=state.copy(site.store),
        path=request.path_qs,
        match=request.match_info,
        query=request.query,
        form=form,
        user=None if site.name in state.signed_out else site.user,
    )
    if visit.user is None:
      answer: Answer = Page('sign_in.html', {'next': request.path_qs}, 401)
    else:
      answer = _handled(handler, visit)
    return self._reply(site, state, visit, answer, request)

  def _reply(
      self,
      site: Site,
      state: State,
      visit: Visit,
      answer: Answer,
      request: web.Request,
  ) -> web.Response:
    status = 303 if isinstance(answer, Redirect) else answer.status
    state.requests.append(
        Request(
            site.name,
            request.method,
            request.path_qs,
            status,
            _is_document(request),
        )
    )
    if isinstance(answer, Redirect):
      if answer.notice:
        state.notices[site.name] = answer.notice
      return web.Response(
          status=303, headers={**_HEADERS, 'Location': answer.to}
      )
    values = {
        'site': site,
        'path': request.path,
        'query': request.query,
        'notice': state.notices.pop(site.name, ''),
        'now': NOW,
        'signed_in': visit.user is not None,
        **site.common(visit),
        **answer.values,
    }
    text = self._templates[site.name].get_template(answer.template)
    return web.Response(
        status=answer.status,
        text=text.render(values),
        content_type='text/html',
        headers=_HEADERS,
    )

  def _fail(
      self, site: Site, state: State, request: web.Request
  ) -> web.Response:
    state.requests.append(Request(site.name, 'GET', request.path_qs, 500, True))
    template = self._templates[site.name].get_template('failed.html')
    return web.Response(
        status=500,
        text=template.render(site=site, again=request.path_qs),
        content_type='text/html',
        headers=_HEADERS,
    )

  async def _sign_in(self, site: Site, request: web.Request) -> web.Response:
    state = self._states.get(request.cookies.get(COOKIE, ''))
    if state is None:
      return web.Response(status=403, text='No episode is played here.')
    state.sign_in(site.name)
    to = (await request.post()).get('next', '/')
    # A path of this site, and no address of another.
    if not isinstance(to, str) or not to.startswith('/') or to[1:2] in '/\\':
      to = '/'
    return web.Response(status=303, headers={**_HEADERS, 'Location': to})


def _handled(handler: Handler, visit: Visit) -> Answer:
  """A handler's answer; all that it writes, or nothing."""
  visit.db.execute('BEGIN')
  try:
    answer = handler(visit)
    visit.db.execute('COMMIT')
    return answer
  except Missing:
    return Page('missing.html', {}, 404)
  except Forbidden as error:
    return Page('refused.html', {'message': str(error)}, 403)
  except Wrong as error:
    return Page('refused.html', {'message': str(error)}, 422)
  except sqlite3.IntegrityError:
    return Page('refused.html', {'message': 'That cannot be stored.'}, 422)
  except sqlite3.OperationalError as error:
    if 'full' not in str(error):
      raise
    return Page('refused.html', {'message': 'The disk is full.'}, 507)
  finally:
    if visit.db.in_transaction:  # a full disk has ended it already
      visit.db.execute('ROLLBACK')


def _missing(visit: Visit) -> Page:
  del visit
  raise Missing


def _too_long(visit: Visit) -> Page:
  del visit
  message = f'The form is too long (maximum is {_MOST_BYTES} bytes).'
  return Page('refused.html', {'message': message}, 413)


def _is_document(request: web.Request) -> bool:
  return request.headers.get('Sec-Fetch-Dest', 'document') in (
      'document',
      'iframe',
  )


def _templates(site: Site, urls: Mapping[str, str]) -> jinja2.Environment:
  """The site's templates over those of all sites, with escaping."""
  environment = jinja2.Environment(
      loader=jinja2.ChoiceLoader([
          jinja2.FileSystemLoader(site.folder / 'templates'),
          jinja2.PackageLoader('agentrl.sites', 'templates'),
      ]),
      autoescape=True,
      trim_blocks=True,
      lstrip_blocks=True,
      undefined=jinja2.StrictUndefined,
      cache_size=200,
  )
  environment.filters.update(site.filters)
  environment.globals.update({'urls': urls, 'with': _with})
  return environment


def _with(query: MultiMapping[str], **values: Any) -> str:
  """The address of this page with other values in its query."""
  kept = [(k, v) for k, v in query.items() if k not in values]
  return '?' + urllib.parse.urlencode([*kept, *values.items()])
