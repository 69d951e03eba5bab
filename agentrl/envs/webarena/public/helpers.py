"""The helper functions that program_html checks name, in a table.

The task files write them as Python calls; here a call is matched against the
forms below and nothing is evaluated.
"""

import re
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
from playwright.async_api import Error, Page

from agentrl.errors import EnvError

_CALL = re.compile(r'func:(\w+)\((.*)\)')
_ARGUMENT = re.compile(r"'([^']*)'|(__page__)")
_ANSWER_S = 30.0
# The shop's own account for its REST interface: it is in the public images.
SHOP_ADMIN = {'username': 'admin', 'password': 'admin1234'}

# As the original, the text of a member's role in the same row as the account.
_ROLE = """account => {
  const accounts = [...document.querySelectorAll(
      "td[data-label='Account'] span.gl-avatar-labeled-sublabel")];
  const place = accounts.findIndex(x => x.outerText === '@' + account);
  const roles = document.querySelectorAll('td.col-max-role span');
  return place < 0 || !roles[place] ? '' : roles[place].outerText;
}"""


class Shop:
  """REST calls to the shop; the token is asked for once.

  Args:
    urls: site -> its URL.
    session: of aiohttp.
    account: of an administrator.
  """

  def __init__(
      self,
      urls: Mapping[str, str],
      session: aiohttp.ClientSession,
      account: Mapping[str, str] = SHOP_ADMIN,
  ):
    if 'shopping' not in urls:
      raise EnvError('A check asks the shop, and SHOPPING is not set.')
    self.url = urls['shopping']
    self._session, self._account = session, dict(account)
    self._token = ''

  async def get(self, path: str, **params: str) -> Any:
    """The JSON value at a path of the REST interface.

    Raises:
      EnvError: the shop does not answer, or not with JSON.
    """
    if not self._token:
      self._token = await self._ask(
          'POST',
          '/rest/default/V1/integration/admin/token',
          json=self._account,
      )
    return await self._ask(
        'GET',
        path,
        params=params,
        headers={'Authorization': f'Bearer {self._token}'},
    )

  async def _ask(self, method: str, path: str, **options: Any) -> Any:
    timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
    try:
      async with self._session.request(
          method, self.url + path, timeout=timeout, **options
      ) as reply:
        if reply.status != 200:
          raise EnvError(
              f"The shop's {path} answers with status {reply.status}."
          )
        return await reply.json()
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
      words = str(error) or type(error).__name__
      raise EnvError(f"The shop's {path} cannot be read: {words}") from error


# --- addresses


async def _latest_order(shop: Shop, last_url: str) -> str:
  """The page of the order that was placed last."""
  del last_url
  reply = await shop.get(
      '/rest/V1/orders',
      **{
          'searchCriteria[sortOrders][0][field]': 'created_at',
          'searchCriteria[sortOrders][0][direction]': 'DESC',
          'searchCriteria[pageSize]': '1',
      },
  )
  number = int(reply['items'][0]['increment_id'])
  return f'{shop.url}/sales/order/view/order_id/{number}/'


def post_url(url: str) -> str:
  """The page of a forum's submission; another address stays as it is."""
  parts = urllib.parse.urlsplit(url)
  steps = parts.path.split('/')
  if len(steps) < 4 or steps[1] != 'f':
    return url
  return f'{parts.scheme}://{parts.netloc}/f/{steps[2]}/{steps[3]}/'


async def _post(shop: Shop | None, last_url: str) -> str:
  del shop
  return post_url(last_url)


Address = Callable[[Any, str], Awaitable[str]]
# Call, as in the task files -> the function and whether it asks the shop.
_ADDRESSES: Mapping[str, tuple[Address, bool]] = {
    'shopping_get_latest_order_url()': (_latest_order, True),
    "reddit_get_post_url('__last_url__')": (_post, False),
}


def check_address(text: str) -> None:
  """Refuses an unknown call.

  Raises:
    ValueError: it is none of the table.
  """
  if text.removeprefix('func:') not in _ADDRESSES:
    raise ValueError(
        f'unknown helper {text!r}; known: {", ".join(_ADDRESSES)}.'
    )


def needs_shop(text: str) -> bool:
  """True if a call of either kind asks the shop."""
  return text.startswith('func:shopping_')


async def address(text: str, shop: Shop | None, last_url: str) -> str:
  """The address that a call gives.

  Args:
    text: such as `func:shopping_get_latest_order_url()`.
    shop: that it asks; None: it asks none.
    last_url: of the page that the episode ended on.

  Raises:
    EnvError: the shop does not answer as it should.
  """
  function, _ = _ADDRESSES[text.removeprefix('func:')]
  try:
    return await function(shop, last_url)
  except (KeyError, IndexError, TypeError, ValueError) as error:
    raise EnvError(f'{text}: the shop has no such record.') from error


# --- contents


async def _latest_review(shop: Shop, sku: str) -> Mapping[str, Any] | None:
  reviews = await shop.get(f'/rest/V1/products/{sku}/reviews')
  return reviews[-1] if reviews else None


async def _author(shop: Shop, page: Page, sku: str) -> str:
  del page
  review = await _latest_review(shop, sku)
  return review['nickname'] if review else ''


async def _rating(shop: Shop, page: Page, sku: str) -> str:
  """The rating of the latest review, in percent."""
  del page
  review = await _latest_review(shop, sku)
  return str(review['ratings'][0]['percent']) if review else ''


async def _role(shop: Shop | None, page: Page, account: str) -> str:
  """A member's role, as the page of a project's members shows it."""
  del shop
  try:
    return await page.evaluate(_ROLE, account)
  except Error as error:
    raise EnvError(f'The list of members cannot be read: {error}') from error


Content = Callable[[Any, Page, str], Awaitable[str]]
_CONTENTS: Mapping[str, Content] = {
    'shopping_get_sku_latest_review_author': _author,
    'shopping_get_sku_latest_review_rating': _rating,
    'gitlab_get_project_memeber_role': _role,  # so it is spelt there
}


def _content_call(text: str) -> tuple[str, str]:
  """Name and argument of a call, `__page__` left out."""
  call = _CALL.fullmatch(text.strip())
  if call and call[1] in _CONTENTS:
    parts = [part.strip() for part in call[2].split(',')]
    matches = [_ARGUMENT.fullmatch(part) for part in parts]
    arguments = [
        match[1] for match in matches if match and match[1] is not None
    ]
    if all(matches) and len(arguments) == 1:
      return call[1], arguments[0]
  raise ValueError(f'unknown helper {text!r}; known: {", ".join(_CONTENTS)}.')


def check_locator(text: str) -> None:
  """Refuses an unknown call.

  Raises:
    ValueError: it is none of the table.
  """
  _content_call(text)


async def content(text: str, shop: Shop | None, page: Page) -> str:
  """The text that a call gives.

  Args:
    text: such as `func:shopping_get_sku_latest_review_author('B00')`.
    shop: that it asks; None: it asks none.
    page: that it reads.

  Raises:
    EnvError: the shop or the page does not answer as it should.
  """
  name, argument = _content_call(text)
  try:
    return await _CONTENTS[name](shop, page, argument)
  except (KeyError, IndexError, TypeError) as error:
    raise EnvError(f'{text}: the shop has no such record.') from error
