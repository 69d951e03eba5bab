"""Routes of the episode table: rows, figures and the values to filter by.

All take the filters of `filters`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from aiohttp import web

from agentrl.evaluation.stats import intervals
from agentrl.types import FAILURES
from agentrl.viewer import filters, numbers
from agentrl.viewer.index import COUNTED
from agentrl.viewer.state import STATE, State, reply

_ROWS = 500  # of a page, at most
_BINS = 24  # of the histogram
_SOURCES = 4  # whose success is told apart
# A run's evaluations are of different policies; its training is one source.
_EVALUATED = "CASE WHEN origin = 'train' THEN NULL ELSE step END"
_VALUES = 200  # of a column to choose from, the commonest ones
_SHOWN = (
    'run file origin policy step line env subtask task sample attempt split'
    ' return success stop_reason turns tokens parse_errors repeated'
    ' first_reward horizon version weights episode_id error'
).split()


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  return [
      web.get('/api/episodes', _episodes),
      web.get('/api/episodes/summary', _summary),
      web.get('/api/episodes/values', _values),
  ]


async def _episodes(request: web.Request) -> web.Response:
  """GET /api/episodes: `count` rows beginning with `from`, by `sort`."""
  query = request.query
  start = numbers.query(request, 'from', 0, 0, 2**53)
  count = numbers.query(request, 'count', 100, 0, _ROWS)
  condition = filters.where(query)
  sort = query.get('sort', '')
  order = filters.order(sort)
  source = 'episodes'
  if filters.needs_files(sort):
    source = 'episodes JOIN files USING (file_id)'
  # Only keys are sorted; the rest is read for the rows of the page.
  rows = await request.app[STATE].query(
      'WITH page AS MATERIALIZED ('
      f' SELECT file_id, line FROM {source} WHERE {condition.sql}'
      f' ORDER BY {order} LIMIT ? OFFSET ?)'
      f' SELECT {", ".join(map(_quoted, _SHOWN))} FROM page'
      ' JOIN episodes USING (file_id, line) JOIN files USING (file_id)'
      f' ORDER BY {order}',
      (*condition.values, count, start),
  )
  return reply({'from': start, 'rows': [dict(row) for row in rows]})


async def _summary(request: web.Request) -> web.Response:
  """GET /api/episodes/summary: figures and the histogram of returns.

  The histogram ignores a filter by return: its bins are such filters.
  """
  state, query = request.app[STATE], request.query
  low, high = await _extent(state, query.get('run', ''))
  width = (high - low) / _BINS
  outer = filters.where(query, without='return')
  inner = filters.where({'return': query.get('return', '')})
  bin_of = (
      f'min(CAST(("return" - {low!r}) / {width!r} AS INTEGER), {_BINS - 1})'
  )
  files = filters.where_files(query)
  rows = await state.query(
      f'SELECT {bin_of if width else 0} AS bin, count(*) AS n,'
      f' sum(success) AS successes, sum({inner.sql}) AS chosen,'
      f' sum(success AND {inner.sql}) AS won,'
      f' sum(CASE WHEN {inner.sql} THEN "return" END) AS total,'
      f' sum(CASE WHEN {inner.sql} THEN turns END) AS turns'
      f' FROM episodes WHERE {outer.sql} GROUP BY bin',
      (*inner.values * 4, *outer.values),
  )
  (broken,) = await state.query(
      f'SELECT sum(broken) FROM files WHERE {files.sql}', files.values
  )
  sources, more = await _sources(state, filters.where(query))
  total = sum(row['chosen'] for row in rows)
  mean = lambda name: sum(row[name] or 0 for row in rows) / total
  bins = [{'n': 0, 'successes': 0} for _ in range(_BINS if width else 1)]
  for row in rows:
    bins[row['bin']] = {'n': row['n'], 'successes': row['successes']}
  return reply({
      'total': total,
      'success': mean('won') if total else None,
      'sources': sources,
      'more_sources': more,
      'return': mean('total') if total else None,
      'turns': mean('turns') if total else None,
      'low': low,
      'high': high,
      'bins': bins,
      'broken': broken[0] or 0,
      'indexed': state.index.progress,
      'problem': state.index.problem,
  })


async def _sources(
    state: State, condition: filters.Where
) -> tuple[list[dict[str, Any]], int]:
  """Success of each run's training, evaluations and policies; the rest's count.

  Training, an expert and a random policy have no common success, nor have two
  evaluations of a run. As in evaluations each task has one vote, and failures
  of the infrastructure have none. The commonest sources come first.
  """
  rows = await state.query(
      f'SELECT run, origin, policy, {_EVALUATED} AS step, env, sum(n) AS n FROM'
      ' (SELECT file_id, env, count(*) AS n FROM episodes'
      f' WHERE {condition.sql} GROUP BY file_id, env)'
      ' JOIN files USING (file_id) GROUP BY run, origin, policy, 4, env'
      ' ORDER BY n DESC, run, origin, policy, 4, env',
      condition.values,
  )
  sources = []
  for row in rows[:_SOURCES]:
    tasks = await state.query(
        'SELECT count(*) AS n, sum(success) AS won FROM episodes'
        f' WHERE {condition.sql} AND env = ? AND turns > 0'
        f' AND stop_reason NOT IN ({", ".join("?" * len(FAILURES))})'
        ' AND file_id IN (SELECT file_id FROM files WHERE run = ?'
        f' AND origin = ? AND policy = ? AND {_EVALUATED} IS ?) GROUP BY task',
        (
            *condition.values,
            row['env'],
            *FAILURES,
            row['run'],
            row['origin'],
            row['policy'],
            row['step'],
        ),
    )
    n = sum(task['n'] for task in tasks)
    sources.append(
        dict(row) | {'n': n, 'tasks': len(tasks), 'success': _success(tasks)}
    )
  return sources, len(rows) - len(sources)


def _success(tasks: Sequence[Any]) -> dict[str, float] | None:
  """Mean and 95% interval over tasks of `n` episodes, `won` of them solved."""
  if not tasks:
    return None
  means = np.array([task['won'] / task['n'] for task in tasks])
  single = all(task['n'] == 1 for task in tasks)
  ends = intervals.interval_ends(means, bounds=(0, 1), single=single)
  return {
      'mean': float(means.mean()),
      'low': float(ends.low),
      'high': float(ends.high),
  }


async def _extent(state: State, run: str) -> tuple[float, float]:
  """The least and the greatest return, of a run where one is chosen."""
  condition = filters.where({'run': run})
  (row,) = await state.query(
      'SELECT min("return"), max("return") FROM episodes'
      f' WHERE {condition.sql}',
      condition.values,
  )
  return (row[0] or 0.0, row[1] or 0.0)


async def _values(request: web.Request) -> web.Response:
  """GET /api/episodes/values: the values of columns, the commonest first.

  Of the run that is chosen, or of all.
  """
  state = request.app[STATE]
  condition = filters.where({'run': request.query.get('run', '')})
  values: dict[str, Any] = {name: [] for name in COUNTED}
  rows = await state.query(
      'SELECT name, value, sum(episodes) AS n FROM kinds'
      f' WHERE {condition.sql} GROUP BY name, value ORDER BY n DESC',
      condition.values,
  )
  for row in rows:
    if len(values[row['name']]) < _VALUES:
      values[row['name']].append({'value': row['value'], 'n': row['n']})
  for name in ('run', 'origin', 'policy'):
    rows = await state.query(
        f'SELECT {name} AS value, count(*) AS n FROM files'
        f' GROUP BY {name} ORDER BY {name} LIMIT 2000'
    )
    values[name] = [dict(row) for row in rows]
  return reply(values)


def _quoted(name: str) -> str:
  return f'"{name}"'
