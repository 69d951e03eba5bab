"""The token inspector as one HTML page that needs nothing else.

Everything that comes from an episode is escaped: an observation may hold
markup, and it must show here as the text that it was. rich's `export_html` of
`report.terminal` would need 40 times as long (71 s for 24,000 tokens), and has
neither numbers at a token nor a choice of colours.
"""

import html
import math
import pathlib
import string
from collections.abc import Sequence

from agentrl.data import report
from agentrl.data.report import Span, TokenTable
from agentrl.types import Episode

_PAGE = pathlib.Path(__file__).with_name('report.html')


def page(tables: Sequence[TokenTable], *, title: str) -> str:
  """Renders episodes as a self-contained page.

  Args:
    tables: what to show, a section each.
    title: of the page.

  Returns:
    HTML, to be written as UTF-8. Colours follow the reader's dark or light
    setting; there is no script in it.
  """
  # One scale for the page: a colour means the same in every episode.
  advantages = [
      abs(value)
      for t in tables
      if t.advantages is not None
      for value in t.advantages
  ]
  scale = max(filter(math.isfinite, advantages), default=0.0)
  return string.Template(_PAGE.read_text('utf-8')).substitute(
      title=_text(title),
      sections='\n'.join(_section(table, scale) for table in tables),
  )


def _text(text: str) -> str:
  return html.escape(report.visible(text))


def _section(table: TokenTable, scale: float) -> str:
  episode = table.episode
  facts = ''.join(
      f'<dt>{_text(name)}</dt><dd>{_text(value)}</dd>'
      for name, value in report.facts(episode).items()
  )
  problems = ''.join(
      f'<p class="problem">{_text(problem)}</p>'
      for problem in report.problems(table)
  )
  blocks = ''.join(_block(table, span, scale) for span in report.spans(episode))
  return (
      f'<section>\n<h2>{_text(episode.episode_id)}</h2>\n<dl>{facts}</dl>\n'
      f'{problems}{blocks}<details><summary>All numbers</summary>'
      f'<div class="wide">{_table(table)}</div></details>\n</section>'
  )


def _block(table: TokenTable, span: Span, scale: float) -> str:
  tokens = ''.join(
      _token(table, index, span.turn is not None, scale)
      for index in range(span.start, span.stop)
  )
  return (
      f'<h3>{_heading(table.episode, span)}</h3>\n'
      f'<div class="tokens">{tokens}</div>\n'
  )


def _heading(episode: Episode, span: Span) -> str:
  if span.turn is None:
    name = 'Prompt' if span.start == 0 else 'Observation'
    return f'{name} <small>{span.stop - span.start} tokens, mask 0</small>'
  name = f'Turn {span.turn + 1}'
  if span.turn >= len(episode.turns):
    return name  # more sampled runs than turns: one of the problems
  words = report.turn_facts(episode.turns[span.turn])
  return f'{name} <small>{_text(words)}</small>'


def _token(table: TokenTable, index: int, sampled: bool, scale: float) -> str:
  text = _text(table.texts[index])
  numbers = [f'{index}: id {table.episode.tokens[index]}, mask {int(sampled)}']
  numbers += [
      f'{name} {values[index]:.6g}' for name, values in table.columns().items()
  ]
  hover = html.escape('\n'.join(numbers))
  if not sampled:
    return f'<span class="off" title="{hover}">{text}</span>'
  style, kind = [], 'on'
  if table.advantages is not None and scale:
    advantage = table.advantages[index]
    kind += ' up' if advantage > 0 else ' down' if advantage < 0 else ''
    style.append(f'--a: {_strength(advantage, scale):.2f}')
  difference = table.logprob_difference(index)
  if difference is not None:
    # 0.1 is where a ratio leaves [0.9, 1.1]: full colour from there on.
    style.append(f'--d: {_strength(difference, 0.1):.2f}')
  return (
      f'<span class="{kind}" style="{"; ".join(style)}" title="{hover}">'
      f'{text}</span>'
  )


def _strength(value: float, scale: float) -> float:
  """Opacity from 0 to 0.8; NaN and infinity get the strongest colour."""
  if not math.isfinite(value):
    return 0.8
  return 0.8 * min(abs(value) / scale, 1.0)


def _table(table: TokenTable) -> str:
  episode, columns = table.episode, table.columns()
  names = ('index', 'id', 'token', 'mask', *columns)
  head = ''.join(f'<th>{_text(name)}</th>' for name in names)
  rows = []
  for index, sampled in enumerate(episode.completion_mask):
    cells = (
        str(index),
        str(episode.tokens[index]),
        html.escape(report.cell(table.texts[index])),
        str(int(sampled)),
        *(report.number(values[index]) for values in columns.values()),
    )
    kind = '' if sampled else ' class="off"'
    body = ''.join(f'<td>{cell}</td>' for cell in cells)
    rows.append(f'<tr{kind}>{body}</tr>')
  return f'<table><tr>{head}</tr>{"".join(rows)}</table>'
