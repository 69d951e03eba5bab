"""Curves at test time as tables of Markdown."""

import itertools
from collections.abc import Mapping, Sequence

from agentrl.evaluation import report
from agentrl.evaluation.curves.curves import (
    TOKENS,
    TURNS,
    Curves,
    Point,
    grid,
    temperature_of,
)
from agentrl.evaluation.results import Panel

UNITS = {TURNS: 'turns', TOKENS: 'sampled tokens'}
_WORDS = (
    'Success, and pass@k of k attempts at a task, if every attempt is cut after'
    ' so many turns, or sampled tokens. Nothing is played for it: a policy is'
    ' not told its horizon, so it succeeds within h turns if its episode does'
    ' and ends by then. A turn counts within a budget of tokens if all of its'
    ' tokens are. All points of a policy are of the same episodes; failures of'
    ' the infrastructure are left out. Each interval holds its mean in 95% of'
    ' repetitions; a whole curve is within all of them less often. pass@k needs'
    ' somebody who knows which attempt succeeded.'
)
_NONE = '-'

Table = tuple[list[str], list[list[str]]]  # head and rows


def markdown(curves: Curves) -> str:
  """The curves as a page."""
  lines = ['# Success at test time', '', _WORDS]
  for panel in curves.panels:
    lines += ['', f'## {panel.env}', '', report.panel_words(panel)]
    for title, (head, rows) in _tables(curves, panel).items():
      if rows:
        lines += ['', f'### {title}', '', *report.markdown_table(head, rows)]
  return '\n'.join(lines) + '\n'


def by_temperature(
    curves: Curves, panel: Panel
) -> dict[str, list[tuple[float, dict[int, Point]]]]:
  """Points at the horizon, of the sources that have several temperatures.

  Returns:
    By source, in order of temperature, the points by k.
  """
  at = _grouped(curves.of(panel.env, TURNS), 'limit')
  lines: dict[str, list[tuple[float, dict[int, Point]]]] = {}
  for policy in curves.policies:
    temperature, whole = temperature_of(policy), at.get(
        (policy.name, panel.horizon)
    )
    if temperature is not None and whole is not None:
      lines.setdefault(policy.source, []).append((temperature, whole))
  return {
      source: sorted(line, key=lambda x: x[0])
      for source, line in lines.items()
      if len(line) > 1
  }


def figure_name(k: int) -> str:
  """The name of the success of k attempts."""
  return 'success' if k == 1 else f'pass@{k}'


def _tables(curves: Curves, panel: Panel) -> dict[str, Table]:
  """Tables by title; without rows where there is nothing to show."""
  turns, tokens = (curves.of(panel.env, by) for by in (TURNS, TOKENS))
  tables = {'Turns allowed': _by_limit(panel, turns)}
  if any(x.k > 1 for x in turns):
    tables['The same turns in all'] = _by_total(turns, TURNS)
  tables['The same sampled tokens in all'] = _by_total(tokens, TOKENS)
  tables['Temperature'] = _temperatures(curves, panel)
  return tables


def _by_limit(panel: Panel, points: Sequence[Point]) -> Table:
  """Success by turns: every number of them is in the JSON file."""
  ks = _ks(points)
  shown = {*grid(1, panel.horizon), panel.horizon}
  rows = [
      [policy, str(limit), *_cells(at, ks), _number(at[1].sampled)]
      for (policy, limit), at in _grouped(points, 'limit').items()
      if limit in shown
  ]
  return ['policy', 'turns', *map(figure_name, ks), 'sampled tokens'], rows


def _by_total(points: Sequence[Point], by: str) -> Table:
  """Success by the sum over attempts; of several k where two of them meet."""
  ks, groups = _ks(points), _grouped(points, 'total')
  shown = set(grid(1, max((total for _, total in groups), default=1)))
  rows = [
      [policy, str(total), *_cells(at, ks)]
      for (policy, total), at in groups.items()
      if total in shown and len(at) >= min(len(ks), 2)
  ]
  attempts = [f'{k} attempts' if k > 1 else '1 attempt' for k in ks]
  return ['policy', f'{UNITS[by]} in all', *attempts], rows


def _temperatures(curves: Curves, panel: Panel) -> Table:
  lines = by_temperature(curves, panel)
  ks = _ks(
      [x for line in lines.values() for _, at in line for x in at.values()]
  )
  rows = [
      [source, f'{temperature:g}', *_cells(at, ks), _number(at[1].sampled)]
      for source, line in lines.items()
      for temperature, at in line
  ]
  head = ['source', 'temperature', *map(figure_name, ks), 'sampled tokens']
  return head, rows


def _grouped(
    points: Sequence[Point], name: str
) -> dict[tuple[str, int], dict[int, Point]]:
  """Points by policy and `limit` or `total`, ordered, then by k."""
  policies = list(dict.fromkeys(x.policy for x in points))
  order = lambda x: (policies.index(x.policy), getattr(x, name))
  return {
      (policies[index], number): {x.k: x for x in at}
      for (index, number), at in itertools.groupby(
          sorted(points, key=order), key=order
      )
  }


def _ks(points: Sequence[Point]) -> list[int]:
  return sorted({x.k for x in points})


def _cells(at: Mapping[int, Point], ks: Sequence[int]) -> list[str]:
  return [report.figure_words(at[k].success) if k in at else _NONE for k in ks]


def _number(value: float | None) -> str:
  return _NONE if value is None else f'{value:.1f}'
