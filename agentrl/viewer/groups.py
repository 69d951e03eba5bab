"""Routes of the group page: all episodes of one visit to a task, side by side.

Episodes are named NAME-ORDINAL-REPLICA; those that differ in the replica alone
are a group, which an algorithm compares.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
from aiohttp import web

from agentrl.errors import DataError
from agentrl.types import Turn
from agentrl.viewer import files, numbers, tokens
from agentrl.viewer.learned import Learned
from agentrl.viewer.record import Record, long_text
from agentrl.viewer.state import STATE, reply

_MOST = 64  # members that are shown
_TURNS = 100  # rows of an answer
_CHARS = 300  # of an action in a cell


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  return [web.get('/api/group', _group)]


async def _group(request: web.Request) -> web.Response:
  """GET /api/group: the members of an episode's group, turn by turn."""
  state = request.app[STATE]
  row = await state.entry(request)
  start = numbers.query(request, 'from', 0, 0, 10**6)
  rows = await members(request, row)
  path = files.file_of(state.root, row['run'], row['file'])

  def gather() -> dict[str, Any]:
    learned = request.app[tokens.SOURCES].learned(path)
    records = [
        state.reader.read(path, x['offset'], x['length']) for x in rows[:_MOST]
    ]
    found = [
        _member(x, record, learned)
        for x, record in zip(rows, records, strict=False)
    ]
    cells = align([record.turns for record in records])
    for column, member in zip(cells, found, strict=True):
      for cell, value in zip(column, member['turn_advantages'], strict=False):
        cell['advantage'] = value
    turns = max(map(len, cells), default=0)
    return {
        'task': row['task'],
        'env': row['env'],
        'members': [
            {k: v for k, v in x.items() if k != 'turn_advantages'}
            for x in found
        ],
        'left_out': max(len(rows) - _MOST, 0),
        'turns': turns,
        'from': start,
        'parted': first_difference(cells),
        'cells': [column[start : start + _TURNS] for column in cells],
    }

  return reply(await asyncio.to_thread(gather))


async def members(request: web.Request, row: Any) -> list[Any]:
  """Rows of the index of an episode's group, in the order of the file."""
  name = row['episode_id'].rpartition('-')[0]
  rows = await request.app[STATE].query(
      'SELECT * FROM episodes JOIN files USING (file_id)'
      ' WHERE file_id = ? AND task = ? ORDER BY line',
      (row['file_id'], row['task']),
  )
  return [x for x in rows if x['episode_id'].rpartition('-')[0] == name]


def align(columns: Sequence[Sequence[Turn]]) -> list[list[dict[str, Any]]]:
  """Cells of turns, beside each other by their number.

  `branch` numbers the different histories of actions up to a turn, in order of
  appearance; `parts` is True where members that had one history until then go
  different ways; `strange` where the same history was answered differently.
  """
  found: list[list[dict[str, Any]]] = [[] for _ in columns]
  history = [0] * len(columns)
  for turn in range(max(map(len, columns), default=0)):
    alive = [i for i, column in enumerate(columns) if turn < len(column)]
    branches: dict[tuple[int, str], int] = {}
    ways: dict[int, set[str]] = {}
    answers: dict[tuple[int, str], set[str]] = {}
    keys = {}
    for i in alive:
      played = columns[i][turn]
      # Without an action, the completion is what was done.
      said = played.action
      if played.parse_error is not None:
        said = f'\0{played.completion}'
      keys[i] = (history[i], said)
      branches.setdefault(keys[i], len(branches))
      ways.setdefault(history[i], set()).add(said)
      answers.setdefault(keys[i], set()).add(played.observation)
    for i in alive:
      played = columns[i][turn]
      found[i].append({
          'branch': branches[keys[i]],
          'parts': len(ways[history[i]]) > 1,
          'strange': len(answers[keys[i]]) > 1,
          'action': long_text(played.action, _CHARS),
          'parse_error': (played.parse_error or '')[:_CHARS] or None,
          'reward': played.reward,
          'progress': played.progress,
      })
    for i in alive:
      history[i] = branches[keys[i]]
  return found


def first_difference(cells: Sequence[Sequence[dict[str, Any]]]) -> int | None:
  """The first turn at which members part; None: all did the same."""
  parts = [
      turn
      for column in cells
      for turn, cell in enumerate(column)
      if cell['parts']
  ]
  return min(parts, default=None)


def _member(
    row: Any, record: Record, learned: Learned | None
) -> dict[str, Any]:
  advantages, problem = [], None
  try:
    advantages = turn_advantages(record, learned, row['line'])
  except DataError as error:
    problem = str(error)
  known = [x for x in advantages if x is not None]
  return {
      'line': row['line'],
      'episode_id': row['episode_id'],
      'sample': row['sample'],
      'return': row['return'],
      'success': row['success'],
      'stop_reason': row['stop_reason'],
      'turns': row['turns'],
      'tokens': row['tokens'],
      'advantage': sum(known) / len(known) if known else None,
      'problem': problem,
      'turn_advantages': advantages,
  }


def turn_advantages(
    record: Record, learned: Learned | None, line: int
) -> list[float | None]:
  """The mean advantage of each turn's sampled tokens; empty: not kept.

  Raises:
    DataError: the arrays do not fit the episode.
  """
  if learned is None or 'advantages' not in learned.names:
    return []
  mask = tokens.mask_of(record)
  values = learned.row('advantages', line, len(mask))
  found = []
  for span in tokens.spans(mask):
    if span['turn'] is not None:
      mean = float(np.mean(values[span['start'] : span['stop']]))
      found.append(mean if np.isfinite(mean) else None)
  return found
