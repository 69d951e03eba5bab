"""The token inspector as one HTML page that needs nothing else.

Everything that comes from an episode is escaped: an observation may hold
markup, and it must show here as the text that it was.
"""

import html
import math
from collections.abc import Sequence

from agentrl.data import report
from agentrl.data.report import Span, TokenTable
from agentrl.types import Episode

_STYLE = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1b1f24; --quiet: #6a737d; --line: #d8dee4;
  --good: 31, 111, 208; --bad: 217, 95, 14; --differs: 140, 70, 190;
  --warn: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14181d; --ink: #e6e9ec; --quiet: #8b949e; --line: #30363d;
    --good: 72, 148, 240; --bad: 240, 130, 50; --differs: 185, 120, 235;
    --warn: #ff8a80;
  }
}
body {
  background: var(--page); color: var(--ink); margin: 0 auto; max-width: 76rem;
  padding: 1rem 1.5rem 4rem; font: 15px/1.5 system-ui, sans-serif;
}
nav {
  position: sticky; top: 0; background: var(--page); padding: .5rem 0;
  border-bottom: 1px solid var(--line); z-index: 1;
}
nav label { margin-right: 1rem; white-space: nowrap; }
nav p { margin: .3rem 0 0; color: var(--quiet); }
h2 { margin: 2.5rem 0 .5rem; overflow-wrap: anywhere; }
h3 { margin: 1rem 0 .2rem; font-size: 1rem; }
h3 small { color: var(--quiet); font-weight: normal; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
.problem { color: var(--warn); font-weight: bold; }
.tokens {
  font: 13px/1.9 ui-monospace, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; margin: .2rem 0;
}
.tokens span { border-radius: 3px; padding: 1px 0; }
.tokens span + span { border-left: 1px solid var(--page); }
.tokens span:hover { outline: 2px solid var(--ink); }
.off { color: var(--quiet); }
.on { border-bottom: 2px solid var(--ink); }
body:has(#mask:checked) .on { background: rgba(128, 128, 128, .3); }
body:has(#advantage:checked) .up { background: rgba(var(--good), var(--a)); }
body:has(#advantage:checked) .down { background: rgba(var(--bad), var(--a)); }
body:has(#difference:checked) .on { background: rgba(var(--differs), var(--d)); }
.swatch { padding: 1px .4rem; border-radius: 3px; color: var(--ink); }
summary { cursor: pointer; color: var(--quiet); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font: 12px/1.5 ui-monospace, monospace; }
th, td { padding: 0 .7rem; text-align: right; white-space: pre; }
th { border-bottom: 1px solid var(--line); }
td:nth-child(3), th:nth-child(3) { text-align: left; }
"""

_LEGEND = """
<nav>
Colour by
<label><input type="radio" name="by" id="advantage" checked> advantage</label>
<label><input type="radio" name="by" id="difference"> log-probability difference</label>
<label><input type="radio" name="by" id="mask"> mask</label>
<p><span class="on">Underlined</span> tokens were sampled and are trained on;
<span class="off">grey</span> ones were inserted and have mask 0. Advantage:
<span class="swatch" style="background: rgba(var(--good), .6)">positive</span>
<span class="swatch" style="background: rgba(var(--bad), .6)">negative</span>.
Difference of old and sampler log-probability:
<span class="swatch" style="background: rgba(var(--differs), .6)">large</span>.
Point at a token for its numbers.</p>
</nav>
"""


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
  sections = '\n'.join(_section(table, scale) for table in tables)
  return (
      '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
      '<meta name="viewport" content="width=device-width">\n'
      f'<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n'
      f'<body>\n<h1>{_text(title)}</h1>\n{_LEGEND}\n{sections}\n'
      '</body>\n</html>\n'
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
    return name  # more sampled runs than turns: told among the problems
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
  """Opacity from 0 to 0.8; what is no number gets the strongest colour."""
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
