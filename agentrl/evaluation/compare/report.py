"""A comparison for people: a table of the terminal, Markdown, CSV."""

import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import rich.console
import rich.table
import rich.text

from agentrl.evaluation.compare import comparison, matrix
from agentrl.evaluation.compare.matrix import Matrix, Standing
from agentrl.evaluation.compare.pairing import ERRORS_FAIL, PairedRow
from agentrl.evaluation.compare.record import Compared
from agentrl.evaluation.stats.seed_rows import DIFFERENCE

_OVER_TASKS = (
    'Intervals (95%) and tests are over tasks: how the difference between these'
    ' very policies would move on other tasks of the same kind. They say'
    ' nothing about another training run.'
)
_OVER_SEEDS = (
    'Intervals (95%) are over training seeds: how the figure would move with'
    ' other runs of the same algorithm. Below ten seeds trust the interval of'
    ' the mean; the bootstrap of the interquartile mean is too narrow.'
)
_DETECTABLE = (
    '`detectable` is the smallest true difference that such a panel shows in'
    ' 80% of repetitions: a smaller one may exist where none is found.'
)
_COUNTS = (
    '`won` counts pairs in which a alone succeeded, `lost` those in which b'
    ' alone did; `missing` pairs lack a valid episode and are left out, but in'
    f' `{ERRORS_FAIL}`, which counts a missing episode as a failure.'
)
_MATRIX = (
    'A cell is the difference in success, row minus column, with its 95%'
    ' interval over tasks; p of the test and p (Holm), adjusted for all pairs;'
    ' pairs won and lost; and the tasks that both have played.'
    ' `comparison_matrix.csv` has a line for each.'
)
_ALGORITHMS = 'Algorithms, intervals over training seeds'
_PAIR = (
    ('env', lambda row: row.env),
    ('a', lambda row: row.a),
    ('b', lambda row: row.b),
)
_COLUMNS = (
    ('subtask', lambda row: row.subtask),
    ('metric', lambda row: row.metric),
    ('mean a', lambda row: _number(row.mean_a)),
    ('mean b', lambda row: _number(row.mean_b)),
    ('a - b', lambda row: _number(row.difference, '+.3f')),
    ('95% over tasks', lambda row: _interval(row.low, row.high)),
    ('p', lambda row: _p(row, row.p_value)),
    ('mid-p', lambda row: _p(row, row.mid_p_value)),
    ('p (Holm)', lambda row: _p(row, row.p_holm)),
    ('test', lambda row: row.test or ''),
    ('detectable', lambda row: _number(row.detectable)),
    ('won', lambda row: _number(row.won, 'd')),
    ('lost', lambda row: _number(row.lost, 'd')),
    ('both', lambda row: _number(row.both, 'd')),
    ('neither', lambda row: _number(row.neither, 'd')),
    ('missing', lambda row: str(row.missing)),
)
# A terminal has 80 letters a line; the rest is in the files.
_SHOWN = (
    'subtask',
    'metric',
    'a - b',
    '95% over tasks',
    'p',
    'won',
    'lost',
    'missing',
)
_SEED_COLUMNS = (
    ('env', lambda row: row.env),
    ('metric', lambda row: row.metric),
    ('algorithm', lambda row: 'a - b' if row.side == DIFFERENCE else row.side),
    ('runs', lambda row: str(row.seeds)),
    ('mean', lambda row: _number(row.mean, '+.3f')),
    ('95% over seeds', lambda row: _over_seeds(row.mean_low, row.mean_high)),
    ('IQM', lambda row: _number(row.interquartile_mean, '+.3f')),
    ('bootstrap over seeds', lambda row: _over_seeds(row.low, row.high)),
)

Columns = Sequence[tuple[str, Any]]


def show(console: rich.console.Console, record: Compared) -> None:
  """Prints the tables; in a pipe one table, all of a row in its line."""
  if console.is_terminal:
    shown = _SHOWN + ('p (Holm)',) * (_pairs(record) > 1)
    columns = [column for column in _COLUMNS if column[0] in shown]
    for title, rows in _by_pair(record):
      print_table(console, rows, columns, title)
  else:
    rows = list(_distinct(record))
    print_table(console, rows, _PAIR + _COLUMNS, 'Differences a - b')
  if record.seed_rows:
    print_table(console, record.seed_rows, _SEED_COLUMNS, _ALGORITHMS)
  for line in [*_unpaired(record), *_family(record)]:
    console.print(line, soft_wrap=True, highlight=False, markup=False)


def print_table(
    console: rich.console.Console,
    rows: Iterable[Any],
    columns: Columns,
    title: str,
) -> None:
  """Prints one table, folded to a terminal's width, never to a pipe's."""
  table = rich.table.Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
  for name, _ in columns:
    table.add_column(name, overflow='fold')
  for row in rows:
    table.add_row(*(rich.text.Text(read(row)) for _, read in columns))
  if not console.is_terminal:
    console.width = 10_000  # one line a row
  console.print(title, soft_wrap=True, highlight=False, markup=False)
  with console.capture() as capture:
    console.print(table)
  lines = [line.rstrip() for line in capture.get().splitlines()]
  console.out('\n'.join(lines), highlight=False)


def to_markdown(record: Compared) -> str:
  """The report: who, on what, differences, settings, what was left out."""
  parts = ['# Comparison', _who(record), _on_what(record)]
  for each in matrices(record):
    title = f'## {each.env}: all pairs, by success'
    parts += [title, _matrix(each), _MATRIX]
  for title, rows in _by_pair(record):
    parts += [f'## {title}', _table(rows, _COLUMNS)]
  parts += [_OVER_TASKS, _DETECTABLE, *_family(record), _COUNTS]
  if record.seed_rows:
    table = _table(record.seed_rows, _SEED_COLUMNS)
    parts += [f'## {_ALGORITHMS}', table, _OVER_SEEDS]
  if record.outcomes:
    parts.append(
        'Episode ids of what was won, lost, both, neither and missing are in'
        ' `comparison.json` under `outcomes`.'
    )
  if record.settings:
    parts += ['## Settings that differ', _settings(record)]
  return '\n\n'.join(parts) + '\n'


def matrices(record: Compared) -> list[Matrix]:
  """The matrix of each environment; none of a single pair, which is a row."""
  if _pairs(record) < 2:
    return []
  return matrix.of(record.standings, record.rows, record.seed_rows)


def matrix_csv(found: Sequence[Matrix]) -> str:
  """A line for each pair of each matrix, the better side first."""
  file = io.StringIO()
  rows = [row for each in found for row in matrix.frame(each)]
  writer = csv.DictWriter(file, list(rows[0]), lineterminator='\n')
  writer.writeheader()
  writer.writerows(rows)
  return file.getvalue()


def to_csv(rows: Sequence[msgspec.Struct]) -> str:
  """Every row of one kind with every number, None as an empty cell.

  Args:
    rows: `PairedRow` or `SeedRow`, at least one.
  """
  file = io.StringIO()
  names = [name for name in rows[0].__struct_fields__ if name != 'scores']
  writer = csv.writer(file, lineterminator='\n')
  writer.writerow(names)
  for row in rows:
    writer.writerow([getattr(row, name) for name in names])
  return file.getvalue()


def _matrix(found: Matrix) -> str:
  """A table of Markdown; a row has its differences to those below it."""
  cells = {(row.a, row.b): row for row in found.rows}

  def cell(a: Standing, b: Standing) -> str:
    row = cells.get((a.label, b.label))
    if row is None or row.difference is None:
      return ''
    parts = [
        f'{row.difference:+.3f} {_interval(row.low, row.high)}',
        f'p {_p(row, row.p_value)}',
    ]
    if row.p_holm is not None:
      parts.append(f'Holm {_p(row, row.p_holm)}')
    if row.won is not None:
      parts.append(f'{row.won} won, {row.lost} lost')
    return '; '.join([*parts, f'n {row.tasks}'])

  columns = [
      ('policy', lambda x: x.label),
      ('success', lambda x: _number(x.mean)),
      ('95% over tasks', lambda x: _interval(x.low, x.high)),
      ('tasks', lambda x: str(x.tasks)),
      *(
          (f'- {other.label}', lambda x, other=other: cell(x, other))
          for other in found.standings[1:]
      ),
  ]
  return _table(found.standings, columns)


def _by_pair(record: Compared) -> Iterator[tuple[str, list[PairedRow]]]:
  """Title and rows of each environment and pair of sides."""
  pair = lambda row: (row.env, row.a, row.b)
  for (env, a, b), rows in itertools.groupby(_distinct(record), key=pair):
    yield f'{env}: {a} (a) - {b} (b), intervals over tasks', list(rows)


def _distinct(record: Compared) -> Iterator[PairedRow]:
  """Rows but those that repeat success, since a pair misses no episode."""
  key = lambda row: (row.env, row.a, row.b)
  missing = {
      key(row) for row in record.rows if row.metric == 'success' and row.missing
  }
  for row in record.rows:
    if row.metric != ERRORS_FAIL or key(row) in missing:
      yield row


def _who(record: Compared) -> str:
  columns = (
      ('policy', lambda x: x.label),
      ('evaluation', lambda x: x.evaluation),
      ('kind', lambda x: x.policy.kind),
      ('source', lambda x: x.policy.source),
      ('weight version', lambda x: x.policy.weight_version or ''),
      ('fingerprint', lambda x: (x.policy.fingerprint or '')[:12]),
  )
  return _table(record.policies, columns)


def _on_what(record: Compared) -> str:
  columns = (
      ('env', lambda x: x.env),
      ('tasks', lambda x: str(x.tasks)),
      ('samples', lambda x: str(x.samples)),
      ('success', lambda x: x.success),
      ('panel', lambda x: x.hash[:12]),
  )
  lines = [
      f'Left out for {x.a} and {x.b}: {x.env}, which only {x.only} has.'
      for x in record.skipped
  ]
  lines += _unpaired(record)
  return '\n\n'.join([_table(record.panels, columns), *lines])


def _unpaired(record: Compared) -> Iterator[str]:
  """Lines about tasks that only one side of a pair has played."""
  for x in record.unpaired:
    yield (
        f'{x.env}: {x.a} and {x.b} played panels of different tasks. Compared'
        f' are the {x.tasks} of both; left out: {x.only_a} of {x.a} alone,'
        f' {x.only_b} of {x.b} alone.'
    )


def _pairs(record: Compared) -> int:
  return len({(row.a, row.b) for row in record.rows})


def _family(record: Compared) -> Iterator[str]:
  """A line about what the p-values are adjusted for, where any is."""
  families = {row.holm_family for row in record.rows} - {None}
  if not families:
    return
  start = (
      '`p (Holm)` is adjusted for the tests of one metric in one environment'
  )
  if _pairs(record) == 1:
    yield f'{start}: those of all subtasks. `p` is of each test by itself.'
    return
  subtasks = 'pairs and subtasks' in families
  yield (
      f'{start}: all tasks for the pairs of policies'
      + ', subtasks for all subtasks of all pairs' * subtasks
      + '. `p` is of each test by itself.'
  )


def _settings(record: Compared) -> str:
  as_json = lambda value: json.dumps(value, ensure_ascii=False)
  columns = (
      ('a', lambda x: x.a),
      ('b', lambda x: x.b),
      ('setting', lambda x: x.name),
      ('of a', lambda x: as_json(x.value_a)),
      ('of b', lambda x: as_json(x.value_b)),
  )
  return _table(record.settings, columns)


def _table(rows: Iterable[Any], columns: Columns) -> str:
  """A table of Markdown."""
  escape = lambda text: ' '.join(text.replace('|', '\\|').split())
  line = lambda cells: f'| {" | ".join(cells)} |'
  lines = [line([name for name, _ in columns]), line(['---'] * len(columns))]
  lines += [line([escape(read(row)) for _, read in columns]) for row in rows]
  return '\n'.join(lines)


def _number(value: float | None, form: str = '.3f') -> str:
  return '' if value is None else format(value, form)


def _p(row: PairedRow, p_value: float | None) -> str:
  if p_value is None:
    return ''
  assert row.p_value is not None and row.test is not None  # it was tested
  bound = comparison.is_bound(row.p_value, row.test)
  return comparison.p_words(p_value, bound=bound)


def _interval(low: float | None, high: float | None) -> str:
  if low is None or high is None:
    return 'unbounded'
  return f'[{low:+.3f}, {high:+.3f}]'


def _over_seeds(low: float | None, high: float | None) -> str:
  return 'not known' if low is None else _interval(low, high)
