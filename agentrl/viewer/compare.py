"""Routes of the comparison of two evaluations on one panel.

The statistics are those of mode 'compare', by the same functions.
"""

import asyncio
import collections
import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

from agentrl.errors import DataError, PanelError
from agentrl.evaluation import results
from agentrl.evaluation.compare import pairing, record as compared, sides
from agentrl.evaluation.compare.sides import Side
from agentrl.evaluation.studies import chance
from agentrl.evaluation.workdirs import files, panels, run_facts, series
from agentrl.evaluation.workdirs.metric_lines import MetricLines
from agentrl.evaluation.workdirs.panels import Evaluated
from agentrl.viewer import recordings
from agentrl.viewer.state import STATE, State, reply

_SEED = 0  # of the permutation tests' draws; mode 'compare' has it by default


def routes() -> list[web.RouteDef]:
  """The routes of this module."""

  async def compare(request: web.Request) -> web.Response:
    """GET /api/compare: two evaluations, `a` and `b`, on one panel.

    Or `refused`: why they have no panel in common.
    """
    state = request.app[STATE]
    specs = [request.query.get(side, '') for side in 'ab']
    if not all(specs):
      raise DataError('Choose two evaluations, a and b, each as RUN:NAME.')
    if specs[0] == specs[1]:
      raise DataError('These are one evaluation; choose another for b.')
    try:
      comparison = await asyncio.to_thread(
          _compare, state.root, await state.runs(), *specs
      )
    except PanelError as error:  # an answer, and no mistake of the page
      return reply({'refused': str(error)})
    await _locate(state, comparison)
    return reply(comparison)

  async def stages(request: web.Request) -> web.Response:
    """GET /api/stages: a run's evaluations, each against the one before."""
    state = request.app[STATE]
    run = request.query.get('run', '')
    folder = files.run_folder(state.root, run)
    answer = await asyncio.to_thread(_stages, state.root, run, folder)
    return reply(answer)

  return [
      web.get('/api/evaluations', _evaluations),
      web.get('/api/compare', compare),
      web.get('/api/stages', stages),
  ]


async def _evaluations(request: web.Request) -> web.Response:
  """GET /api/evaluations: all that can be compared."""
  state = request.app[STATE]
  runs = await state.runs()

  def find() -> list[dict[str, Any]]:
    return [
        evaluation._asdict()
        for run in runs
        for evaluation in panels.find(state.root, run)
    ]

  return reply({'evaluations': await asyncio.to_thread(find)})


def _compare(
    root: pathlib.Path, names: Sequence[str], *specs: str
) -> dict[str, Any]:
  runs = [recordings.load(root, spec) for spec in specs]
  comparison = msgspec.to_builtins(compared.compare_policies(runs, seed=_SEED))
  played = runs[0].panels
  for panel in comparison['panels']:
    panel['split'] = played[panel['env']].split
    panel['horizon'] = played[panel['env']].horizon
  references = chance.references(root, names, recordings.load)
  a, b = (Side('', [run]) for run in runs)
  common = sides.paired(a, sides.common_panels(a, b)[0])
  levels = {
      env: {kind: level.mean for kind, level in found.items()}
      for env, found in chance.levels(common, references).items()
  }
  return comparison | {'specs': specs, 'levels': levels}


async def _locate(state: State, comparison: dict[str, Any]) -> None:
  """Adds where each episode is: `places`, by side, environment and id."""
  await state.index.ready()
  places: dict[str, dict[str, dict[str, Any]]] = {}
  for side, spec in zip('ab', comparison['specs'], strict=True):
    run, _, name = spec.rpartition(':')
    folder = state.root / run
    if (folder / results.FILE).is_file():
      chosen, value = "origin = 'eval' AND policy = ?", name
    else:
      chosen, value = 'file = ?', f'episodes/{name}.jsonl'
    rows = await state.query(
        'SELECT file, line, episode_id, env, turns, "return" FROM episodes JOIN'
        f' files USING (file_id) WHERE run = ? AND {chosen}',
        (run, value),
    )
    places[side] = collections.defaultdict(dict)
    for row in rows:
      places[side][row['env']][row['episode_id']] = {
          'run': run,
          'file': row['file'],
          'line': row['line'],
          'turns': row['turns'],
          'return': row['return'],
      }
  comparison['places'] = places


def _stages(
    root: pathlib.Path, run: str, folder: pathlib.Path
) -> dict[str, Any]:
  """Neighbouring evaluations of a run, and the first against the last."""
  evaluated = panels.find(root, run)
  if any(each.step is None for each in evaluated):
    raise DataError(f'{run} is an evaluation; it has no stages.')
  lines = MetricLines(folder / run_facts.METRICS)
  lines.refresh()
  horizon = series.stages(lines, 'step')
  spans: list[tuple[Evaluated, Evaluated]] = []
  for _, group in itertools.groupby(evaluated, lambda each: each.panel):
    of_panel = list(group)
    spans += itertools.pairwise(of_panel)
    trained = [each for each in of_panel if (each.step or 0) >= 0]
    if len(trained) > 2:
      spans.append((trained[0], trained[-1]))
  return {
      'run': run,
      'stages': [stage._asdict() for stage in horizon],
      'rows': [_span(root, first, second, horizon) for first, second in spans],
  }


def _span(
    root: pathlib.Path,
    first: Evaluated,
    second: Evaluated,
    horizon: Sequence[series.Stage],
) -> Mapping[str, Any]:
  """The later of two evaluations of a run against the earlier.

  `row` is of all tasks; where they have no panel in common, `refused` says why.
  """
  assert first.step is not None and second.step is not None  # of a run
  between = [
      stage.turns
      for stage in horizon
      if stage.start < second.step and stage.stop > first.step
  ]
  span = {
      'a': second.spec,
      'b': first.spec,
      'before': first.label,
      'after': second.label,
      'horizons': list(dict.fromkeys(between)) if second.step > 0 else [],
  }
  try:
    a = Side('later', [recordings.load(root, second.spec)])
    b = Side('earlier', [recordings.load(root, first.spec)])
    shared, _ = sides.common_panels(a, b)
  except (DataError, PanelError) as error:
    return span | {'refused': str(error)}
  a, b = (sides.paired(side, shared) for side in (a, b))
  rows = pairing.compare_sides(a, b, shared, seed=_SEED)
  return span | {'row': next(rows)}  # success on all tasks is the first
