"""Routes of the failures: how often they are, where, and at which horizon.

All counts come from the index; only parse errors and loops are read from the
episodes themselves, to rank them by their words.
"""

import asyncio
import collections
import pathlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

from agentrl.errors import DataError
from agentrl.evaluation.workdirs import files
from agentrl.types import ACT, STOP_REASONS, Turn
from agentrl.viewer.record import Record
from agentrl.viewer.state import STATE, State, reply

_MOST_RUNS = 8
_MOST_READ = 2_000  # episodes whose words are ranked: the newest
_MOST_RANKED = 50
_WORDS = 200  # characters of a message or action
# Rows of a heat map -> their SQL. A stage is a subtask and a horizon, with a
# unit separator between; a bin of steps is a tenth of the run's.
_GROUPS = {
    'stage': 'subtask || char(31) || horizon',
    'subtask': 'subtask',
    'horizon': 'horizon',
    'step': 'step / :width * :width',
    'run': 'run',
    'env': 'env',
}
# Columns of a heat map -> the SQL of an episode's.
_KINDS = {
    'stop': 'stop_reason',
    'parse_errors': 'MIN(parse_errors, 5)',
    'repeated': 'MIN(repeated, 5)',
    'first_reward': 'first_reward',
}


class _Turn(msgspec.Struct):
  action: str
  observation: str
  parse_error: str | None = None
  kind: str = ACT


class _Message(msgspec.Struct):
  content: str


class _Words(msgspec.Struct):
  """The fields of an episode line that the ranking reads."""

  turns: list[_Turn]
  prompt: list[_Message] = []


_decoder = msgspec.json.Decoder(_Words)


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  return [
      web.get('/api/failures', _failures),
      web.get('/api/failures/words', _words),
  ]


async def _failures(request: web.Request) -> web.Response:
  """GET /api/failures: counts by group, one table for each kind."""
  state, query = request.app[STATE], request.query
  by = query.get('by', 'stage')
  if by not in _GROUPS:
    raise DataError(f'by is one of {", ".join(_GROUPS)}, got {by!r}.')
  where, values = _where(query)
  width = max(-(-(await _steps(state, query)) // 10), 1)
  columns = ', '.join(_KINDS.values())
  numbers = ', '.join(str(i + 1) for i in range(1 + len(_KINDS)))
  # A horizon of 10 turns comes after one of 3.
  order = 'MIN(subtask), MIN(horizon)' if by == 'stage' else '1'
  # One pass over the episodes, whose groups are few.
  groups = await state.query(
      f'SELECT {_GROUPS[by]}, {columns}, COUNT(*), SUM(success) {where}'
      f' GROUP BY {numbers} ORDER BY {order}',
      values | {'width': width},
  )
  tables = {
      kind: table(kind, [(row[0], row[i], *row[-2:]) for row in groups])
      for i, kind in enumerate(_KINDS, 1)
  }
  return reply({
      'episodes': sum(row[-2] for row in groups),
      'by': by,
      'width': width,
      'tables': tables,
      'found': await _found(state, query),
  })


async def _steps(state: State, query: Any) -> int:
  """Steps that the runs have episodes of."""
  runs, values = _runs(query)
  ((last,),) = await state.query(
      f'SELECT MAX(step) FROM files WHERE run IN ({runs}) AND origin = :origin',
      values | {'origin': _origin(query)},
  )
  return (last or 0) + 1


async def _found(state: State, query: Any) -> dict[str, list[str]]:
  """Environments and origins among the episodes of the runs."""
  runs, values = _runs(query)
  rows = await state.query(
      'SELECT DISTINCT origin, env FROM episodes JOIN files USING (file_id)'
      f' WHERE run IN ({runs})',
      values,
  )
  return {
      name: sorted({row[name] for row in rows}) for name in ('env', 'origin')
  }


def table(
    kind: str, counts: Iterable[tuple[Any, Any, int, int]]
) -> dict[str, Any]:
  """A heat map from its counts.

  Args:
    kind: a key of `_KINDS`.
    counts: (row, column, episodes, of which solved), each pair any number of
      times.

  Returns:
    `rows` and `columns`, labels; `counts` and `solved`, `[rows, columns]`.
  """
  totals: dict[tuple[Any, Any], tuple[int, int]] = {}
  for row, column, n, solved in counts:
    before = totals.get((row, column), (0, 0))
    totals[row, column] = before[0] + n, before[1] + solved
  rows = list(dict.fromkeys(row for row, _ in totals))
  columns = {column for _, column in totals}
  if kind == 'stop':
    ordered = [reason for reason in STOP_REASONS if reason in columns]
  else:  # numbers; None, no reward at all, is the last
    numbers = sorted(column for column in columns if column is not None)
    ordered = numbers + ([None] if None in columns else [])
  cell = lambda row, column: totals.get((row, column), (0, 0))
  return {
      'rows': rows,
      'columns': ordered,
      'counts': [[cell(r, c)[0] for c in ordered] for r in rows],
      'solved': [[cell(r, c)[1] for c in ordered] for r in rows],
  }


async def _words(request: web.Request) -> web.Response:
  """GET /api/failures/words: parse errors and loops, ranked by their words."""
  state = request.app[STATE]
  where, values = _where(request.query)
  rows = await state.query(
      'SELECT run, file, line, offset, length, parse_errors, repeated'
      f' {where} AND (parse_errors > 0 OR repeated > 0)'
      ' ORDER BY step DESC, file DESC, line DESC',
      values,
  )
  read = rows[:_MOST_READ]
  ranking = await asyncio.to_thread(_rank, state.root, read)
  return reply(ranking | {'episodes': len(rows), 'read': len(read)})


def _rank(root: pathlib.Path, rows: Sequence[sqlite3.Row]) -> dict[str, Any]:
  errors, loops = Ranking(), Ranking()
  for row in rows:
    path = files.file_of(root, row['run'], row['file'])
    line = files.read_line(path, row['offset'], row['length'])
    try:
      episode = _decoder.decode(line)
    except (ValueError, RecursionError) as error:
      raise DataError(f'{path.name} has changed: load again.') from error
    place = {name: row[name] for name in ('run', 'file', 'line')}
    for turn, message in _parse_errors(episode):
      errors.add((message,), place | {'turn': turn})
    for turn, action, answer in repetitions(episode):
      loops.add((action, answer), place | {'turn': turn})
  return {'parse_errors': errors.top(), 'loops': loops.top()}


def _parse_errors(episode: _Words) -> Iterator[tuple[int, str]]:
  for number, turn in enumerate(episode.turns):
    if turn.parse_error is not None:
      yield number, turn.parse_error[:_WORDS]


def repetitions(episode: _Words | Record) -> Iterator[tuple[int, str, str]]:
  """Turns that repeat an action in answer to the same observation.

  As the index counts them in `repeated`.

  Yields:
    The turn, its action, and the observation that it answers.
  """
  seen = episode.prompt[-1].content if episode.prompt else ''
  answered = set()
  turns: Sequence[_Turn | Turn] = episode.turns
  for number, turn in enumerate(turns):
    if turn.kind != ACT:
      continue
    answer = seen, turn.action
    if answer in answered:
      yield number, turn.action[:_WORDS], seen[:_WORDS]
    answered.add(answer)
    seen = turn.observation


class Ranking:
  """Words by how often they were met, each with the places of some."""

  def __init__(self):
    self._turns = collections.Counter()
    self._episodes = collections.defaultdict(dict)

  def add(self, words: tuple[str, ...], place: Mapping[str, Any]) -> None:
    """Counts one turn."""
    self._turns[words] += 1
    key = tuple(place[name] for name in ('run', 'file', 'line'))
    self._episodes[words].setdefault(key, place)

  def top(self) -> list[dict[str, Any]]:
    """The most frequent, with turns, episodes and up to 20 places."""
    return [
        {
            'words': words,
            'turns': turns,
            'episodes': len(self._episodes[words]),
            'places': list(self._episodes[words].values())[:20],
        }
        for words, turns in self._turns.most_common(_MOST_RANKED)
    ]


def _where(query: Any) -> tuple[str, dict[str, Any]]:
  """FROM and WHERE of the episodes that a query means, and their values."""
  runs, values = _runs(query)
  where = (
      'FROM episodes JOIN files USING (file_id)'
      f' WHERE run IN ({runs}) AND origin = :origin'
  )
  values |= {'origin': _origin(query)}
  if env := query.get('env'):
    where, values = where + ' AND env = :env', values | {'env': env}
  if query.get('failed') == '1':
    where += ' AND NOT success'
  return where, values


def _origin(query: Any) -> str:
  return query.get('origin', 'train')


def _runs(query: Any) -> tuple[str, dict[str, Any]]:
  runs = list(dict.fromkeys(query.getall('run', [])))
  if not 1 <= len(runs) <= _MOST_RUNS:
    raise DataError(f'Choose 1 to {_MOST_RUNS} runs, not {len(runs)}.')
  names = {f'run{i}': run for i, run in enumerate(runs)}
  return ', '.join(f':{name}' for name in names), names
