"""A study as one HTML page that needs no server, no script and no other file."""

import io
import itertools
import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jinja2
import numpy as np

from agentrl import shipped
from agentrl.evaluation.compare import comparison
from agentrl.evaluation.curves import figure as figure_lib
from agentrl.evaluation.studies.arms import LEVELS
from agentrl.evaluation.studies.study import METRICS, Rows, Study

WHAT = 'The page of a study'
_MOST_TASKS = 200  # of an environment; the table beside has all
_ALPHA = 0.05
_TEMPLATE = pathlib.Path(__file__).with_name('page.html.jinja')
_STYLE: dict[Any, Any] = {
    'svg.fonttype': 'none',
    'svg.hashsalt': 'study',
    'font.size': 9,
}


def html(study: Study, *, title: str, command: str) -> str:
  """The page; to be written as UTF-8.

  Args:
    study: that it shows.
    title: in its head.
    command: that makes it.

  Raises:
    ConfigError: curves cannot be drawn here; names what to install.
  """
  environment = jinja2.Environment(
      autoescape=True,
      undefined=jinja2.StrictUndefined,
      trim_blocks=True,
      lstrip_blocks=True,
  )
  environment.filters |= {
      'share': _share,
      'signed': _signed,
      'value': _value,
      'ends': _ends,
  }
  template = environment.from_string(_TEMPLATE.read_text('utf-8'))
  return template.render(
      study=study,
      title=title,
      command=command,
      levels=LEVELS,
      findings=list(_findings(study.matrix)),
      matrices=list(_matrices(study.matrix)),
      tasks=list(_tasks(study.tasks)),
      arms=list(dict.fromkeys(row['group'] for row in study.groups)),
      figure=_figure(study.curves) if study.curves else '',
  )


def command(folder: str, group: Sequence[str], workdir: str) -> str:
  """The command that makes the page of a folder."""
  argument = f'folder={folder}'
  if group:
    argument += f',group={";".join(group)}'
  return (
      f"{shipped.command()} '--config=configs/study.py:{argument}'"
      f' --workdir={workdir}'
  )


def _findings(rows: Rows) -> Iterator[dict[str, Any]]:
  """The best of each environment, against the next one."""
  for env, group in itertools.groupby(rows, key=lambda row: row['env']):
    pairs = list(group)
    best = pairs[0]
    others = [row for row in pairs if row['a'] == best['a']]
    sure = [row for row in others if _differs(row)]
    yield {
        'env': env,
        'row': best,
        'p': _p(best),
        'real': _differs(best),
        'worse': [row['b'] for row in sure],
        'others': len(others),
    }


def _differs(row: Mapping[str, Any]) -> bool:
  """True if tasks, and seeds where there are several, show that a is better.

  Sides are ranked by all that each has played: on the tasks of both, the worse
  one may be ahead.
  """
  p = _adjusted(row)
  if p is None or p >= _ALPHA or row['difference'] <= 0:
    return False
  if row['seeds'] is None:  # a single run of one of them
    return True
  return row['seed_low'] is not None and row['seed_low'] > 0


def _adjusted(row: Mapping[str, Any]) -> float | None:
  """Holm's p; a single pair is no family, and has its own."""
  return row['p_value'] if row['p_holm'] is None else row['p_holm']


def _matrices(rows: Rows) -> Iterator[dict[str, Any]]:
  """Each environment's columns, best first, and its pairs by both labels."""
  for env, group in itertools.groupby(rows, key=lambda row: row['env']):
    pairs = {(row['a'], row['b']): row for row in group}
    success: dict[str, float | None] = {}
    for (a, b), row in pairs.items():
      success.setdefault(a, row['success_a'])
      success.setdefault(b, row['success_b'])
    yield {
        'env': env,
        'success': success,
        'pairs': pairs,
        'p': {key: _p(row) for key, row in pairs.items()},
        'differs': {key for key, row in pairs.items() if _differs(row)},
    }


def _p(row: Mapping[str, Any]) -> str:
  p = _adjusted(row)
  if p is None:
    return '–'
  bound = comparison.is_bound(row['p_value'], row['test'])
  return comparison.p_words(p, bound=bound)


def _tasks(rows: Rows) -> Iterator[dict[str, Any]]:
  """Each environment's tasks, hardest first: cells by column."""
  for env, group in itertools.groupby(rows, key=lambda row: row['env']):
    columns: dict[str, None] = {}
    tasks: dict[int, dict[str, Any]] = {}
    for row in group:
      columns.setdefault(row['column'])
      task = tasks.setdefault(
          row['task'],
          {
              'task': row['task'],
              'subtask': row['subtask'],
              'failed': row['failed_by_all'],
              'cells': {},
          },
      )
      task['cells'][row['column']] = row
    yield {
        'env': env,
        'columns': list(columns),
        'rows': list(tasks.values())[:_MOST_TASKS],
        'all': len(tasks),
        'failed': sum(task['failed'] for task in tasks.values()),
    }


def _figure(rows: Rows) -> str:
  """Curves of all groups as an SVG element: a panel a metric."""
  figure_lib.check_drawing(WHAT)
  import matplotlib
  from matplotlib import figure as drawing_lib

  found = [m for m in METRICS if any(row['metric'] == m for row in rows)]
  names = list(dict.fromkeys(row['group'] for row in rows))
  colours = dict(zip(names, itertools.cycle(figure_lib.COLOURS), strict=False))
  with matplotlib.rc_context(figure_lib.STYLE | _STYLE):
    drawing = drawing_lib.Figure(
        figsize=(11, 2.8 * -(-len(found) // 2) + 0.2 * len(names) + 0.4),
        layout='constrained',
    )
    panels = drawing.subplots(-(-len(found) // 2), 2, squeeze=False)
    for metric, axes in itertools.zip_longest(found, panels.flat):
      if metric is None:
        axes.set_axis_off()
        continue
      _draw(axes, [row for row in rows if row['metric'] == metric], colours)
      axes.set_title(metric, loc='left')
      axes.set_xlabel('steps')
    handles, labels = panels.flat[0].get_legend_handles_labels()
    drawing.legend(
        handles, labels, loc='outside lower left', frameon=False, ncols=1
    )
    text = io.StringIO()
    drawing.savefig(text, format='svg', metadata={'Date': None})
  # Of a document of its own: the page has it inside.
  return re.sub(r'(?s)^.*?(?=<svg)', '', text.getvalue())


def _draw(axes: Any, rows: Rows, colours: Mapping[str, str]) -> None:
  for name, colour in colours.items():
    own = [row for row in rows if row['group'] == name]
    if not own:
      continue
    number = lambda key: np.array([row[key] for row in own], np.float64)  # noqa: B023
    x = number('step')
    axes.plot(x, number('mean'), color=colour, lw=1.4, label=name)
    axes.fill_between(
        x, number('low'), number('high'), color=colour, alpha=0.15, linewidth=0
    )


def _share(value: float | None) -> str:
  return '–' if value is None else f'{value:.3f}'


def _signed(value: float | None) -> str:
  return '–' if value is None else f'{value:+.3f}'.replace('-', '−')


def _ends(pair: Sequence[float | None], signed: bool = False) -> str:
  """An interval in brackets; nothing where it is not known."""
  if None in pair:
    return ''
  show = _signed if signed else _share
  return f'[{show(pair[0])}, {show(pair[1])}]'


def _value(value: Any) -> str:
  """A field of a config as it is written in flags."""
  if isinstance(value, str):
    return value
  return json.dumps(value, ensure_ascii=False)
