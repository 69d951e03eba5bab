"""program_html: what pages must hold after an episode.

Pages other than the last are opened in a context of their own that has the
episode's cookies: in the episode's, clocks stand still, and what is opened
there is one of its tabs.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import aiohttp
from playwright.async_api import BrowserContext, Error, Page

from agentrl.envs.webarena.public import helpers, raw
from agentrl.envs.webarena.public.helpers import Shop
from agentrl.errors import EnvError

_LOAD_S = 30.0
# The requests of a page that go on once it is loaded are waited for so long.
_QUIET_S = 5.0


async def evaluate(
    checks: Sequence[Mapping[str, Any]],
    urls: Mapping[str, str],
    page: Page,
    *,
    headers: Mapping[str, str] | None = None,
) -> float:
  """The product of all checks' scores.

  Args:
    checks: the task's `program_html`, its placeholders filled.
    urls: site -> its URL.
    page: that the episode ended on.
    headers: that sign in, see `sites.login_headers`.

  Raises:
    EnvError: a site does not answer, or not as it should.
  """
  score = 1.0
  async with contextlib.AsyncExitStack() as stack:
    shop = None
    calls = [check[name] for check in checks for name in ('url', 'locator')]
    if any(map(helpers.needs_shop, calls)):
      session = aiohttp.ClientSession(headers=headers)
      shop = Shop(urls, await stack.enter_async_context(session))
    visitor = None
    for check in checks:
      where = check['url']
      if where == 'last':
        score *= await _check(check, page, shop)
        continue
      if where.startswith('func:'):
        where = await helpers.address(where, shop, page.url)
      if visitor is None:
        visitor = await stack.enter_async_context(
            _visitor(page.context, headers)
        )
      async with _opened(visitor, where) as opened:
        score *= await _check(check, opened, shop)
  return score


@contextlib.asynccontextmanager
async def _visitor(
    context: BrowserContext, headers: Mapping[str, str] | None
) -> AsyncIterator[BrowserContext]:
  """A context with the same cookies, local storage and viewport."""
  browser = context.browser
  assert browser is not None  # only persistent contexts have none
  try:
    visitor = await browser.new_context(
        storage_state=await context.storage_state(),
        viewport=context.pages[0].viewport_size,
        locale='en-US',
        timezone_id='UTC',
        service_workers='block',
        accept_downloads=False,
        extra_http_headers=dict(headers or {}),
    )
  except Error as error:
    raise EnvError(f'A check cannot be made: {_words(error)}') from error
  try:
    yield visitor
  finally:
    await visitor.close()


@contextlib.asynccontextmanager
async def _opened(context: BrowserContext, url: str) -> AsyncIterator[Page]:
  """A page that has loaded and asks for nothing more, or has had its time."""
  try:
    page = await context.new_page()
    reply = await page.goto(url, wait_until='load', timeout=1000 * _LOAD_S)
  except Error as error:
    raise EnvError(f'{url} cannot be loaded: {_words(error)}') from error
  # 404 is an answer: what was to be made has not been made, say.
  if reply is not None and reply.status >= 500:
    raise EnvError(f'{url} answers with status {reply.status}.')
  try:
    await page.wait_for_load_state('networkidle', timeout=1000 * _QUIET_S)
  except Error:
    pass  # a page that asks for news all the time
  try:
    yield page
  finally:
    await page.close()


async def _check(
    check: Mapping[str, Any], page: Page, shop: Shop | None
) -> float:
  locator = check['locator'].strip()
  if locator.startswith('func:'):
    text = await helpers.content(locator, shop, page)
  elif locator:
    for action in check.get('prep_actions', ()):
      await _script(page, action)
    text = await _script(page, locator)
  else:
    try:
      text = await page.content()
    except Error as error:
      raise EnvError(f'{page.url} cannot be read: {_words(error)}') from error
  return raw.of_contents(check['required_contents'], text)


async def _script(page: Page, expression: str) -> str:
  """The value of an expression of the task; '' if it throws.

  It throws on every page but the right one, where its element is not: the
  original reads that as no text. A page that is gone is another matter.

  Raises:
    EnvError: the page is gone.
  """
  try:
    value = await page.evaluate(f'() => {expression}')
  except Error as error:
    if page.is_closed() or 'crash' in error.message.lower():
      raise EnvError(f'{page.url} is gone: {_words(error)}') from error
    return ''
  return _python(value)


def _python(value: Any) -> str:
  """A value as the original's Python writes it; '' for none that is true.

  There, `str` is applied first, so that null is the text 'None'.
  """
  return str(value)


def _words(error: Error) -> str:
  return error.message.partition('\n')[0][:200]
