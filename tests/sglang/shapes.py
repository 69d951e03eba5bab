"""What of a reply is compared, and where two of them differ."""

import dataclasses
import fnmatch
import json
from collections.abc import Sequence
from typing import Any

# Their value is compared, not only its type.
_MEANING = frozenset(
    'type length matched prompt_tokens completion_tokens total_tokens code'
    ' object param success status retryable index num_retractions start end'
    ' output_token_logprobs_length finish_reason matched_stop role'
    ' num_waiting_reqs num_paused_requests new_version'.split()
)
_COUNTS = frozenset(
    'completion_tokens start end output_token_logprobs_length'.split()
)


def shape(
    value: Any, key: str | None = None, *, loose: bool | None = False
) -> Any:
  """What of a decoded reply is compared, as JSON.

  Args:
    value: a part of the reply.
    key: of it in its object.
    loose: whether the reply is what there was when something came in between,
      so that counts depend on speed.
  """
  if key == 'cached_tokens_details':
    return '<object or null>'  # by what the requests before have left
  if isinstance(value, dict):
    return {k: shape(v, k, loose=loose) for k, v in sorted(value.items())}
  if isinstance(value, list):
    items = [shape(item, loose=loose) for item in value]
    if not items or any(item != items[0] for item in items):
      return items
    return ['some' if loose else f'{len(items)} x', items[0]]
  meaning = key in _MEANING and not (loose and key in _COUNTS)
  if meaning or value is None or isinstance(value, bool):
    return value
  return f'<{type(value).__name__}>'


@dataclasses.dataclass(frozen=True, order=True)
class Difference:
  """One place where the replies to one case differ."""

  case: str
  path: str  # from the index of the reply on, as `0.reply.meta_info.id`
  engine: str  # JSON
  server: str

  def fits(self, case: str, entry: dict[str, Any]) -> bool:
    """True if an entry of the list means it by one of its patterns of cases."""
    return (
        fnmatch.fnmatchcase(self.case, case)
        and any(fnmatch.fnmatchcase(self.path, at) for at in entry['at'])
        and fnmatch.fnmatchcase(self.engine, entry.get('engine', '*'))
        and fnmatch.fnmatchcase(self.server, entry.get('server', '*'))
    )

  def listed(self, entry: dict[str, Any]) -> bool:
    """True if an entry of the list means it by any of its patterns."""
    return any(self.fits(case, entry) for case in entry['cases'])

  def __str__(self) -> str:
    return (
        f'{self.case} at {self.path}: engine {self.engine:.200},'
        f' server {self.server:.200}'
    )


_MISSING = 'missing'


def differences(case: str, mine: Any, theirs: Any, path='') -> list[Difference]:
  """All places, the deepest that two shapes share."""
  if mine == theirs:
    return []
  keys: Sequence[Any] = ()
  if isinstance(mine, dict) and isinstance(theirs, dict):
    if mine.keys() & theirs.keys():
      keys = sorted(mine.keys() | theirs.keys())
    get = lambda value, key: value.get(key, _MISSING)
  elif isinstance(mine, list) and isinstance(theirs, list):
    if len(mine) == len(theirs):
      keys, get = range(len(mine)), lambda value, key: value[key]
  if not keys:
    return [
        Difference(case, path.strip('.'), json.dumps(mine), json.dumps(theirs))
    ]
  return [
      found
      for key in keys
      for found in differences(
          case, get(mine, key), get(theirs, key), f'{path}.{key}'
      )
  ]
