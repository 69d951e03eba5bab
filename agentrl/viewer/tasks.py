"""Routes of the tasks by columns: who solves which, from the index."""

import asyncio
import collections
import functools
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from agentrl.errors import AgentrlError, DataError
from agentrl.evaluation import results
from agentrl.evaluation.studies import tasks as tasks_lib
from agentrl.evaluation.studies.columns import Column
from agentrl.evaluation.studies.tasks import Total
from agentrl.evaluation.workdirs import files, folders, panels
from agentrl.evaluation.workdirs.panels import Evaluated
from agentrl.runtime import workdir
from agentrl.viewer import chosen, numbers
from agentrl.viewer.index import PLAYED
from agentrl.viewer.state import STATE, State, reply

_MOST = 64  # columns
_ROWS = 200  # of an answer
_GOAL = 400  # characters of a goal that are shown
_KEPT = 16  # tables of totals, of up to tens of thousands of tasks
_CHOSEN_BY = ('of', 'run', 'group', 'env')  # the columns of a request
_WORD = re.compile(r'[^\W_]+')  # as FTS5's tokenizer separates them
# SQLite would rather read all episodes of a file than look for some tasks of it.
_OF_TASKS = 'episodes INDEXED BY episodes_by_task'
_BY = ('task', 'subtask')  # columns of the index that can be rows


# By row, [episodes, solved] in each column; None: not played.
_Cells = dict[int | str, list[list[int] | None]]


class _Message(msgspec.Struct):
  content: str


class _Prompt(msgspec.Struct):
  prompt: list[_Message] = []


_decoder = msgspec.json.Decoder(_Prompt)


class _Table(NamedTuple):
  """Columns of one environment whose task ids mean the same tasks.

  Attributes:
    env: its name.
    envs: of all columns, the one of most files first.
    columns: that have played it.
    file_ids: of each column.
    left_out: labels of those whose tasks are others.
  """

  env: str
  envs: list[str]
  columns: list[Column]
  file_ids: list[list[int]]
  left_out: list[str]


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  goals = Goals()
  kept: collections.OrderedDict[tuple[Any, ...], tuple[list[Total], _Cells]] = (
      collections.OrderedDict()
  )
  tables: collections.OrderedDict[tuple[Any, ...], _Table] = (
      collections.OrderedDict()
  )

  async def table_of(request: web.Request) -> _Table:
    """The table that a request asks for, as of the last change of any file."""
    state, query = request.app[STATE], request.query
    asked = [tuple(query.getall(name, [])) for name in _CHOSEN_BY]
    key = state.index.changes, *asked
    if (found := tables.get(key)) is None:
      columns = await chosen.columns(request, _MOST)
      found = tables[key] = await _table(state, columns, query.get('env', ''))
      while len(tables) > _KEPT:
        tables.popitem(last=False)
    return found

  async def totals(
      state: State,
      table: _Table,
      by: str,
      words: Sequence[str],
      since: int | None,
  ) -> tuple[list[Total], _Cells]:
    """All rows; of kinds, which are few and each of many episodes, the cells."""
    files_of = str(table.file_ids)
    key = state.index.changes, table.env, files_of, by, tuple(words), since
    if key not in kept:
      found = await _totals(state, table, by, words, since)
      if words:  # the index finds them in all that was said
        found = await _with_goals(state, table, found, goals, words)
      cells: _Cells = {}
      if by == 'subtask':
        cells = await _cells(state, table, by, [x.key for x in found])
      kept[key] = found, cells
      while len(kept) > _KEPT:
        kept.popitem(last=False)
    return kept[key]

  async def tasks(request: web.Request) -> web.Response:
    """GET /api/tasks: rows are tasks or their kinds, columns as `chosen` says.

    `order`, `by` ('task' or 'subtask'), `only` ('failed' by all columns, or
    'lost': the last column fails what another solves), `since` (a step of the
    run whose steps are the columns: lost is what that one has solved), `subtask`,
    `q` (words of the goal), `env`, `from` and `count`. A cell is [episodes,
    solved].
    """
    state, query = request.app[STATE], request.query
    start = numbers.query(request, 'from', 0, 0, 2**53)
    count = numbers.query(request, 'count', 100, 1, _ROWS)
    order, by = query.get('order', 'hardest'), query.get('by', 'task')
    for name, value, known in (
        ('order', order, tasks_lib.ORDERS), ('by', by, _BY),
        ('only', query.get('only', ''), ('', 'failed', 'lost')),
    ):  # fmt: skip
      if value not in known:
        raise DataError(f'{name} is one of {", ".join(known)}, got {value!r}.')
    await state.index.ready()
    table = await table_of(request)
    steps = _steps(table.columns)
    since = _since(query.get('since', ''), steps)
    words = _WORD.findall(query.get('q', '')) if by == 'task' else []
    found, cells = await totals(state, table, by, words, since)
    subtasks = sorted({total.subtask for total in found})
    if only := query.get('subtask'):
      found = [total for total in found if total.subtask == only]
    matching = {
        '': found,
        'failed': [total for total in found if total.failed_by_all],
        'lost': [total for total in found if total.lost],
    }
    shown = tasks_lib.ordered(matching[query.get('only', '')], order)
    page = shown[start : start + count]
    texts: Mapping[int | str, str] = {}
    if by == 'task':
      cells = await _cells(state, table, by, [total.key for total in page])
      texts = await _goals(state, table, [total.key for total in page], goals)
    return reply({
        'env': table.env,
        'envs': table.envs,
        'columns': [_column(column) for column in table.columns],
        'left_out': table.left_out,
        'steps': steps,
        'subtasks': subtasks,
        'total': len(shown),
        'of': len(found),
        'failed': len(matching['failed']),
        'lost': len(matching['lost']),
        'from': start,
        'rows': [
            {
                'key': total.key,
                'subtask': total.subtask,
                'goal': texts.get(total.key, ''),
                'all': [total.played, total.solved],
                'cells': cells[total.key],
            }
            for total in page
        ],
    })

  return [web.get('/api/tasks', tasks)]


def _column(column: Column) -> dict[str, Any]:
  """A column with the filters of its episodes."""
  first = column.runs[0][0]
  return {
      'label': column.label,
      'runs': [run[0].run for run in column.runs],
      'policy': first.label if first.step is None else None,
      'files': sorted({x.file for run in column.runs for x in run if x.file}),
  }


def _steps(columns: Sequence[Column]) -> list[int]:
  """The steps that columns are of, where all are of one run; else none."""
  parts = [each for column in columns for run in column.runs for each in run]
  steps = [column.runs[0][0].step for column in columns]
  if len({each.run for each in parts}) > 1 or len(set(steps)) < len(steps):
    return []
  return [step for step in steps if step is not None]


def _since(text: str, steps: Sequence[int]) -> int | None:
  """The column whose solved tasks can be lost; None: any.

  Raises:
    DataError: there is no such column.
  """
  if not text:
    return None
  names = list(map(str, steps))
  if text not in names:
    known = ', '.join(names) or 'none: the columns are no steps of one run'
    raise DataError(
        f'since is a step of the run, not {text!r}; known: {known}.'
    )
  return names.index(text)


async def _table(state: State, columns: Sequence[Column], env: str) -> _Table:
  """The columns of an environment; '': that which most files are of."""
  rows = await state.query(
      'SELECT file_id, run, file, origin, policy, value AS env FROM files JOIN'
      " kinds USING (file_id) WHERE name = 'env'"
  )
  by_file: dict[tuple[str, str], list[tuple[int, str]]] = {}
  by_policy: dict[tuple[str, str], list[tuple[int, str]]] = {}
  for row in rows:
    place = row['file_id'], row['env']
    by_file.setdefault((row['run'], row['file']), []).append(place)
    if row['origin'] == 'eval':
      by_policy.setdefault((row['run'], row['policy']), []).append(place)

  def places(each: Evaluated) -> list[tuple[int, str]]:
    if each.file is None:
      return by_policy.get((each.run, each.label), [])
    return by_file.get((each.run, each.file), [])

  found = [
      [(place, each) for run in column.runs for each in run
       for place in dict.fromkeys(places(each))]
      for column in columns
  ]  # fmt: skip
  counts = collections.Counter(
      name for of_column in found for (_, name), _ in of_column
  )
  known = [name for name, _ in counts.most_common()]
  if env and env not in known:
    raise DataError(f'No column has played {env!r}; known: {", ".join(known)}.')
  env = env or (known[0] if known else '')
  own = [
      [(place[0], each) for place, each in x if place[1] == env] for x in found
  ]
  meanings = await asyncio.to_thread(
      lambda: [
          {_meaning(state.root, each, env) for _, each in of_column}
          for of_column in own
      ]
  )
  alike = collections.Counter(
      x for each in meanings if len(each) == 1 for x in each if x
  )
  ((common, _),) = alike.most_common(1) or [('', 0)]
  keep = [i for i, each in enumerate(meanings) if each == {common}]
  return _Table(
      env=env,
      envs=known,
      columns=[columns[i] for i in keep],
      file_ids=[sorted({file for file, _ in own[i]}) for i in keep],
      left_out=[
          columns[i].label
          for i, each in enumerate(meanings)
          if each and i not in keep
      ],
  )


def _meaning(root: pathlib.Path, each: Evaluated, env: str) -> str:
  """The meaning of its task ids; '': not known."""
  try:
    files_of = (results.FILE, workdir.CONFIG, *filter(None, (each.file,)))
    stamp = folders.stamp_of(root / each.run, files_of)
    return _meanings(root, each, stamp).get(env, '')
  except AgentrlError:
    return ''


@functools.lru_cache(16_384)
def _meanings(
    root: pathlib.Path, each: Evaluated, stamp: tuple[Any, ...]
) -> dict[str, str]:
  del stamp  # another one where its files have changed
  return panels.meanings(root, each)


def _numbers(values: Sequence[int]) -> str:
  """Whole numbers as SQL: more than it takes as parameters."""
  return ', '.join(str(int(value)) for value in values)


async def _totals(
    state: State,
    table: _Table,
    by: str,
    words: Sequence[str],
    since: int | None,
) -> list[Total]:
  """Counts of each task or kind over all columns."""
  if not table.columns:
    return []
  before = 'NULL'
  if since is not None:
    before = f'SUM(success AND file_id IN ({_numbers(table.file_ids[since])}))'
  ids = _numbers([x for each in table.file_ids for x in each])
  last = f'file_id IN ({_numbers(table.file_ids[-1])})'
  condition, values = '', [table.env]
  if words:
    condition = (
        ' AND task IN (SELECT task FROM episodes WHERE'
        f' file_id IN ({ids}) AND (file_id << 32 | line) IN'
        ' (SELECT rowid FROM words WHERE words MATCH ?))'
    )
    values.append(' AND '.join(f'"{word}" *' for word in words))
  rows = await state.query(
      f'SELECT {by} AS key, MIN(subtask) AS subtask, COUNT(*) AS n,'
      f' SUM(success) AS won, SUM({last}) AS last_n, SUM(success AND {last}) AS'
      f' last_won, {before} AS since_won FROM episodes WHERE file_id IN ({ids})'
      f' AND env = ? AND {PLAYED}{condition} GROUP BY 1',
      values,
  )
  return [Total(*row) for row in rows]


async def _cells(
    state: State, table: _Table, by: str, keys: Sequence[int | str]
) -> _Cells:
  """[episodes, solved] of each row and column; None: not played."""
  cells: _Cells = {key: [None] * len(table.columns) for key in keys}
  if not keys:
    return cells
  # SQLite adds the files of a column up: of thousands that is half the time.
  places = ', '.join(
      f'({file_id}, {i})'
      for i, ids in enumerate(table.file_ids)
      for file_id in ids
  )
  rows = await state.query(
      f'WITH places(file_id, column) AS MATERIALIZED (VALUES {places})'
      f' SELECT column, {by} AS key, COUNT(*) AS n, SUM(success) AS won'
      f' FROM places CROSS JOIN {_OF_TASKS if by == "task" else "episodes"}'
      ' USING (file_id)'
      f' WHERE env = ? AND {by} IN ({", ".join("?" * len(keys))})'
      f' AND {PLAYED} GROUP BY 1, 2',
      (table.env, *keys),
  )
  for row in rows:
    cells[row['key']][row['column']] = [row['n'], row['won']]
  return cells


class Goals:
  """The last message before an episode's first turn, of the tasks seen last."""

  def __init__(self):
    self._found: collections.OrderedDict[tuple[Any, ...], str] = (
        collections.OrderedDict()
    )

  def read(self, root: pathlib.Path, place: Sequence[Any]) -> str:
    """The goal at a place: run, file, offset, length; '' where it has gone."""
    key = tuple(place)
    if key not in self._found:
      run, file, offset, length = key
      try:
        line = files.read_line(files.file_of(root, run, file), offset, length)
        prompt = _decoder.decode(line).prompt
      except (AgentrlError, ValueError, RecursionError):
        prompt = []
      self._found[key] = prompt[-1].content[:2000] if prompt else ''
      while len(self._found) > 50_000:
        self._found.popitem(last=False)
    return self._found[key]


async def _goals(
    state: State, table: _Table, keys: Sequence[int | str], goals: Goals
) -> dict[int | str, str]:
  """The beginning of each task's goal."""
  found = await _whole_goals(state, table, keys, goals)
  return {key: text.strip()[:_GOAL] for key, text in found.items()}


async def _whole_goals(
    state: State, table: _Table, keys: Sequence[int | str], goals: Goals
) -> dict[int | str, str]:
  if not keys:
    return {}
  ids = _numbers([x for each in table.file_ids for x in each])
  # Of each task the episode of the first file that has it.
  rows = await state.query(
      'SELECT e.task, run, file, offset, length FROM (SELECT MIN(file_id << 32'
      f' | line) AS place FROM {_OF_TASKS} WHERE file_id IN ({ids}) AND env = ?'
      f' AND {PLAYED} AND task IN ({_numbers([int(key) for key in keys])})'
      ' GROUP BY task) JOIN episodes AS e ON e.file_id = place >> 32 AND'
      ' e.line = place & 4294967295 JOIN files USING (file_id)',
      (table.env,),
  )
  read = lambda: {
      row['task']: goals.read(state.root, tuple(row)[1:]) for row in rows
  }
  return await asyncio.to_thread(read)


async def _with_goals(
    state: State,
    table: _Table,
    found: Sequence[Total],
    goals: Goals,
    words: Sequence[str],
) -> list[Total]:
  """Those whose goals have all the words, each from its beginning."""
  texts = await _whole_goals(state, table, [x.key for x in found], goals)
  patterns = [re.compile(rf'(?i)(?<!\w){re.escape(word)}') for word in words]
  return [
      total
      for total in found
      if all(p.search(texts.get(total.key, '')) for p in patterns)
  ]
