"""Routes of the group page: all episodes of one visit to a task, side by side.

Episodes are named NAME-ORDINAL-REPLICA; those that differ in the replica alone
are a group, which an algorithm compares.
"""

import asyncio
import collections
from collections.abc import Sequence
from typing import Any

import numpy as np
from aiohttp import web

from agentrl.errors import DataError
from agentrl.evaluation.workdirs import files
from agentrl.types import Turn
from agentrl.viewer import numbers, tokens
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
    lines = [x['line'] for x in rows[:_MOST]]
    group = beside(records, lines, learned)
    group['cells'] = [x[start : start + _TURNS] for x in group['cells']]
    return group | {'from': start, 'left_out': max(len(rows) - _MOST, 0)}

  return reply(await asyncio.to_thread(gather))


def beside(
    records: Sequence[Record], lines: Sequence[int], learned: Learned | None
) -> dict[str, Any]:
  """A group: its members, their turns aligned, where they part."""
  episodes = [
      _member(record, line, learned)
      for record, line in zip(records, lines, strict=True)
  ]
  cells = align([record.turns for record in records])
  for column, member in zip(cells, episodes, strict=True):
    # Kept for whole files, or not at all.
    means = member.pop('turn_advantages')
    for cell, mean in zip(column, means, strict=False):
      cell['advantage'] = mean
  return {
      'task': records[0].task_id,
      'env': records[0].env,
      'members': episodes,
      'turns': max(map(len, cells)),
      'parted': first_difference(cells),
      'from': 0,
      'left_out': 0,
      'cells': cells,
  }


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

  `branch` numbers the different histories of actions up to a turn; where they
  part, the first goes on with the number. `parts` is True where members that
  had one history until then go different ways; `strange` where the same history
  was answered differently.
  """
  cells: list[list[dict[str, Any]]] = [[] for _ in columns]
  history, branches = [0] * len(columns), 1
  for turn in range(max(map(len, columns), default=0)):
    # History and action -> the history after it, in order of appearance.
    after: dict[tuple[int, str], int] = {}
    ways: dict[int, set[str]] = collections.defaultdict(set)
    answers: dict[int, set[str]] = collections.defaultdict(set)
    playing = [i for i, column in enumerate(columns) if turn < len(column)]
    before = [history[i] for i in playing]
    for i in playing:
      played, now = columns[i][turn], history[i]
      # Without an action, the completion is what was done.
      done = (now, played.action)
      if played.parse_error is not None or not played.action:
        done = (now, f'\0{played.completion}')
      if done not in after:
        first = now not in ways
        after[done] = now if first else branches
        branches += not first
      ways[now].add(done[1])
      history[i] = after[done]
      answers[history[i]].add(played.observation)
    for i, now in zip(playing, before, strict=True):
      played = columns[i][turn]
      cells[i].append({
          'branch': history[i],
          'parts': len(ways[now]) > 1,
          'strange': len(answers[history[i]]) > 1,
          'kind': played.kind,
          'action': long_text(played.action or played.completion, _CHARS),
          'failed': played.parse_error is not None,
          'reward': played.reward,
          'progress': played.progress,
      })
  return cells


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
    record: Record, line: int, learned: Learned | None
) -> dict[str, Any]:
  means, problem = [], None
  try:
    means = turn_advantages(record, learned, line)
  except DataError as error:
    problem = str(error)
  advantages = [x for x in means if x is not None]
  return {
      'line': line,
      'episode_id': record.episode_id,
      'sample': record.sample,
      'attempt': record.attempt,
      'return': record.episode_return,
      'success': record.success,
      'stop_reason': record.stop_reason,
      'turns': len(record.turns),
      'advantage': sum(advantages) / len(advantages) if advantages else None,
      'problem': problem,
      'turn_advantages': means,
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
  means = []
  for span in tokens.spans(mask):
    if span['turn'] is not None:
      mean = float(np.mean(values[span['start'] : span['stop']]))
      means.append(mean if np.isfinite(mean) else None)
  return means
