"""Curves at test time as a figure.

It needs matplotlib, which is imported when it is drawn: evaluations without
curves work without it.
"""

import importlib.util
import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from agentrl import shipped
from agentrl.errors import ConfigError
from agentrl.evaluation.curves import report as curves_report
from agentrl.evaluation.curves.curves import TOKENS, TURNS, Curves, Point
from agentrl.evaluation.results import Panel

# For policies: colours that everybody tells apart (Okabe and Ito).
COLOURS = (
    '#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000',
)  # fmt: skip
Line = Literal['-', '--', '-.', ':']
_LINES: tuple[Line, ...] = ('-', '--', '-.', ':')  # for numbers of attempts
STYLE: dict[Any, float] = {  # by matplotlib's names
    'font.size': 9,
    'axes.spines.top': False,
    'axes.spines.right': False,
    'axes.grid': True,
    'grid.alpha': 0.3,
    'savefig.dpi': 150,
}

Colours = Mapping[str, str]  # of matplotlib, by policy
Lines = Mapping[int, Line]  # likewise, by k


def check_drawing(what: str = 'eval.curves=True') -> None:
  """Refuses where no figure can be drawn.

  Args:
    what: draws, in words.

  Raises:
    ConfigError: names what to install.
  """
  if importlib.util.find_spec('matplotlib') is None:
    raise ConfigError(
        f'{what} draws with matplotlib: pip install -r'
        f' {shipped.requirements("notebooks")}'
    )


def draw(curves: Curves, path: pathlib.Path) -> None:
  """Writes the figure, in the format of the file's ending."""
  import matplotlib

  with matplotlib.rc_context(STYLE):
    figure(curves).savefig(path)


def figure(curves: Curves) -> Any:
  """The figure of matplotlib: a row a panel, by turns, tokens and temperature.

  Turns and tokens are those that all attempts at a task may use together.
  Bands are the intervals of one attempt.
  """
  from matplotlib import figure as figure_lib

  panels = curves.panels
  units = [TURNS]
  if any(curves.of(panel.env, TOKENS) for panel in panels):
    units.append(TOKENS)
  has_temperatures = any(
      curves_report.by_temperature(curves, panel) for panel in panels
  )
  columns = len(units) + has_temperatures
  drawing = figure_lib.Figure(
      figsize=(3.6 * columns + 1.8, 2.9 * len(panels)), layout='constrained'
  )
  rows = drawing.subplots(len(panels), columns, squeeze=False)
  names = [policy.name for policy in curves.policies]
  colours = dict(zip(names, itertools.cycle(COLOURS), strict=False))
  ks = sorted({point.k for point in curves.points})
  lines = dict(zip(ks, itertools.cycle(_LINES), strict=False))
  for panel, row in zip(panels, rows, strict=True):
    for by, axes in zip(units, row, strict=False):
      _draw_totals(axes, curves.of(panel.env, by), colours, lines)
      axes.set_xlabel(f'{curves_report.UNITS[by]} in all')
    if has_temperatures:
      _draw_temperatures(row[-1], curves, panel, colours, lines)
    for axes in row:
      axes.set_ylim(-0.02, 1.02)
    row[0].set_ylabel(f'success on {panel.env}')
  drawing.legend(
      handles=_handles(colours, lines),
      loc='outside right upper',
      frameon=False,
  )
  return drawing


def _draw_totals(
    axes: Any, points: Sequence[Point], colours: Colours, lines: Lines
) -> None:
  key = lambda x: (x.policy, x.k)
  for (policy, k), group in itertools.groupby(sorted(points, key=key), key=key):
    line = sorted(group, key=lambda x: x.total)
    totals = [x.total for x in line]
    _draw_line(axes, totals, line, colours[policy], lines[k])
  if points:
    axes.set_xscale('log', base=2)
    axes.xaxis.set_major_formatter(lambda x, _: f'{x:g}')


def _draw_temperatures(
    axes: Any, curves: Curves, panel: Panel, colours: Colours, lines: Lines
) -> None:
  for line in curves_report.by_temperature(curves, panel).values():
    for k in line[0][1]:
      pairs = [(temperature, at[k]) for temperature, at in line if k in at]
      temperatures, points = zip(*pairs, strict=True)
      # In the colour of the lowest temperature.
      _draw_line(
          axes, temperatures, points, colours[line[0][1][1].policy], lines[k]
      )
  axes.set_xlabel(f'temperature, {panel.horizon} turns an attempt')


def _draw_line(
    axes: Any,
    xs: Sequence[float],
    points: Sequence[Point],
    colour: str,
    style: str,
) -> None:
  means = [x.success.mean for x in points]
  axes.plot(xs, means, style, color=colour, marker='o', ms=2.5, lw=1.2)
  if points[0].k == 1:
    low = [x.success.low for x in points]
    high = [x.success.high for x in points]
    axes.fill_between(xs, low, high, color=colour, alpha=0.15, linewidth=0)


def _handles(colours: Colours, lines: Lines) -> list[Any]:
  """The legend of colours and, where there are several, of lines."""
  from matplotlib import lines as lines_lib

  handles = [
      lines_lib.Line2D([], [], color=colour, label=name)
      for name, colour in colours.items()
  ]
  if len(lines) < 2:
    return handles
  return handles + [
      lines_lib.Line2D(
          [],
          [],
          color='grey',
          linestyle=style,
          label=curves_report.figure_name(k),
      )
      for k, style in lines.items()
  ]
