"""An evaluation for people: lines, a table a panel, Markdown and CSV."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence

import rich.console
import rich.table

from agentrl import types
from agentrl.evaluation.results import (
    ALL,
    Figure,
    Panel,
    PolicyRecord,
    Results,
    Row,
)

_NONE = '-'
_WHY_NOT_PLAYED = {types.CONTEXT: 'the prompt did not fit the context'}
# In the order of the tables.
_FIGURES = ('success', 'success_errors_fail', 'ret', 'progress')
_NUMBERS = ('turns', 'prompt_tokens', 'completion_tokens', 'cost', 'detectable')


def describe(name: str, summary: dict) -> str:
  """One line for people: success with its interval."""
  lacking = not_played_words(summary.get('not_played', {}))
  if summary['mean'] is None:
    return f'{name}: no valid episode{lacking}'
  tasks = counted(summary['tasks'], kind_of_task(summary.get('split')))
  if seen := summary.get('trained_on'):
    tasks = f'{counted(summary["tasks"], "task")}, {seen} of them to train on'
  if summary['n'] != summary['tasks']:
    tasks = f'{counted(summary["n"], "episode")} of {tasks}'
  attempts = [
      f'{value:.3f}'
      for key, value in summary.items()
      if key.startswith('success_attempt_')
  ]
  return (
      f'{name}: success {summary["mean"]:.3f}, 95% interval'
      f' [{summary["low"]:.3f}, {summary["high"]:.3f}], {tasks}'
      + f'; by attempt {", ".join(attempts)}' * bool(attempts)
      + lacking
  )


def kind_of_task(split: str | None) -> str:
  """A held-out task, unless the split is that of training."""
  return f'{"training" if split == "train" else "held-out"} task'


def not_played_words(not_played: Mapping[str, int]) -> str:
  """Continues a line: ', 2 tasks not played (...)' by why, or ''.

  Args:
    not_played: as in `results.Row`.
  """
  why = lambda reason: _WHY_NOT_PLAYED.get(reason, reason)
  return ''.join(
      f', {counted(count, "task")} not played ({why(reason)})'
      for reason, count in not_played.items()
  )


def counted(count: int, noun: str) -> str:
  """'1 task', '2 tasks'.

  Args:
    count: how many.
    noun: for one.
  """
  return f'{count} {noun}{"s" * (count != 1)}'


def show(console: rich.console.Console, results: Results) -> None:
  """Prints a table of each panel, or in a pipe a line of each row."""
  for panel in results.panels:
    rows = [row for row in results.rows if row.env == panel.env]
    if console.is_terminal:
      console.print(_table(panel, rows))
      for line in _short(rows):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
      continue
    for row in rows:
      several = len(results.policies) > 1
      name = f'{row.policy}, {panel.env}' if several else panel.env
      # A pipe gets one fact a line, in letters of any encoding.
      text = _line(f'{name}, {row.subtask}', row)
      console.print(text, highlight=False, markup=False, soft_wrap=True)


def _line(name: str, row: Row) -> str:
  errors = f', {counted(row.errors, "error")}' if row.errors else ''
  errors += not_played_words(row.not_played)
  if row.success is None:
    return f'{name}: no valid episode{errors}'
  assert row.ret is not None  # as the success
  progress = f', progress {row.progress.mean:.3f}' if row.progress else ''
  return (
      f'{name}: success {row.success.mean:.3f}, 95% interval'
      f' [{row.success.low:.3f}, {row.success.high:.3f}], return'
      f' {row.ret.mean:.3f}{progress}, {row.turns:.1f} turns,'
      f' {counted(row.n, "episode")} of {counted(row.tasks, "task")}{errors}'
      + ''.join(
          f', attempt {k} {attempt.success.mean:.3f}'
          for k, attempt in row.attempts.items()
      )
  )


def _table(panel: Panel, rows: Sequence[Row]) -> rich.table.Table:
  table = rich.table.Table(title=f'Success on {panel.env}')
  for column in ('policy', 'subtask'):
    table.add_column(column)
  numbers = _attempts(rows)
  for column in (
      'success',
      '95% interval',
      *(f'attempt {k}' for k in numbers),
      'return',
      'progress',
      'turns',
      'episodes',
      'errors',
  ):
    table.add_column(column, justify='right')
  for row in rows:
    table.add_row(
        row.policy,
        row.subtask,
        _mean(row.success),
        _interval(row.success),
        *(_mean(_success_of(row, k)) for k in numbers),
        _mean(row.ret),
        _mean(row.progress),
        _number(row.turns, '.1f'),
        str(row.n),
        str(row.errors),
    )
  return table


def markdown(results: Results) -> str:
  """The whole evaluation as a page."""
  lines = ['# Evaluation', '', '## Policies', '']
  lines += markdown_table(
      ('policy', 'kind', 'source', 'weights', 'template', 'sampler'),
      map(_policy_cells, results.policies),
  )
  for panel in results.panels:
    rows = [row for row in results.rows if row.env == panel.env]
    lines += ['', f'## {panel.env}', '', panel_words(panel), '']
    lines += markdown_table(*_row_cells(rows))
    for line in _short(rows):
      lines += ['', f'{line}. Only "errors fail" counts them.']
  lines += [
      '',
      (
          'Intervals hold the true mean in 95% of repetitions; the method is'
          ' wilson (one success or failure a cluster), clustered, t (no bounds)'
          ' or conservative (fewer than six clusters are above the least value,'
          ' fewer than six below the greatest, or all are equal: for success,'
          ' fewer than six have a success, or a failure). A cluster is a task,'
          ' or all tasks of one template. Success, return and progress leave'
          ' failures of the infrastructure out; "errors fail" counts each as a'
          ' failure. "Detectable" is the smallest difference in success to'
          ' another policy that such a panel shows in 80% of repetitions; pairs'
          ' of one panel show smaller ones.'
      ),
  ]
  return '\n'.join(lines) + '\n'


def _short(rows: Sequence[Row]) -> Iterator[str]:
  """A line about each policy that did not play all tasks of a panel."""
  for row in rows:
    if row.subtask == ALL and row.not_played:
      total = row.tasks + sum(row.not_played.values())
      yield (
          f'{row.policy}: figures of {row.tasks} of {counted(total, "task")}'
          + not_played_words(row.not_played)
      )


def _policy_cells(policy: PolicyRecord) -> list[str]:
  weights = policy.weight_version or _NONE
  if policy.fingerprint:
    weights += f' (SHA-256 {policy.fingerprint[:12]})'
  sampler = ', '.join(f'{k}={v}' for k, v in policy.sampler.items())
  return [
      policy.name,
      policy.kind,
      policy.source,
      weights,
      policy.template or _NONE,
      sampler or _NONE,
  ]


def panel_words(panel: Panel) -> str:
  """A line that describes a panel."""
  options = ', '.join(f'{k}={v!r}' for k, v in panel.options.items())
  played = counted(panel.samples, 'episode')
  if panel.attempts > 1:
    chains = counted(panel.samples, 'chain')
    played = f'{chains} of {panel.attempts} attempts'
  source = panel.task_file or f'the {panel.split} split'
  version = f', data version {panel.data_version}'
  return (
      f'{counted(len(panel.task_ids), "task")} of {source}, {played} each, at'
      f' most {counted(panel.horizon, "turn")}, seed {panel.seed}'
      + (version if panel.data_version != 1 else '')
      + (f', {options}' if options else '')
      + f'. Success: {panel.success} Panel `{panel.hash}`.'
  )


def _row_cells(
    rows: Sequence[Row],
) -> tuple[tuple[str, ...], list[list[str]]]:
  """Head and body; columns that no row has are left out."""
  reports = any(row.progress for row in rows)
  costs = any(row.cost is not None for row in rows)
  ks = _ks(rows)
  head = ['policy', 'subtask', 'success', 'method', 'errors fail', 'return']
  head += ['progress'] * reports
  attempts = _attempts(rows)
  head += [f'attempt {k}' for k in attempts]
  head += [f'{name}{k}' for k in ks for name in ('pass@', 'pass^')]
  head += ['turns', 'tokens in', 'tokens out', *['cost'] * costs]
  head += ['episodes', 'tasks', 'errors', 'stops', 'detectable']

  def cells(row: Row) -> list[str]:
    texts = [row.policy, row.subtask, figure_words(row.success)]
    texts.append(row.success.method if row.success else _NONE)
    texts += [figure_words(row.success_errors_fail), figure_words(row.ret)]
    texts += [figure_words(row.progress)] * reports
    texts += [figure_words(_success_of(row, k)) for k in attempts]
    for k in ks:
      texts += [figure_words(x.get(k)) for x in (row.pass_at_k, row.pass_hat_k)]
    texts += [_number(row.turns, '.1f')]
    texts += [_number(row.prompt_tokens, '.0f')]
    texts += [_number(row.completion_tokens, '.0f')]
    texts += [_number(row.cost, '.4f')] * costs
    stops = ', '.join(f'{k} {v}' for k, v in row.stop_reasons.items())
    texts += [str(row.n), str(row.tasks), str(row.errors), stops]
    return [*texts, _number(row.detectable, '.3f')]

  return tuple(head), list(map(cells, rows))


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]]
) -> Iterator[str]:
  """The lines of a table."""
  for cells in (head, ['---'] * len(head), *rows):
    escaped = (str(x).replace('|', '\\|').replace('\n', ' ') for x in cells)
    yield f'| {" | ".join(escaped)} |'


def as_csv(results: Results) -> str:
  """The rows with a column for each number."""
  ks = _ks(results.rows)
  reasons = sorted({x for row in results.rows for x in row.stop_reasons})
  attempts = _attempts(results.rows)
  lines = [_csv_record(row, ks, attempts, reasons) for row in results.rows]
  file = io.StringIO()
  writer = csv.DictWriter(file, list(lines[0]), lineterminator='\n')
  writer.writeheader()
  writer.writerows(lines)
  return file.getvalue()


def _csv_record(
    row: Row,
    ks: Sequence[str],
    attempts: Sequence[str],
    reasons: Sequence[str],
) -> dict[str, object]:
  names = ('env', 'subtask', 'policy', 'n', 'tasks', 'errors')
  record: dict[str, object] = {name: getattr(row, name) for name in names}
  figures = {
      name.replace('ret', 'return'): getattr(row, name) for name in _FIGURES
  }
  for k in ks:
    figures[f'pass_at_{k}'] = row.pass_at_k.get(k)
    figures[f'pass_hat_{k}'] = row.pass_hat_k.get(k)
  for k in attempts:
    attempt = row.attempts.get(k)
    figures[f'success_attempt_{k}'] = attempt and attempt.success
    figures[f'return_attempt_{k}'] = attempt and attempt.ret
  for name, figure in figures.items():
    record[name] = figure and figure.mean
    record[f'{name}_low'] = figure and figure.low
    record[f'{name}_high'] = figure and figure.high
    record[f'{name}_method'] = figure and figure.method
  record |= {name: getattr(row, name) for name in _NUMBERS}
  record['not_played'] = sum(row.not_played.values())
  return record | {f'stop_{x}': row.stop_reasons.get(x, 0) for x in reasons}


def _ks(rows: Sequence[Row]) -> list[str]:
  """The k of pass@k beyond 1, where both are the success."""
  return sorted({k for row in rows for k in row.pass_at_k} - {'1'}, key=int)


def _attempts(rows: Sequence[Row]) -> list[str]:
  """The numbers of attempts at a task; none where there is one alone."""
  return sorted({k for row in rows for k in row.attempts}, key=int)


def _success_of(row: Row, attempt: str) -> Figure | None:
  return row.attempts[attempt].success if attempt in row.attempts else None


def _mean(figure: Figure | None) -> str:
  return _NONE if figure is None else f'{figure.mean:.3f}'


def _interval(figure: Figure | None) -> str:
  if figure is None:
    return _NONE
  return f'{_end(figure.low)} to {_end(figure.high)}'


def figure_words(figure: Figure | None) -> str:
  """A mean with its interval."""
  if figure is None:
    return _NONE
  return f'{figure.mean:.3f} [{_end(figure.low)}, {_end(figure.high)}]'


def _end(end: float | None) -> str:
  return 'unknown' if end is None else f'{end:.3f}'


def _number(value: float | None, form: str) -> str:
  return _NONE if value is None else f'{value:{form}}'
