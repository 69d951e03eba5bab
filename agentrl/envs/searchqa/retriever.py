r"""A search service elsewhere, as Search-R1's servers answer.

    POST URL {"queries": ["..."], "topk": 3, "return_scores": true}
    -> {"result": [[{"document": {"contents": "TITLE\nTEXT"}, "score": 1}]]}

A document may have `title` and `text` in place of `contents`.
"""

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from agentrl.envs.searchqa.records import Passage
from agentrl.errors import ConfigError, EnvError

_SHOWN = 200  # characters of a reply that an error repeats


class Retriever:
  """Searches by asking a service; from several threads at once.

  Args:
    url: of the service; `/retrieve` is added where it has no path.
    timeout_s: limit of one search.

  Raises:
    ConfigError: the URL or the limit is wrong.
  """

  def __init__(self, url: str, *, timeout_s: float):
    parts = urllib.parse.urlsplit(url) if isinstance(url, str) else None
    if (
        parts is None
        or parts.scheme not in ('http', 'https')
        or not parts.netloc
    ):
      raise ConfigError(
          'retriever_url must be as http://127.0.0.1:8000/retrieve, got'
          f' {url!r}.'
      )
    if not isinstance(timeout_s, int | float) or not timeout_s > 0:
      raise ConfigError(
          f'retriever_timeout_s must be above 0, got {timeout_s!r}.'
      )
    if parts.path in ('', '/'):
      parts = parts._replace(path='/retrieve')
    self._url = urllib.parse.urlunsplit(parts)
    self._timeout_s = timeout_s
    # Straight to the service, as all our clients go.
    self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

  def search(self, query: str, topk: int) -> list[Passage]:
    """The service's passages for `query`.

    Raises:
      EnvError: it could not be reached, or answered otherwise.
    """
    body = {'queries': [query], 'topk': topk, 'return_scores': True}
    request = urllib.request.Request(
        self._url,
        data=json.dumps(body).encode(),
        headers={'Content-Type': 'application/json'},
    )
    try:
      with self._opener.open(request, timeout=self._timeout_s) as response:
        reply = response.read()
    except urllib.error.HTTPError as error:
      words = error.read()[:_SHOWN]
      raise EnvError(
          f'The retrieval service {self._url} gave {error.code}: {words!r}'
      ) from error
    except (OSError, ValueError) as error:
      raise EnvError(
          f'The retrieval service {self._url} failed: {error!r}'
      ) from error
    try:
      [items] = json.loads(reply)['result']
      return [_passage(item) for item in items[:topk]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
      raise EnvError(
          f'The retrieval service {self._url} gave no'
          ' {"result": [[{"document": {"contents": ...}}, ...]]}:'
          f' {reply[:_SHOWN]!r}'
      ) from error


def _passage(item: dict[str, Any]) -> Passage:
  document = item.get('document', item)
  if 'contents' in document:
    title, _, text = document['contents'].partition('\n')
  else:
    title, text = document['title'], document['text']
  if not isinstance(title, str) or not isinstance(text, str):
    raise TypeError('A document has no text.')
  return Passage(title, text)
