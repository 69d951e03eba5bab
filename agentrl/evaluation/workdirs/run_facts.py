"""Facts about the runs and evaluations below a folder, from the files they leave.

Nothing here reads a whole file of metrics: a list of runs has to open at once.
"""

import dataclasses
import functools
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import msgspec

from agentrl.errors import DataError
from agentrl.evaluation import results as results_lib
from agentrl.evaluation.chance import store
from agentrl.evaluation.chance.level import KINDS
from agentrl.evaluation.compare import record as compared
from agentrl.evaluation.workdirs import (
    files,
    folders,
    metric_lines,
    run_config,
)
from agentrl.runtime import lock, summary as summary_lib, workdir

METRICS = 'metrics.jsonl'
WARMSTART = 'warmstart.jsonl'
# What a run writes at its end, or as it goes on.
_WRITTEN = (
    workdir.CONFIG,
    METRICS,
    summary_lib.FILE,
    WARMSTART,
    store.FILE,
    results_lib.FILE,
    compared.FILE,
)
_LOCK = 'lock'
_STAMPED = (_LOCK, *_WRITTEN)
_MOST_RESULTS = 2**26  # bytes of an evaluation.json: 100,000 tasks have some MB
_TAIL = 2**20  # bytes in which the last evaluation of a live run is looked for


@dataclasses.dataclass(frozen=True)
class Rate:
  """Success with its 95% interval; None where nothing was played."""

  mean: float | None
  low: float | None
  high: float | None
  n: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
  """A run or an evaluation, as a list of them shows it.

  Attributes:
    run: path relative to the folder of all.
    status: 'live', 'finished', 'stopped' (by a signal, or killed: there is no
      summary) or 'failed' (by an error).
    reason: what ended a run early; None: that is not known.
    mode: of its config; None: not known, as are the next ones.
    env: names of its environments.
    model: name of its model; of an evaluation, those of its policies.
    algorithm: name of its algorithm.
    seed: of the run.
    steps: steps done.
    planned: steps of the whole run; None: not known before it ends.
    success: by evaluation ('untrained', 'before', 'step_N', 'after', each with
      `/MEMBER` in a mixture) or by policy.
    started: seconds since 1970, as `updated`.
    updated: when its files were last written.
    wall_s: seconds that it took; of one without a summary, from its start to
      its last record.
    chance: success of random actions and the expert on the run's panel, by
      kind, in a mixture by `KIND/MEMBER`.
    compares: the evaluations of a comparison, each as `RUN:NAME`, in their
      order there; empty: it is none, or they are not below the folder of all.
  """

  run: str
  status: str
  mode: str | None
  env: str | None
  model: str | None
  algorithm: str | None
  seed: int | None
  steps: int | None
  planned: int | None
  success: Mapping[str, Rate]
  started: float | None
  updated: float | None
  wall_s: float | None
  chance: Mapping[str, Rate] = dataclasses.field(default_factory=dict)
  compares: tuple[str, ...] = ()
  reason: str | None = None


def read(root: pathlib.Path, run: str) -> Facts:
  """The facts of one run; files that are missing or torn leave them unknown.

  Kept while the files are as they are: a list of thousands opens again at once.
  """
  folder = root / run
  stamp = folders.stamp_of(folder, _STAMPED)
  # Of a run that was killed nothing is written: its lock alone is free then.
  named = any(name == _LOCK and size for name, _, size in stamp)
  live = named and lock.holder(folder) is not None
  return _read(root, run, live, stamp)


@functools.lru_cache(16_384)
def _read(
    root: pathlib.Path, run: str, live: bool, stamp: tuple[Any, ...]
) -> Facts:
  del stamp  # another one where the files have changed
  folder = root / run
  config = run_config.known(run_config.config, folder)
  summary = run_config.known(run_config.summary, folder)
  # Of most runs most files are missing: a look at all of them is one at each.
  written = {name: at for name, at, _ in folders.stamp_of(folder, _WRITTEN)}
  evaluation = _evaluation(folder) if results_lib.FILE in written else None
  first: Mapping[str, Any] = {}
  last: Mapping[str, Any] = {}
  late: list[Mapping[str, Any]] = []
  if live:
    summary = {}  # of an earlier process, which the run has gone beyond
  finished = summary_lib.finished(summary)
  if not finished:
    first, last, late = _ends(folder / METRICS)
  chance = _rates(summary.get('chance')) if finished else _chance(folder)
  in_seconds = lambda at: None if at is None else at / 1e9
  started = in_seconds(written.get(workdir.CONFIG))
  updated = in_seconds(max(written.values(), default=None))
  mode = config.get('mode') or summary.get('mode')
  if not mode and compared.FILE in written:
    mode = 'compare'  # of an earlier version, which left no summary
  plays = mode not in ('evaluate', 'compare')
  steps = summary.get('steps') if plays else None
  if (done := _step(last)) is not None:
    steps = done + 1
  wall_s = summary.get('wall_s')
  if wall_s is None and started and updated:
    wall_s = max(updated - started, 0.0)
  return Facts(
      run=run,
      status='live'
      if live
      else summary_lib.FINISHED
      if finished or mode == 'compare'
      else summary_lib.FAILED
      if summary.get('status') == summary_lib.FAILED
      else summary_lib.STOPPED,
      mode=mode,
      env=_envs(config, evaluation),
      model=_models(config, evaluation),
      algorithm=_at(config, 'algo', 'name'),
      seed=config.get('seed'),
      steps=steps,
      planned=_planned(config, summary if finished else {}),
      success=(
          _policies(evaluation)
          if evaluation
          else _success(summary, config, first, late)
      ),
      started=started,
      updated=updated,
      wall_s=wall_s,
      chance=chance,
      compares=_compares(root, folder) if compared.FILE in written else (),
      reason=None if finished else summary.get('reason'),
  )


def flat(config: Mapping[str, Any], prefix: str = '') -> dict[str, Any]:
  """The fields of a config by dotted name."""
  fields: dict[str, Any] = {}
  _flatten(config, prefix, fields)
  return fields


def _flatten(
    config: Mapping[str, Any], prefix: str, fields: dict[str, Any]
) -> None:
  for name, value in config.items():
    # The class first: an abstract one is slow to ask for, of thousands of configs.
    if value and (value.__class__ is dict or isinstance(value, Mapping)):
      _flatten(value, f'{prefix}{name}.', fields)
    else:
      fields[prefix + name] = value


def differences(
    configs: Mapping[str, Mapping[str, Any]],
) -> list[dict[str, Any]]:
  """Fields in which configs differ: `name`, and `values` in their order.

  A config that lacks a field has None there, and `missing` names its index.
  """
  flats = [flat(config) for config in configs.values()]
  names = sorted({name for fields in flats for name in fields})
  rows = []
  for name in names:
    values = [fields.get(name) for fields in flats]
    missing = [i for i, fields in enumerate(flats) if name not in fields]
    if any(value != values[0] for value in values) or missing:
      rows.append({'name': name, 'values': values, 'missing': missing})
  return rows


def _ends(
    path: pathlib.Path,
) -> tuple[Mapping[str, Any], Mapping[str, Any], list[Mapping[str, Any]]]:
  """First and last whole line of metrics, and late lines with evaluations."""
  try:
    with path.open('rb') as file:
      first = metric_lines.decode(file.readline(_TAIL)) or {}
      size = file.seek(0, os.SEEK_END)
      file.seek(max(size - _TAIL, 0))
      tail = file.read()
  except OSError:
    return {}, {}, []
  if size > _TAIL:
    tail = tail.partition(b'\n')[2]
  whole = tail.rpartition(b'\n')[0].splitlines()
  records = filter(None, map(metric_lines.decode, reversed(whole)))
  last = next((x for x in records if _step(x) is not None), {})
  evaluations = [
      metric_lines.decode(line) for line in whole if b'"eval/' in line
  ]
  late = [
      record for record in evaluations if record and _step(record) is not None
  ]
  return first, last, late


def _step(record: Mapping[str, Any]) -> int | None:
  """The step of a line of metrics; None: it has none."""
  step = _finite(record.get('step'))
  return None if step is None else int(step)


def _finite(value: Any) -> float | None:
  number = metric_lines.as_double(value)
  return number if number is not None and math.isfinite(number) else None


def _success(
    summary: Mapping[str, Any],
    config: Mapping[str, Any],
    first: Mapping[str, Any],
    late: list[Mapping[str, Any]],
) -> dict[str, Rate]:
  """Success by evaluation: the summary's, else what the metrics have."""
  if named := _rates(summary.get('eval', {})):
    return named
  members = [f'/{name}' for name in config.get('mixture') or ()] or ['']
  rates = {}
  for name in ('untrained', 'before'):
    for member in members:
      if f'eval_{name}{member}/success' in first:
        rates[name + member] = _rate_of(first, f'eval_{name}{member}')
  for record in late:
    step = _step(record)
    assert step is not None  # `_ends` takes lines that have one
    for member in members:
      if f'eval{member}/success' in record:
        name = f'step_{step + 1}{member}'
        rates[name] = _rate_of(record, f'eval{member}')
  return rates


def _rates(node: Any, prefix: str = '') -> dict[str, Rate]:
  """The summaries in `eval` of a summary.json, however deep, by name."""
  if not isinstance(node, Mapping):
    return {}
  if 'mean' in node and 'n' in node:
    try:
      return {prefix: msgspec.convert(node, Rate)}
    except msgspec.ValidationError:  # damaged: as if it were not there
      return {}
  return {
      name: rate
      for key, value in node.items()
      for name, rate in _rates(value, f'{prefix} {key}'.strip()).items()
  }


def _chance(folder: pathlib.Path) -> dict[str, Rate]:
  """The levels of a run that goes on, or was killed."""
  found = store.read_summaries(folder)
  return _rates({
      name: summary
      for kind in KINDS
      for name, summary in found.items()
      if name.partition('/')[0] == kind
  })


def _rate_of(record: Mapping[str, Any], prefix: str) -> Rate:
  value = lambda name: _finite(record.get(f'{prefix}/{name}'))
  mean, low, high = (value(f'success{end}') for end in ('', '_low', '_high'))
  return Rate(mean, low, high, int(value('episodes') or 0))


def _evaluation(folder: pathlib.Path) -> results_lib.Results | None:
  """The finished evaluation in a folder; None: none that can be read."""
  path = folder / results_lib.FILE
  try:
    if not path.is_file() or path.stat().st_size > _MOST_RESULTS:
      return None
    return results_lib.read(folder)
  except (DataError, OSError):
    return None


class _Policy(msgspec.Struct):
  name: str


class _Side(msgspec.Struct):
  evaluation: str
  policy: _Policy


class _Comparison(msgspec.Struct):
  policies: list[_Side]


def _compares(root: pathlib.Path, folder: pathlib.Path) -> tuple[str, ...]:
  """`Facts.compares` of a folder."""
  path = folder / compared.FILE
  try:
    data = files.read_whole(path, _MOST_RESULTS)
    specs = []
    for side in msgspec.json.decode(data, type=_Comparison).policies:
      run = pathlib.Path(side.evaluation).resolve()
      if run.is_relative_to(root):  # the viewer shows nothing else
        name = run.relative_to(root).as_posix()
        specs.append(f'{name}:{side.policy.name}')
  except (DataError, ValueError, RecursionError, OSError):
    return ()
  return tuple(specs) if len(specs) > 1 else ()


def _policies(evaluation: results_lib.Results) -> dict[str, Rate]:
  """Success of each policy over each whole panel."""
  several = len(evaluation.panels) > 1
  return {
      f'{row.policy} {row.env}'
      if several
      else row.policy: Rate(
          row.success.mean, row.success.low, row.success.high, row.n
      )
      for row in evaluation.rows
      if row.subtask == results_lib.ALL and row.success is not None
  }


def _envs(
    config: Mapping[str, Any], evaluation: results_lib.Results | None
) -> str | None:
  if evaluation:
    return ', '.join(panel.env for panel in evaluation.panels)
  members = [
      _at(member, 'env', 'name') or name
      for name, member in (config.get('mixture') or {}).items()
  ]
  return ', '.join(members) or _at(config, 'env', 'name')


def _models(
    config: Mapping[str, Any], evaluation: results_lib.Results | None
) -> str | None:
  if evaluation:
    return ', '.join(policy.name for policy in evaluation.policies)
  return _at(config, 'model', 'name')


def _planned(
    config: Mapping[str, Any], summary: Mapping[str, Any]
) -> int | None:
  """Lines of metrics of the whole run."""
  steps = config.get('num_steps')
  if config.get('mode') == 'agentevol' and isinstance(steps, int):
    return steps + 1  # round 0 learns from the demonstrations alone
  if config.get('mode') == 'train' and not config.get('num_tokens'):
    return steps
  return summary.get('steps') or None


def _at(config: Mapping[str, Any], *names: str) -> Any:
  value: Any = config
  for name in names:
    if not isinstance(value, Mapping):
      return None
    value = value.get(name)
  return value
