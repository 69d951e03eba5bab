"""Filters of episodes: from the query of a URL to SQL.

One language in the page's URL and in the API's: a column's name and a value, but for
the runs, which are `runs` in a page's URL and `run` here. A
number may be a range, `2..5`, `..5`, `2..` or, without its end, `2..<5`; `none`
is a missing value. A text may be several, `a;b`, in which `%3B` and `%25` are `;`
and `%`. `q` has words that the texts of an episode have, each as the beginning of
one.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from agentrl.errors import DataError

# Of files, which many episodes share, and of episodes.
_FILE_TEXTS = ('run', 'file', 'origin', 'policy')
_FILE_NUMBERS = ('step',)
TEXTS = ('env', 'subtask', 'split', 'stop_reason', 'weights', 'episode_id')
NUMBERS = (
    'line',
    'task',
    'sample',
    'attempt',
    'seed',
    'return',
    'success',
    'turns',
    'tokens',
    'parse_errors',
    'repeated',
    'first_reward',
    'horizon',
    'version',
)
SORTED = (*_FILE_TEXTS, *_FILE_NUMBERS, *TEXTS, *NUMBERS)
WORDS = 'q'
_EVERY = '1'  # SQL for no condition

_RANGE = re.compile(r'(?P<low>[^.]*(?:\.\d+)?)\.\.(?P<open><?)(?P<high>.*)')
_WORD = re.compile(r'[^\W_]+')  # as FTS5's tokenizer separates them


class Where(NamedTuple):
  """A condition of SQL and its values; an empty filter is true."""

  sql: str
  values: tuple[Any, ...]


def where(query: Mapping[str, str], *, without: str = '') -> Where:
  """The condition that a row of `episodes` must meet.

  Args:
    query: of a URL; names that are no columns are ignored, as are empty values.
    without: a column that is left out.

  Raises:
    DataError: a value is no number and no range; says which.
  """
  rows = []
  files = where_files(query)
  if files.sql != _EVERY:
    sql = f'file_id IN (SELECT file_id FROM files WHERE {files.sql})'
    rows.append(Where(sql, files.values))
  for name in (*TEXTS, *NUMBERS):
    if query.get(name, '') and name != without:
      rows.append(_column(name, query[name]))
  words = _WORD.findall(query.get(WORDS, ''))
  if words:
    rows.append(
        Where(
            '(file_id << 32 | line) IN'
            ' (SELECT rowid FROM words WHERE words MATCH ?)',
            (' AND '.join(f'"{word}" *' for word in words),),
        )
    )
  return _all(rows)


def where_files(query: Mapping[str, str]) -> Where:
  """The condition that a row of `files` must meet, as in `where`."""
  names = (*_FILE_TEXTS, *_FILE_NUMBERS)
  return _all([_column(x, query[x]) for x in names if query.get(x, '')])


def _all(parts: list[Where]) -> Where:
  sql = ' AND '.join(part.sql for part in parts) or _EVERY
  return Where(sql, tuple(value for part in parts for value in part.values))


def _column(name: str, text: str) -> Where:
  column = f'"{name}"'
  if text == 'none':
    return Where(f"({column} IS NULL OR {column} = '')", ())
  if name in _FILE_TEXTS or name in TEXTS:
    values = tuple(map(_unescape, filter(None, text.split(';'))))
    return Where(f'{column} IN ({", ".join("?" * len(values))})', values)
  bounds = _RANGE.fullmatch(text)
  if bounds is None:
    return Where(f'{column} = ?', (_number(name, text),))
  parts = []
  if bounds['low']:
    parts.append(Where(f'{column} >= ?', (_number(name, bounds['low']),)))
  if bounds['high']:
    sign = '<' if bounds['open'] else '<='
    parts.append(Where(f'{column} {sign} ?', (_number(name, bounds['high']),)))
  return _all(parts) if parts else Where(f'{column} IS NOT NULL', ())


def _unescape(text: str) -> str:
  return text.replace('%3B', ';').replace('%25', '%')


def _number(name: str, text: str) -> float:
  try:
    number = float(text)
  except ValueError:
    number = math.nan
  if math.isnan(number):
    raise DataError(
        f'{name}={text!r:.80} is no number and no range such as 2..5.'
    )
  return number


def order(text: str) -> str:
  """The terms of ORDER BY for `return` or, falling, `-return`.

  Without a column the newest file is first. Missing values are last.

  Raises:
    DataError: there is no such column.
  """
  name = text.removeprefix('-')
  if not name:
    return 'file_id DESC, line'
  if name not in SORTED:
    raise DataError(
        f'Episodes are not sorted by {name!r}; known: {", ".join(SORTED)}.'
    )
  fall = ' DESC' if text.startswith('-') else ''
  return f'"{name}"{fall} NULLS LAST, file_id DESC, line'


def needs_files(text: str) -> bool:
  """True if `order(text)` is by a column of files."""
  name = text.removeprefix('-')
  return name in _FILE_TEXTS or name in _FILE_NUMBERS
