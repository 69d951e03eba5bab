"""The log of trials, and the table of fault by phase that it makes."""

import collections
import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from tests.faults.runs import PHASES

OUTCOMES = ('equal', 'typed', 'lost')


def read(path: pathlib.Path) -> list[dict[str, Any]]:
  """The finished trials in a log; a line that was cut off is none."""
  if not path.exists():
    return []
  lines = path.read_text().splitlines(keepends=True)
  return [json.loads(line) for line in lines if line.endswith('\n')]


def append(path: pathlib.Path, result: Mapping[str, Any]) -> None:
  with path.open('a') as file:
    file.write(json.dumps(result) + '\n')


def hits(result: Mapping[str, Any]) -> list[dict[str, Any]]:
  """The blows of a trial that hit: no run was over, no process missing."""
  return [x for x in result['blows'] if x['hit']]


def markdown(results: Iterable[Mapping[str, Any]]) -> str:
  """A table of the phases that faults hit, and what became of their runs."""
  results = list(results)
  counts: dict[str, Any] = collections.defaultdict(collections.Counter)
  for result in results:
    for blow in hits(result):
      hit = blow['hit'] if blow['hit'] in PHASES else 'other'
      for place in (hit, 'all'):
        counts[blow['fault']][place, result['outcome']] += 1
        counts['all'][place, result['outcome']] += 1
  columns = (*PHASES, 'other', 'all')
  lines = [
      f'| fault | {" | ".join(columns)} |',
      f'|---|{"---|" * len(columns)}',
  ]
  for fault in [*sorted(x for x in counts if x != 'all'), 'all']:
    cells = [_cell(counts[fault], column) for column in columns]
    lines.append(f'| {fault} | {" | ".join(cells)} |')
  hours = sum(x['seconds'] for x in results) / 3600
  seeds = sorted({x['seed'] for x in results})
  count = sum(len(hits(x)) for x in results)
  lines += [
      '',
      (
          f'{count} faults in {len(results)} runs of seed'
          f' {", ".join(map(str, seeds))}, {hours:.1f} hours.'
      ),
  ]
  return '\n'.join(lines)


def _cell(counts, column) -> str:
  words = [
      f'{counts[column, outcome]} {outcome}'
      for outcome in OUTCOMES
      if counts[column, outcome]
  ]
  return ', '.join(words)
