"""Curves of a run: axes, smoothing, decimation, stages of the horizon.

Step s of the x axis is the policy after s steps: what step s (from 0) plays and
learns stands at s, an evaluation after it at s + 1, and those before training
at 0.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import signal

from agentrl.evaluation.workdirs.metric_lines import MetricLines

AXES = ('step', 'time', 'tokens')
# Evaluations of a run's panels; those before training have other prefixes.
_BEFORE = {'eval/': 'eval_before/', 'eval_small/': 'eval_small_before/'}
_HORIZON = 'rollout/horizon'


class Stage(NamedTuple):
  """Steps `[start, stop)` that had one horizon, and where they lie on x."""

  turns: int
  start: int
  stop: int
  x0: float
  x1: float


class Curve(NamedTuple):
  """Points of a metric, at most as many as were asked for.

  Attributes:
    x: `[N]` on the axis that was asked for.
    step: `[N]` integers, the step of each, from 0; of an evaluation, the steps
      before it. Its episodes are in a file of this number.
    y: `[N]` values; of a bucket of lines, their mean.
    low: `[N]` the interval's end, or the least value of a bucket; None: neither.
    high: likewise, the greatest.
    raw: `[N]` values before smoothing; None: `y` are they, or buckets' means.
    total: points before decimation.
    interval: True if `low` and `high` are an interval of the metric.
  """

  x: np.ndarray
  step: np.ndarray
  y: np.ndarray
  low: np.ndarray | None
  high: np.ndarray | None
  raw: np.ndarray | None
  total: int
  interval: bool


class Positions(NamedTuple):
  """Where each line is on x: `[N]` its step's begin, and `[N]` its end.

  A line follows from itself and those before it alone: lines of metrics may
  lack a step, or have one twice.
  """

  begin: np.ndarray
  end: np.ndarray


def positions(lines: MetricLines, axis: str) -> Positions:
  """Positions in steps, seconds since the first line, or tokens played before.

  Seconds have no span: a line is written when its step has ended.
  """
  if axis == 'step':
    steps = _steps(lines)
    return Positions(steps, steps + 1)
  if axis == 'time':
    times = _dense(lines, 'time', np.zeros(len(lines)))
    since = times - times[:1]
    return Positions(since, since)
  tokens = _tokens(lines)
  end = np.cumsum(tokens)
  return Positions(end - tokens, end)


def curve(
    lines: MetricLines,
    name: str,
    *,
    axis: str,
    smoothing: float,
    limit: int,
) -> Curve:
  """The curve of a metric.

  Evaluations get those before training as their first point and are never
  smoothed; `NAME_low` and `NAME_high` are the ends of their interval.

  Args:
    lines: of the run.
    name: of the metric.
    axis: one of `AXES`.
    smoothing: weight of the past in the exponential mean, in [0, 1).
    limit: points at most.
  """
  rows, values = lines.column(name)
  x = positions(lines, axis)
  steps = _steps(lines)
  panel = next((prefix for prefix in _BEFORE if name.startswith(prefix)), None)
  if panel is None:
    smoothed = smooth(values, smoothing) if smoothing else None
    return decimate(x.begin[rows], steps[rows], values, smoothed, limit=limit)
  at, done = x.end[rows], steps[rows] + 1
  low, high = (_ends(lines, name, rows, end) for end in ('_low', '_high'))
  if early := _early(lines, _BEFORE[panel] + name.removeprefix(panel)):
    at, values = np.append(0.0, at), np.append(early[0], values)
    low, high = np.append(early[1], low), np.append(early[2], high)
    done = np.append(0, done)
  has_interval = bool(np.isfinite(low).any())
  return Curve(
      x=at,
      step=done,
      y=values,
      low=low if has_interval else None,
      high=high if has_interval else None,
      raw=None,
      total=len(values),
      interval=has_interval,
  )


def untrained(lines: MetricLines) -> tuple[float, float, float] | None:
  """Success of the untrained policy with its interval; None: not evaluated."""
  columns = [
      lines.column(f'eval_untrained/success{end}').values
      for end in ('', '_low', '_high')
  ]
  if any(len(values) == 0 for values in columns):
    return None
  mean, low, high = (float(values[0]) for values in columns)
  return mean, low, high


def stages(lines: MetricLines, axis: str) -> list[Stage]:
  """The stages of the horizon; none where no line has one."""
  rows, turns = lines.column(_HORIZON)
  if not len(rows):
    return []
  x = positions(lines, axis)
  steps = _steps(lines)
  begins = np.flatnonzero(np.append(True, turns[1:] != turns[:-1]))
  ends = np.append(begins[1:], len(rows))
  horizon_stages = []
  for first, end in zip(begins, ends, strict=True):
    last = rows[end - 1]
    x1 = x.begin[rows[end]] if end < len(rows) else x.end[last]
    horizon_stages.append(
        Stage(
            turns=int(turns[first]),
            start=int(steps[rows[first]]),
            stop=int(steps[last]) + 1,
            x0=float(x.begin[rows[first]]),
            x1=float(x1),
        )
    )
  return horizon_stages


def smooth(values: np.ndarray, weight: float) -> np.ndarray:
  """Exponential means `[N]`, without bias to a start at 0.

  Values that are not finite stay what they are and change no other.

  Args:
    values: `[N]`.
    weight: of the past, in [0, 1).
  """
  finite = np.isfinite(values)
  means = np.array(values, np.float64)
  kept = means[finite]
  mean = signal.lfilter([1 - weight], [1, -weight], kept)
  means[finite] = mean / (1 - weight ** np.arange(1, len(kept) + 1))
  return means


def decimate(
    x: np.ndarray,
    steps: np.ndarray,
    values: np.ndarray,
    smoothed: np.ndarray | None,
    *,
    limit: int,
) -> Curve:
  """At most `limit` points: the means of buckets of neighbouring lines.

  `low` and `high` are the least and the greatest value of a bucket, so that no
  peak is lost. A bucket without a finite value has NaN or infinities.

  Args:
    x: `[N]`.
    steps: `[N]`.
    values: `[N]`.
    smoothed: `[N]`, drawn in place of the values; None: they are.
    limit: points at most.
  """
  total = len(values)
  shown = values if smoothed is None else smoothed
  if total <= limit:
    raw = None if smoothed is None else values
    return Curve(x, steps, shown, None, None, raw, total, False)
  starts = np.arange(limit) * total // limit
  sizes = np.diff(np.append(starts, total))
  middle = starts + sizes // 2
  finite = np.isfinite(values)
  count = np.add.reduceat(finite, starts, dtype=np.int64)
  with np.errstate(invalid='ignore'):  # 0 / 0: a bucket of nothing
    mean = np.add.reduceat(np.where(finite, shown, 0.0), starts) / count
  low = np.minimum.reduceat(np.where(finite, values, np.inf), starts)
  high = np.maximum.reduceat(np.where(finite, values, -np.inf), starts)
  return Curve(x[middle], steps[middle], mean, low, high, None, total, False)


def as_json(metric_curve: Curve) -> dict[str, Any]:
  """Lists for a page."""
  return {
      name: value.tolist() if isinstance(value, np.ndarray) else value
      for name, value in metric_curve._asdict().items()
  }


def _steps(lines: MetricLines) -> np.ndarray:
  number = np.arange(len(lines))
  steps = _dense(lines, 'step', number)
  return np.where(np.isfinite(steps), steps, number).astype(np.int64)


def _dense(lines: MetricLines, name: str, default: np.ndarray) -> np.ndarray:
  """A value for each line, the default's where a line is broken."""
  rows, values = lines.column(name)
  column = np.array(default, np.float64)
  column[rows] = values
  return column


def _tokens(lines: MetricLines) -> np.ndarray:
  """Tokens of each line: of the episodes played, else of those learnt from."""
  zeros = np.zeros(len(lines))
  mean = _dense(lines, 'rollout/episode_tokens_mean', zeros)
  if mean.any():
    played = _dense(lines, 'rollout/episodes', zeros)
    return mean * (played - _dense(lines, 'rollout/invalid', zeros))
  return _dense(lines, 'train/tokens', zeros)


def _early(lines: MetricLines, name: str) -> list[float] | None:
  """Value and interval of an evaluation before training; None: none."""
  values = [lines.column(name + end).values for end in ('', '_low', '_high')]
  if not len(values[0]):
    return None
  return [float(v[0]) if len(v) else np.nan for v in values]


def _ends(
    lines: MetricLines, name: str, rows: np.ndarray, end: str
) -> np.ndarray:
  """An end of a metric's interval in its lines; NaN where there is none."""
  ends = np.full(len(lines), np.nan)
  where, values = lines.column(name + end)
  ends[where] = values
  return ends[rows]
