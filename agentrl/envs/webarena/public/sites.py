"""The hosts of the sites: where they are, and whether they answer."""

import asyncio
import json
import os
import pathlib
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

import aiohttp

from agentrl.envs.webarena.public import addresses
from agentrl.errors import ConfigError, EnvError

# Site -> the environment variable with its URL.
VARIABLES = {
    'shopping': 'SHOPPING',
    'shopping_admin': 'SHOPPING_ADMIN',
    'reddit': 'REDDIT',
    'gitlab': 'GITLAB',
    'map': 'MAP',
    'wikipedia': 'WIKIPEDIA',
    'homepage': 'HOMEPAGE',
}
# webarena-verified's images sign in whoever sends these.
LOGIN_HEADERS = {
    'shopping': 'X-M2-Customer-Auto-Login',
    'shopping_admin': 'X-M2-Admin-Auto-Login',
    'reddit': 'X-Postmill-Auto-Login',
}
_ANSWER_S = 20.0  # a Magento that was idle takes ten
_MOST_REDIRECTS = 10


def from_environment(
    environment: Mapping[str, str] = os.environ,
) -> Mapping[str, str]:
  """Site -> URL for the variables that are set.

  Raises:
    ConfigError: one is no http(s) address.
  """
  urls = {}
  for site, variable in VARIABLES.items():
    if text := environment.get(variable, '').strip():
      urls[site] = _checked(variable, text)
  return urls


def _checked(variable: str, text: str) -> str:
  """A URL in the form that the browser gives it, without a last slash."""
  try:
    parts = urllib.parse.urlsplit(text)
    right = (
        parts.scheme in ('http', 'https')
        and bool(parts.hostname)
        and parts.username is None
        and not (parts.query or parts.fragment)
    )
    _ = parts.port  # raises
  except ValueError:
    right = False
  if not right or any(c.isspace() for c in text):
    raise ConfigError(
        f'{variable} must be an address such as http://host:7770, got {text!r}.'
    )
  return addresses.canonical(text).rstrip('/')


def fill(text: str, urls: Mapping[str, str]) -> str:
  """`text` with URLs in place of the sites' placeholders."""
  for site, url in urls.items():
    text = text.replace(addresses.placeholder(site), url)
  return text


def fill_all(value: Any, urls: Mapping[str, str]) -> Any:
  """A JSON value with all of its texts filled."""
  if isinstance(value, str):
    return fill(value, urls)
  if isinstance(value, list):
    return [fill_all(each, urls) for each in value]
  if isinstance(value, dict):
    return {name: fill_all(each, urls) for name, each in value.items()}
  return value


def origin(url: str) -> str:
  """Scheme and host of a site's URL: 'http://host:7780' of '.../admin'."""
  return '{}://{}'.format(*_origin(url))


async def probe(
    urls: Mapping[str, str], headers: Mapping[str, str] | None = None
) -> None:
  """Asks each site for its first page.

  A redirect within a site, to its sign-in page, say, is as it should be.

  Args:
    urls: site -> its URL.
    headers: to be sent, see `login_headers`.

  Raises:
    EnvError: one does not answer, answers with an error, or leads elsewhere.
  """
  timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
  async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
    results = await asyncio.gather(
        *(_probe_one(session, site, url) for site, url in urls.items()),
        return_exceptions=True,
    )
  for result in results:
    if isinstance(result, BaseException):
      raise result


async def _probe_one(
    session: aiohttp.ClientSession, site: str, url: str
) -> None:
  name, where = f'{VARIABLES[site]}={url}', url
  for _ in range(1 + _MOST_REDIRECTS):
    try:
      # Redirects are followed here: where one leads elsewhere is the fault to
      # be named, and not that nobody answers there.
      async with session.get(where, allow_redirects=False) as reply:
        status, to = reply.status, reply.headers.get('Location')
      if to is None or not 300 <= status < 400:
        break
      where = urllib.parse.urljoin(where, to)
      elsewhere = _origin(where) != _origin(url)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
      words = str(error) or type(error).__name__
      raise EnvError(f'{name} does not answer: {words:.200}') from error
    if elsewhere:
      raise EnvError(
          f'{name} leads to {where:.200}: set the variable to the address that'
          ' the site itself uses.'
      )
  else:
    raise EnvError(f'{name} redirects more than {_MOST_REDIRECTS} times.')
  if status >= 500:
    raise EnvError(f'{name} answers with status {status}.')


def _origin(url: str) -> tuple[str, str]:
  parts = urllib.parse.urlsplit(addresses.canonical(url))
  return parts.scheme, parts.netloc


def login_headers(
    accounts: Mapping[str, str], used: Iterable[str]
) -> Mapping[str, str]:
  """Headers by which webarena-verified's images sign a visitor in.

  Args:
    accounts: site -> `name:password`.
    used: the sites of the task.

  Raises:
    ConfigError: an account's site has no such header, or it has another form.
  """
  for site, account in accounts.items():
    if site not in LOGIN_HEADERS:
      raise ConfigError(
          f'{site!r} does not sign in by a header; those that do:'
          f' {", ".join(LOGIN_HEADERS)}.'
      )
    if ':' not in account or not account.isprintable():
      raise ConfigError(f'The account of {site} must be name:password.')
  return {
      LOGIN_HEADERS[site]: accounts[site] for site in used if site in accounts
  }


def read_storage_state(path: str) -> Mapping[str, Any]:
  """Cookies and local storage of visitors who are signed in.

  Args:
    path: of a file that Playwright's `storage_state` wrote.

  Raises:
    ConfigError: it has another form.
    EnvError: it cannot be read.
  """
  try:
    state = json.loads(pathlib.Path(path).read_text(encoding='utf-8'))
  except OSError as error:
    raise EnvError(f'{path} cannot be read: {error.strerror}.') from error
  except ValueError as error:
    raise ConfigError(f'{path} is no JSON file: {error}.') from error
  if not isinstance(state, dict) or not isinstance(state.get('cookies'), list):
    raise ConfigError(f"{path} is no storage state of Playwright's.")
  return state
