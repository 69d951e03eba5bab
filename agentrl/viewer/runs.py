"""Routes of the runs: facts about them, their configs and their curves."""

import asyncio
import collections
import csv
import dataclasses
import io
import pathlib
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aiohttp import web

from agentrl.errors import DataError
from agentrl.evaluation.chance import metrics as chance_metrics, store
from agentrl.evaluation.workdirs import files, run_config, run_facts, series
from agentrl.evaluation.workdirs.metric_lines import MetricLines
from agentrl.viewer.state import STATE, reply

_MOST_RUNS = 8
_MOST_POINTS = 5_000
_KEPT_BYTES = 2**28  # of metrics in memory, but for those of one request
# 'policy/loss' is of metrics.jsonl, 'warmstart:policy/loss' of another file.
_OTHER = re.compile(r'(warmstart|rounds/\d+/sft):(.+)')


class MetricFiles:
  """Files of metrics, the last ones asked for kept in memory.

  Used in one thread at a time, within `with`.
  """

  def __init__(self):
    self._found: collections.OrderedDict[pathlib.Path, MetricLines] = (
        collections.OrderedDict()
    )
    self._size = 0  # of all: a sum for each of thousands took minutes
    self._lock = threading.Lock()

  def read(self, path: pathlib.Path) -> MetricLines:
    """The lines of a file as they are now; none where it is missing.

    Raises:
      DataError: it cannot be read.
    """
    lines = self._found.pop(path, None)
    if lines is None:
      lines = MetricLines(path)
    self._size -= lines.size
    lines.refresh()
    self._found[path] = lines
    self._size += lines.size
    while self._size > _KEPT_BYTES and len(self._found) > _MOST_RUNS:
      self._size -= self._found.popitem(last=False)[1].size
    return lines

  def __enter__(self) -> 'MetricFiles':
    self._lock.acquire()
    return self

  def __exit__(self, *exc_info) -> None:
    self._lock.release()


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  kept = MetricFiles()

  async def curves(request: web.Request) -> web.Response:
    """GET /api/curves: curves of several runs, decimated."""
    query = _Asked.of(request)
    folders = _folders(request)
    answer = await asyncio.to_thread(_curves, kept, folders, query)
    return reply(answer)

  async def table(request: web.Request) -> web.Response:
    """GET /api/curves.csv: the same, every point."""
    query = _Asked.of(request)
    folders = _folders(request)
    text = await asyncio.to_thread(_csv, kept, folders, query)
    return web.Response(
        text=text,
        content_type='text/csv',
        headers={'Content-Disposition': 'attachment'},  # the link names it
    )

  async def metrics(request: web.Request) -> web.Response:
    """GET /api/metrics: names of all metrics of some runs."""
    answer = await asyncio.to_thread(_names, kept, _folders(request))
    return reply(answer)

  return [
      web.get('/api/runs', _runs),
      web.get('/api/config', _config),
      web.get('/api/metrics', metrics),
      web.get('/api/curves', curves),
      web.get('/api/curves.csv', table),
  ]


@dataclasses.dataclass(frozen=True)
class _Asked:
  """The curves that the query of a request asks for."""

  metrics: list[str]
  axis: str
  smoothing: float
  limit: int

  @classmethod
  def of(cls, request: web.Request) -> '_Asked':
    query = request.query
    return cls(
        metrics=query.getall('metric', []),
        axis=axis_of(request),
        smoothing=number(query.get('smooth', '0'), 'smooth', 0.0, 0.999),
        limit=int(
            number(query.get('points', '500'), 'points', 2, _MOST_POINTS)
        ),
    )


def axis_of(request: web.Request) -> str:
  """The axis of the curves that a request asks for.

  Raises:
    DataError: there is no such axis.
  """
  axis = request.query.get('x', 'step')
  if axis not in series.AXES:
    raise DataError(f'x is one of {", ".join(series.AXES)}, got {axis!r}.')
  return axis


def number(text: str, name: str, least: float, most: float) -> float:
  """A number in the query of a request.

  Raises:
    DataError: it is none, or out of bounds.
  """
  try:
    value = float(text)
  except ValueError:
    value = float('nan')
  if not least <= value <= most:
    raise DataError(f'{name} is a number in [{least}, {most}], got {text!r}.')
  return value


async def _runs(request: web.Request) -> web.Response:
  """GET /api/runs: the facts of all runs."""
  state = request.app[STATE]
  names = await state.runs()

  read = lambda: [run_facts.read(state.root, name) for name in names]
  return reply({
      'root': state.root.name,
      'runs': await asyncio.to_thread(read),
  })


async def _config(request: web.Request) -> web.Response:
  """GET /api/config: the config of one run, or where those of several differ."""
  configs = {
      run: run_config.known(run_config.config, folder)
      for run, folder in _folders(request).items()
  }
  return reply({
      'runs': list(configs),
      'without': [run for run, config in configs.items() if not config],
      'fields': len({n for c in configs.values() for n in run_facts.flat(c)}),
      'rows': run_facts.differences(configs),
      'config': (
          run_facts.flat(next(iter(configs.values())))
          if len(configs) == 1
          else None
      ),
  })


def _folders(request: web.Request) -> dict[str, pathlib.Path]:
  """The folders of the runs that a request names."""
  runs = list(dict.fromkeys(request.query.getall('run', [])))
  if not 1 <= len(runs) <= _MOST_RUNS:
    raise DataError(f'Choose 1 to {_MOST_RUNS} runs, not {len(runs)}.')
  root = request.app[STATE].root
  return {run: files.run_folder(root, run) for run in runs}


def _names(
    kept: MetricFiles, folders: dict[str, pathlib.Path]
) -> dict[str, Any]:
  names: dict[str, None] = {}
  broken = {}
  with kept:
    for run, folder in folders.items():
      for path, prefix in _files(folder):
        lines = kept.read(path)
        own = [n for n in lines.names if n not in ('step', 'time')]
        names |= dict.fromkeys(prefix + name for name in own)
        if lines.broken:
          broken[f'{run}/{path.name}'] = lines.broken
  return {'names': list(names), 'broken': broken}


def _files(folder: pathlib.Path) -> Iterator[tuple[pathlib.Path, str]]:
  """A run's files of metrics, with the prefix of their names."""
  yield folder / run_facts.METRICS, ''
  others = [folder / run_facts.WARMSTART, *folder.glob('rounds/*/sft.jsonl')]
  for path in others:
    prefix = path.relative_to(folder).with_suffix('').as_posix() + ':'
    if path.is_file() and _OTHER.match(prefix + '-'):
      yield path, prefix


def _open(
    kept: MetricFiles, folder: pathlib.Path, metric: str
) -> tuple[MetricLines, str]:
  """The file that has a metric, and its name there."""
  if other := _OTHER.fullmatch(metric):
    stem, name = other.groups()
    return kept.read(folder / f'{stem}.jsonl'), name
  return kept.read(folder / run_facts.METRICS), metric


def _curves(
    kept: MetricFiles, folders: dict[str, pathlib.Path], query: _Asked
) -> dict[str, Any]:
  with kept:
    lines = {
        run: kept.read(folder / run_facts.METRICS)
        for run, folder in folders.items()
    }
    return {
        'curves': {
            metric: {
                run: series.as_json(curve)
                for run, curve in _each(kept, folders, metric, query)
            }
            for metric in query.metrics
        },
        'stages': {
            run: [stage._asdict() for stage in series.stages(own, query.axis)]
            for run, own in lines.items()
        },
        'untrained': {run: series.untrained(own) for run, own in lines.items()},
        'levels': levels(folders, query.metrics),
    }


def levels(
    folders: Mapping[str, pathlib.Path], metrics: Sequence[str]
) -> dict[str, dict[str, dict[str, float]]]:
  """Success of random actions and the expert on the tasks of a metric.

  By metric, run and kind.
  """
  found: dict[str, dict[str, dict[str, float]]] = {}
  for run, folder in folders.items():
    own = store.read_levels(folder)
    for metric in metrics:
      if beside := chance_metrics.beside(own, metric):
        found.setdefault(metric, {})[run] = beside
  return found


def _each(
    kept: MetricFiles,
    folders: dict[str, pathlib.Path],
    metric: str,
    query: _Asked,
) -> Iterator[tuple[str, series.Curve]]:
  """The curve of each run that has the metric."""
  for run, folder in folders.items():
    lines, name = _open(kept, folder, metric)
    curve = series.curve(
        lines,
        name,
        # Updates before the first step have an axis of their own.
        axis='step' if name != metric else query.axis,
        smoothing=query.smoothing,
        limit=query.limit,
    )
    if len(curve.x):
      yield run, curve


def _csv(
    kept: MetricFiles, folders: dict[str, pathlib.Path], query: _Asked
) -> str:
  """One row for each run, metric and point, not decimated."""
  text = io.StringIO()
  out = csv.writer(text)
  out.writerow(['run', 'metric', 'step', 'x', 'value', 'low', 'high'])
  query = dataclasses.replace(query, limit=2**62)
  with kept:
    for metric in query.metrics:
      for run, curve in _each(kept, folders, metric, query):
        ends = [
            [''] * len(curve.x) if end is None else end.tolist()
            for end in (curve.low, curve.high)
        ]
        columns = [
            column.tolist()
            for column in (curve.step.astype(int), curve.x, curve.y)
        ]
        for step, x, y, low, high in zip(*columns, *ends, strict=True):
          out.writerow([run, metric, step, x, y, low, high])
  return text.getvalue()
