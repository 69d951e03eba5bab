"""Routes of the timeline: what learner, sampler and environments did in a step."""

import asyncio
import pathlib
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from agentrl.data import episodes as episodes_lib
from agentrl.errors import DataError
from agentrl.evaluation.workdirs import files, run_config
from agentrl.evaluation.workdirs.metric_lines import MetricLines
from agentrl.types import Episode
from agentrl.viewer import numbers, trace
from agentrl.viewer.state import STATE, reply
from agentrl.viewer.trace import Span

_MOST = 200  # lanes that are shown
_MOST_STEPS = 10_000
_TRAIN = 'episodes/train'


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  return [
      web.get('/api/timeline', _timeline),
      web.get('/api/trace', _trace),
  ]


async def _timeline(request: web.Request) -> web.Response:
  """GET /api/timeline: the spans of a step of a run; seconds since it began.

  A step begins where the one before has ended, and so with the evaluation in
  between.
  """
  root = request.app[STATE].root
  run = request.query.get('run', '')
  step = numbers.query(request, 'step', 0, 0, _MOST_STEPS)
  folder = files.run_folder(root, run)
  return reply(await asyncio.to_thread(of_step, folder, step))


async def _trace(request: web.Request) -> web.Response:
  """GET /api/trace: the trace of a run, for Perfetto."""
  folder = files.run_folder(
      request.app[STATE].root, request.query.get('run', '')
  )
  made = lambda: trace.trace(_lines(folder), trace.episodes_of(folder))
  response = reply(await asyncio.to_thread(made))
  name = f'{folder.name}-trace.json'
  response.headers['Content-Disposition'] = f'attachment; filename="{name}"'
  return response


def of_step(folder: pathlib.Path, step: int) -> dict[str, Any]:
  """The spans of a step of the run in a folder.

  Raises:
    DataError: the run has no such step, or its files cannot be read.
  """
  lines = _lines(folder)
  learner = [x for x in trace.of_learner(lines) if x.step == step]
  if not learner:
    raise DataError(
        f'This run has no step {step} with times; it has {len(lines)} lines of'
        ' metrics. A timeline is of a run of mode train.'
    )
  start, stop = learner[0].start, learner[-1].stop
  shown = []
  for number, line, episode in _played(folder, lines, step):
    spans = [*trace.of_episode(episode)]
    if spans and spans[-1].stop > start and spans[0].start < stop:
      shown.append((number, line, episode, spans))
  rows = trace.lanes([(x[3][0].start, x[3][-1].stop) for x in shown])
  moved = lambda span: _as_json(span, start)
  count = max(rows, default=-1) + 1
  return {
      'step': step,
      'steps': len(lines),
      'seconds': stop - start,
      'learner': [moved(span) for span in learner],
      'lanes': min(count, _MOST),
      'left_out': max(count - _MOST, 0),
      'episodes': [
          {
              'lane': row,
              'file': f'{_TRAIN}/{number:06d}.jsonl',
              'line': line,
              'name': episode.episode_id,
              'success': episode.success,
              'used_in': number,
              'spans': [moved(span) for span in spans],
          }
          for (number, line, episode, spans), row in zip(
              shown, rows, strict=True
          )
          if row < _MOST
      ],
      'busy': _busy(learner, [span for x in shown for span in x[3]]),
  }


def _lines(folder: pathlib.Path) -> list[dict[str, float]]:
  """The lines of metrics that say when their steps were."""
  table = MetricLines(folder / 'metrics.jsonl')
  table.refresh()
  lines: list[dict[str, float]] = [{} for _ in range(len(table))]
  for name in ('step', *filter(_is_time, table.names)):
    column = table.column(name)
    for row, value in zip(column.rows, column.values, strict=True):
      lines[row][name] = float(value)
  return [line for line in lines if 'step' in line and 'time' in line]


def _is_time(name: str) -> bool:
  return name == 'time' or name.startswith('time/')


def _played(
    folder: pathlib.Path, lines: list[dict[str, float]], step: int
) -> Iterator[tuple[int, int, Episode]]:
  """(step, line, episode) of those that may have been played in a step.

  They are trained on in it or, played ahead of it, in one of those after it.
  """
  rollout = run_config.known(run_config.config, folder).get('rollout') or {}
  ahead = rollout.get('ahead', 0)
  if not isinstance(ahead, int):
    ahead = 0
  bound = rollout.get('max_staleness')
  last = step + (bound if isinstance(bound, int) else 2 * ahead + 1)
  last = min(last if ahead else step, int(lines[-1]['step']))
  for number in range(step, last + 1):
    path = episodes_lib.step_path(folder, 'train', number)
    if path.exists():
      for line, episode in enumerate(episodes_lib.read(path)):
        yield number, line, episode


def _busy(learner: list[Span], turns: list[Span]) -> dict[str, float]:
  """Shares of a step in which learner, sampler and environments did something."""
  start, stop = learner[0].start, learner[-1].stop
  whole = max(stop - start, 1e-9)
  works = [(x.start, x.stop) for x in learner if x.what == 'update']
  return {'learner': _covered(works, start, stop) / whole} | {
      what: (
          _covered(
              [(x.start, x.stop) for x in turns if x.what == what], start, stop
          )
          / whole
      )
      for what in (trace.SAMPLER, trace.ENVIRONMENT)
  }


def _covered(
    intervals: list[tuple[float, float]], start: float, stop: float
) -> float:
  """Seconds between `start` and `stop` that lie in one of the intervals."""
  total, end = 0.0, start
  for first, last in sorted(intervals):
    first, last = max(first, end), min(last, stop)
    if last > first:
      total, end = total + last - first, last
  return total


def _as_json(span: Span, start: float) -> dict[str, Any]:
  return {
      'what': span.what,
      'start': span.start - start,
      'stop': span.stop - start,
      'number': span.step,
  }
