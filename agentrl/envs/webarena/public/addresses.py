"""Addresses of pages as webarena-verified compares them.

An address is written in one form, the URL of a site becomes the site's
placeholder, and the query is compared apart: values in lower case, the first
of those that repeat, and a missing one as an empty one.
"""

import base64
import binascii
import dataclasses
import re
import unicodedata
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.envs.webarena.public import texts

_PORTS = {'http': '80', 'https': '443', 'ftp': '21'}
_SEGMENT = re.compile('[A-Za-z0-9_-]{4,}={0,2}')


@dataclasses.dataclass(frozen=True)
class Places:
  """The sites of a task.

  Attributes:
    urls: site -> its URL, without a slash at the end.
  """

  urls: Mapping[str, str]

  def rendered(self, text: str) -> str:
    """An address with a site's URL in place of its placeholder.

    Raises:
      ValueError: it begins with no placeholder of these sites.
    """
    for site, url in self.urls.items():
      if text.startswith(placeholder(site)):
        return text.replace(placeholder(site), url)
    raise ValueError(f'{text!r} is on none of {", ".join(self.urls)}.')

  def derendered(self, text: str) -> str | None:
    """An address with a placeholder in place of a site's URL; None: has none.

    The longest URL is looked for first: one can be the beginning of another.
    """
    for site in sorted(self.urls, key=lambda x: -len(self.urls[x])):
      if self.urls[site] in text:
        return text.replace(self.urls[site], placeholder(site))
    return None


@dataclasses.dataclass(frozen=True)
class Rules:
  """The parts of a query that count, and how they are read.

  Attributes:
    ignored: names of parameters.
    patterns: regular expressions of further ones.
    base64: a part of the path can be a query in base64.
  """

  ignored: Sequence[str] = ()
  patterns: Sequence[str] = ()
  base64: bool = False

  def keeps(self, name: str) -> bool:
    """True if a parameter counts."""
    return name not in self.ignored and not any(
        re.search(pattern, name, re.IGNORECASE) for pattern in self.patterns
    )


@dataclasses.dataclass(frozen=True)
class Address:
  """An address in one form.

  Attributes:
    base: it without its query, or a regular expression.
    query: name -> values, which are texts or were read by a schema.
    pattern: whether `base` is a regular expression.
  """

  base: str
  query: Mapping[str, Any]
  pattern: bool = False


def placeholder(site: str) -> str:
  """A site's name in the task files."""
  return f'__{site.upper()}__'


def parse(
    text: str,
    places: Places,
    rules: Rules = Rules(),
    *,
    query: Mapping[str, Sequence[str]] | None = None,
    expected: bool,
) -> Address:
  """Brings an address into one form.

  Args:
    text: the address.
    places: the sites of its task.
    rules: of its query.
    query: parameters in place of those in `text`.
    expected: it is of the task: it may be a pattern, and must be on a site.

  Raises:
    ValueError: it is none, or the task's is on none of the sites.
  """
  text = text.strip()
  if not text:
    raise ValueError('The address is empty.')
  if expected and texts.is_pattern(text):
    return Address(text.rstrip('/'), _kept(query or {}, rules), pattern=True)
  text = text.rstrip('/')
  if text.startswith('__'):
    text = places.rendered(text)
  low = text.lower()
  if low.startswith('ssh://') or (
      low.startswith('git@') and ':' in low and '://' not in low
  ):
    return Address(_ssh(low), {})
  text = canonical(text)
  shown = places.derendered(text)
  if shown is None and expected:
    raise ValueError(f'{text!r} is on none of {", ".join(places.urls)}.')
  parts = urllib.parse.urlsplit(text if shown is None else shown)
  path = parts.path
  if query is None:
    queries: list[str] = []
    if rules.base64:
      path, queries = _hidden(path)
    query = _queries('&'.join(filter(None, (*queries, parts.query.strip()))))
  base = urllib.parse.urlunsplit(
      (parts.scheme.lower(), _netloc(parts), path, '', parts.fragment)
  )
  return Address(base, _kept(query, rules))


def same_base(expected: Address, actual: Address, places: Places) -> bool:
  """True if two addresses are equal but for their queries."""
  if not expected.pattern:
    a, b = (x.base.lower().rstrip('/') for x in (expected, actual))
    return a == b
  pattern, text = expected.base, actual.base
  if pattern[1:].startswith('__'):
    pattern = f'^{places.rendered(pattern[1:-1])}$'
  if text.startswith('__'):
    text = places.rendered(text)
  return re.match(pattern, text) is not None


def canonical(url: str) -> str:
  """An address with one spelling of scheme, host, port, path and query.

  Raises:
    ValueError: it is none.
  """
  if ':' not in url[:7]:
    url = (
        f'https://{url.lstrip("/")}'
        if url[:2] == '//' or url[0] != '/'
        else url
    )
  elif url.partition(':')[0].lower() in ('http', 'https', 'ftp', 'ftps'):
    scheme, _, rest = url.partition(':')
    url = f'{scheme}://{rest.lstrip("/")}'
  url = url.replace('#!', '?_escaped_fragment_=').rstrip('&? ')
  parts = urllib.parse.urlsplit(url)
  user, _, place = parts.netloc.rpartition('@')
  host, _, port = place.partition(':')
  host = '.'.join(
      label.encode('idna').decode('ascii')
      for label in host.lower().strip('.').split('.')
      if label
  )
  if port.isdigit():
    port = str(int(port))
  if port == _PORTS.get(parts.scheme):
    port = ''
  netloc = f'{user}@' if user.strip(':') else ''
  netloc += f'{host}:{port}' if port else host
  pairs = [pair.partition('=') for pair in parts.query.split('&') if pair]
  query = '&'.join(
      f'{_quoted(name, _IN_QUERY)}={_quoted(value, _IN_QUERY)}'
      if value
      else _quoted(name, _IN_QUERY)
      for name, _, value in pairs
  )
  path = _quoted(parts.path, "~:/#[]@!$&'()*+,;=")
  if parts.scheme in ('', *_PORTS):
    path = _without_dots(path)
  return urllib.parse.urlunsplit(
      (parts.scheme, netloc, path, query, _quoted(parts.fragment, '~='))
  )


_IN_QUERY = "~:/?[]@!$'()*+,;"


def _quoted(text: str, safe: str) -> str:
  text = unicodedata.normalize('NFC', urllib.parse.unquote(text))
  return urllib.parse.quote(text, safe)


def _without_dots(path: str) -> str:
  """A path without `.`, `..` and repeated slashes; an empty one is `/`."""
  segments: list[str] = []
  parts = path.split('/')
  for part in parts:
    if part == '..':
      segments = segments[:-1] if len(segments) > 1 else segments
    elif part and part != '.' or not (part or segments):
      segments.append(part)
  if parts[-1] in ('', '.', '..'):
    segments.append('')
  return '/'.join(segments) or '/'


def _netloc(parts: urllib.parse.SplitResult) -> str:
  """Host and port; a default port is left out."""
  netloc = parts.netloc.lower()
  default = _PORTS.get(parts.scheme.lower())
  return netloc.removesuffix(f':{default}') if default else netloc


def _ssh(text: str) -> str:
  """An address of Git over SSH: hosts differ from place to place."""
  if text.startswith('ssh://'):
    parts = urllib.parse.urlsplit(text)
    user = parts.netloc.partition('@')[0] if '@' in parts.netloc else 'git'
    path = parts.path
  else:
    user, _, rest = text.partition('@')
    path = rest.partition(':')[2]
  return f'{user}@__SSH_HOST__:{path.lstrip("/")}'


def _hidden(path: str) -> tuple[str, list[str]]:
  """A path without those parts that are queries in base64, and these."""
  kept, queries = [], []
  for part in path.split('/'):
    query = _decoded(part) if _SEGMENT.fullmatch(part) else ''
    if '=' in query and (query := urllib.parse.unquote(query).strip()):
      queries.append(query.lstrip('?&'))
    elif part:
      kept.append(part)
  cleaned = '/'.join(kept)
  if path.startswith('/'):
    cleaned = f'/{cleaned}'
  if path.endswith('/') and not cleaned.endswith('/') and cleaned:
    cleaned += '/'
  return cleaned, queries


def _decoded(text: str) -> str:
  """A text in base64; '' if it is none."""
  try:
    return base64.urlsafe_b64decode(text + '=' * (-len(text) % 4)).decode()
  except (binascii.Error, UnicodeDecodeError):
    return ''


def _queries(text: str) -> dict[str, tuple[str, ...]]:
  unquote = urllib.parse.unquote
  return {
      unquote(name): tuple(sorted(map(unquote, values)))
      for name, values in urllib.parse.parse_qs(
          text, keep_blank_values=True
      ).items()
  }


def _kept(
    query: Mapping[str, Sequence[str]], rules: Rules
) -> dict[str, tuple[str, ...]]:
  return {
      name: tuple(sorted(value.lower().strip() for value in values))
      for name, values in query.items()
      if rules.keeps(name)
  }
