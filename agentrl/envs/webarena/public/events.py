"""Requests of an episode, in the form of HAR entries."""

import json
import pathlib
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.envs.webarena.public import texts
from agentrl.errors import EnvError

Entry = Mapping[str, Any]
_FILES = (
    '.css', '.js', '.png', '.jpg', '.jpeg', '.gif', '.svg', '.woff', '.woff2',
    '.ttf', '.ico', '.webp',
)  # fmt: skip
_STEP = re.compile(
    r"\.([A-Za-z_]\w*)|\['([^']*)'\]|\[(\d+)\]|\[\?\(@\.(\w+) == (\d+)\)\]"
)


def read_har(path: pathlib.Path) -> Sequence[Entry]:
  """The entries of a HAR file.

  Raises:
    EnvError: there is no such file, or it is no HAR.
  """
  try:
    entries = json.loads(path.read_text())['log']['entries']
  except (OSError, ValueError, KeyError, TypeError) as error:
    raise EnvError(f'{path} cannot be read as a HAR file: {error}') from error
  if not isinstance(entries, list):
    raise EnvError(f'{path} is no HAR file: its entries are no list.')
  return entries


def url_of(entry: Entry) -> str:
  """The address that was asked for."""
  return entry['request']['url']


def method(entry: Entry) -> str:
  """The request's method, such as 'GET'."""
  return entry['request']['method']


def status(entry: Entry) -> int:
  """The response's status; -1: there was no response."""
  return entry['response']['status']


def headers(entry: Entry) -> dict[str, str]:
  """The request's headers; names in lower case."""
  return {
      each['name'].lower(): each['value']
      for each in entry['request']['headers']
  }


def cookies(entry: Entry) -> dict[str, str]:
  """The cookies that the response sets."""
  return {
      each['name']: urllib.parse.unquote(each.get('value', ''))
      for each in entry['response'].get('cookies', ())
  }


def posted(entry: Entry) -> dict[str, Any] | None:
  """The fields of what was posted; None: nothing with fields was."""
  return _fields(entry['request'].get('postData'))


def answered(entry: Entry) -> dict[str, Any] | None:
  """The fields of the response's body; None: it has none."""
  return _fields(entry['response'].get('content'))


def counts(entry: Entry) -> bool:
  """False for style sheets, scripts, images and fonts."""
  return not urllib.parse.urlparse(url_of(entry)).path.endswith(_FILES)


def is_navigation(entry: Entry) -> bool:
  """True if a page was opened in a tab: by a link, an address, a form."""
  sent = {name: value.lower() for name, value in headers(entry).items()}
  accept = sent.get('accept', '')
  if method(entry) != 'GET':
    return False
  if 'sec-fetch-user' not in sent:
    return accept.startswith('text/html')
  return (
      sent.get('sec-fetch-dest') == 'document'
      and sent.get('sec-fetch-mode') == 'navigate'
      and sent['sec-fetch-user'] == '?1'
      and 'text/html' in accept
  )


def _fields(content: Mapping[str, Any] | None) -> dict[str, Any] | None:
  """The fields of a form or of a JSON object, the first of each name."""
  kind, text = ((content or {}).get(key, '') for key in ('mimeType', 'text'))
  if not text:
    return None
  if 'application/x-www-form-urlencoded' in kind:
    fields = urllib.parse.parse_qs(text, keep_blank_values=True)
    return {name: values[0] for name, values in fields.items()}
  if 'application/json' in kind:
    try:
      fields = json.loads(text)
    except (ValueError, RecursionError):
      return None
    return fields if isinstance(fields, dict) else None
  mark = re.search(r'boundary=([^;\s]+)', kind)
  if 'multipart/form-data' not in kind or mark is None:
    return None
  fields = {}
  for part in text.split(f'--{mark[1]}'):
    head, gap, body = part.strip().replace('\r\n', '\n').partition('\n\n')
    for line in head.split('\n') if gap else ():
      name = re.search('name="([^"]+)"', line)
      if line.lower().startswith('content-disposition:') and name:
        fields[name[1]] = body.rstrip('\n')
        break
  return fields


def is_path(key: str) -> bool:
  """True for a key that says where in the fields a value lies."""
  return key.startswith('$') or texts.is_pattern(key)


def check_path(key: str) -> None:
  """Refuses a path of a form that `at` cannot follow.

  Raises:
    ValueError: it cannot.
  """
  if not texts.is_pattern(key.removeprefix('$.')):
    _steps(key)


def at(fields: Mapping[str, Any], key: str) -> Any:
  """The value that a path leads to, or None.

  Args:
    fields: of a form or a JSON object.
    key: JSONPath with names, places and comparisons with whole numbers; or
      `^...$`, a regular expression of a name.

  Returns:
    The value; of several, and of a comparison's, a tuple.
  """
  pattern = key.removeprefix('$.')
  if texts.is_pattern(pattern):
    values = [x for name, x in fields.items() if re.match(pattern, name)]
  else:
    values = _follow(fields, key) or _follow(_opened(fields), key)
  if len(values) == 1 and '?(' not in key:
    return values[0]
  return tuple(values) if values else None


def _steps(key: str) -> list[re.Match[str]]:
  place, steps = 1, []
  while place < len(key):
    match = _STEP.match(key, place)
    if match is None:
      raise ValueError(f'{key!r} is a path of an unknown form.')
    steps.append(match)
    place = match.end()
  return steps


def _follow(data: Any, key: str) -> list[Any]:
  values = [data]
  for step in _steps(key):
    name = step[1] or step[2]
    after = []
    for each in values:
      if name is not None:
        if isinstance(each, dict) and name in each:
          after.append(each[name])
      elif not isinstance(each, list):
        continue
      elif step[3] is not None:
        after += each[int(step[3]) : int(step[3]) + 1]
      else:
        after += [
            x
            for x in each
            if isinstance(x, dict) and x.get(step[4]) == int(step[5])
        ]
    values = after
  return values


def _opened(data: Any) -> Any:
  """`data` with the JSON values that its texts hold in place of these."""
  if isinstance(data, list):
    return [_opened(each) for each in data]
  if not isinstance(data, dict):
    return data
  fields = {}
  for name, value in data.items():
    if isinstance(value, str):
      try:
        value = json.loads(value)
      except (ValueError, RecursionError):
        pass  # a text
    else:
      value = _opened(value)
    fields[name] = value
  return fields
