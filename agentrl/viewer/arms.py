"""Routes of the groups of runs: their table, and curves over training seeds."""

import asyncio
import csv
import functools
import io
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from agentrl.errors import DataError
from agentrl.evaluation.studies import (
    arms as arms_lib,
    chance,
    curves as curves_lib,
    tables,
)
from agentrl.evaluation.studies.arms import Arm
from agentrl.evaluation.workdirs import folders, run_config, run_facts
from agentrl.runtime import workdir
from agentrl.viewer import numbers, recordings, runs
from agentrl.viewer.runs import MetricFiles
from agentrl.viewer.state import STATE, State, reply

MOST_ARMS = 8  # drawn at a time: as many as there are colours
_MOST_POINTS = 500
_MOST_VALUES = 60_000  # of the single runs of a metric
_IQM_POINTS = 100  # each has a bootstrap of its own
_SEED = 0  # of the bootstraps


def fields_of(request: web.Request) -> tuple[str, ...]:
  """The fields that `group` of a request names, with commas between."""
  names = request.query.get('group', '').split(',')
  return tuple(filter(None, map(str.strip, names)))


async def grouped(state: State, fields: Sequence[str]) -> list[Arm]:
  """The arms of all runs that learn, in the order of their first runs.

  Raises:
    DataError: no run has one of the fields.
  """
  names = await state.runs()
  return await asyncio.to_thread(_grouped, state.root, names, fields)


def _grouped(
    root: pathlib.Path, names: Sequence[str], fields: Sequence[str]
) -> list[Arm]:
  return _sorted_out(root, _stamps(root, names), tuple(fields))


def _stamps(
    root: pathlib.Path, names: Sequence[str]
) -> tuple[tuple[str, tuple[Any, ...]], ...]:
  """Runs, each with what changes when its config does; empty: it has none."""
  named = (workdir.CONFIG,)
  return tuple((name, folders.stamp_of(root / name, named)) for name in names)


def _differing(root: pathlib.Path, names: Sequence[str]) -> dict[str, int]:
  """Fields in which configs of runs that learn differ -> how many values."""
  return _counted(root, _stamps(root, names))


@functools.lru_cache(8)
def _sorted_out(
    root: pathlib.Path,
    stamps: tuple[tuple[str, tuple[Any, ...]], ...],
    fields: tuple[str, ...],
) -> list[Arm]:
  learning = _learning(root, stamps)
  return arms_lib.sort_out(learning, fields) if learning else []


@functools.lru_cache(2)
def _counted(
    root: pathlib.Path, stamps: tuple[tuple[str, tuple[Any, ...]], ...]
) -> dict[str, int]:
  return arms_lib.differing(_learning(root, stamps))


def _learning(
    root: pathlib.Path, stamps: Sequence[tuple[str, tuple[Any, ...]]]
) -> dict[str, Mapping[str, Any]]:
  """Configs of the runs that learn."""
  configs = {
      name: run_config.known(run_config.config, root / name)
      for name, stamp in stamps
      if stamp
  }
  return {
      name: config
      for name, config in configs.items()
      if config.get('mode') in arms_lib.LEARNING
  }


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  kept = MetricFiles()

  async def curves(request: web.Request) -> web.Response:
    """GET /api/arms/curves: of each `metric`, the curve of each `arm`."""
    state, query = request.app[STATE], request.query
    statistic = query.get('stat', 'mean')
    if statistic not in curves_lib.STATISTICS:
      known = ', '.join(curves_lib.STATISTICS)
      raise DataError(f'stat is one of {known}, got {statistic!r}.')
    limit = numbers.query(request, 'points', _MOST_POINTS, 2, _MOST_POINTS)
    smoothing = runs.number(query.get('smooth', '0'), 'smooth', 0.0, 0.999)
    axis = runs.axis_of(request)
    chosen = _chosen(
        await grouped(state, fields_of(request)), query.getall('arm', [])
    )
    # Hundreds of thin lines need not be as fine as one.
    count = sum(len(arm.runs) for arm in chosen)
    fewer = min(limit, max(_MOST_VALUES // count, 2))
    if statistic == 'iqm':
      limit = min(fewer, _IQM_POINTS)
    answer = await asyncio.to_thread(
        _curves,
        kept,
        state.root,
        chosen,
        query.getall('metric', []),
        axis=axis,
        smoothing=smoothing,
        limit=limit,
        runs_limit=fewer,
        statistic=statistic,
    )
    return reply(answer)

  return [
      web.get('/api/arms', _arms),
      web.get('/api/arms.csv', _table),
      web.get('/api/arms/curves', curves),
  ]


async def _arms(request: web.Request) -> web.Response:
  """GET /api/arms: the arms, by the fields of `group`, best first."""
  state = request.app[STATE]
  found = await grouped(state, fields_of(request))
  names = await state.runs()
  rows = await asyncio.to_thread(_rows, state.root, names, found)
  return reply({
      'root': state.root.name,
      'group': fields_of(request),
      'fields': await asyncio.to_thread(_differing, state.root, names),
      'rows': rows,
  })


async def _table(request: web.Request) -> web.Response:
  """GET /api/arms.csv: the same."""
  state = request.app[STATE]
  found = await grouped(state, fields_of(request))
  rows = await asyncio.to_thread(_rows, state.root, await state.runs(), found)
  return as_csv(rows)


def as_csv(rows: Sequence[Mapping[str, Any]]) -> web.Response:
  """Rows as a download; columns of any row, in the order of their first."""
  text = io.StringIO()
  writer = csv.DictWriter(text, tables.columns(rows))
  writer.writeheader()
  for row in rows:
    writer.writerow({
        name: ';'.join(value) if isinstance(value, list) else value
        for name, value in row.items()
    })
  return web.Response(
      text=text.getvalue(),
      content_type='text/csv',
      headers={'Content-Disposition': 'attachment'},  # the link names it
  )


def _rows(
    root: pathlib.Path, names: Sequence[str], found: Sequence[Arm]
) -> list[dict[str, Any]]:
  by_run = {
      run: arms_lib.scores(run_facts.read(root, run))
      for arm in found
      for run in arm.runs
  }
  references = chance.references(root, names, recordings.load)
  levels = {
      arm.name: chance.of_arm(root, arm, references, recordings.load)
      for arm in found
  }
  return arms_lib.rows(found, by_run, levels, seed=_SEED)


def _chosen(found: Sequence[Arm], names: Sequence[str]) -> list[Arm]:
  """The arms that a request names.

  Raises:
    DataError: there is no such arm, or they are too many.
  """
  by_name = {arm.name: arm for arm in found}
  names = list(dict.fromkeys(names))
  if not 1 <= len(names) <= MOST_ARMS:
    raise DataError(f'Choose 1 to {MOST_ARMS} groups, not {len(names)}.')
  if unknown := [name for name in names if name not in by_name]:
    raise DataError(f'There is no group {unknown[0]!r} here.')
  return [by_name[name] for name in names]


def _curves(
    kept: MetricFiles,
    root: pathlib.Path,
    chosen: Sequence[Arm],
    metrics: Sequence[str],
    *,
    axis: str,
    smoothing: float,
    limit: int,
    runs_limit: int,
    statistic: str,
) -> dict[str, Any]:
  found: dict[str, dict[str, Any]] = {metric: {} for metric in metrics}
  names: dict[str, None] = {}
  with kept:
    for arm in chosen:
      lines = {
          run: kept.read(root / run / run_facts.METRICS) for run in arm.runs
      }
      for each in lines.values():
        names |= dict.fromkeys(each.names)
      for metric in metrics:
        curve = curves_lib.of_arm(
            lines,
            metric,
            axis=axis,
            smoothing=smoothing,
            limit=limit,
            runs_limit=runs_limit,
            statistic=statistic,
        )
        if curve is not None:
          found[metric][arm.name] = curves_lib.as_json(curve)
  return {
      'curves': found,
      'names': [name for name in names if name not in ('step', 'time')],
      'unit': curves_lib.STATISTICS[statistic],
      'levels': runs.levels(
          {arm.name: root / arm.runs[0] for arm in chosen}, metrics
      ),
  }
