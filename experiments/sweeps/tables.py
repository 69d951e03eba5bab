"""Markdown of a sweep's results: runs, arms with intervals, paired tests.

Success is told of all. Where episodes earn more or less than their success, as
where parts of a task are paid, so are their returns.
"""

import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from agentrl.errors import PanelError
from agentrl.evaluation.chance.level import KINDS
from agentrl.evaluation.compare import comparison
from agentrl.evaluation.stats import training_seeds
from agentrl.evaluation.stats.intervals import Interval
from experiments.sweeps import results
from experiments.sweeps.results import BOUNDS, RETURN, SUCCESS, Arm, Run, arms

_SIGNED = '+.3f'
_MEMORY = 'time/memory_gib'  # of the trainer's process after each step
_RUN = 'run | steps | updates | before | after | disjoint | wall time | memory'
_ARM = 'arm | runs | before | after | over tasks | over seeds'
_RETURN = 'run | return before | return after | disjoint'
_GAIN = 'arm | gain | over tasks | p | test | over seeds'
_TEST = 'arm | difference | over tasks | p | p (Holm) | test | over seeds'


def of_runs(runs: Sequence[Run], *, compared: bool = True) -> str:
  """Markdown: each run, each arm with intervals, each arm against the first.

  Args:
    runs: finished ones.
    compared: False leaves the last out: arms are of other tasks.
  """
  if not runs:
    return 'No run is finished.\n'
  found = arms(runs)
  kinds = chance_kinds(runs)
  parts = [
      markdown(_RUN, map(_run_row, runs)),
      markdown(
          ' | '.join([_ARM, *kinds]), [_arm_row(arm, kinds) for arm in found]
      ),
      (
          'Intervals (95%) over tasks are about these very policies on other'
          ' tasks of the kind, and count templates where tasks of one succeed'
          ' and fail together; those over seeds are about other runs of the arm'
          ' (t, two runs at least). Memory is the most that the trainer held'
          ' after a step, without the servers of environments.'
          + ' Random and expert: success of these on the same tasks.'
          * bool(kinds)
      ),
      *_gains_and_tests(found, SUCCESS, compared),
  ]
  partial = results.with_partial_returns(found)
  if partial:
    rows = [_return_row(arm, run) for arm in partial for run in arm.runs]
    parts += [
        markdown(_RETURN, rows),
        *_gains_and_tests(partial, RETURN, compared),
    ]
  return '\n\n'.join(parts) + '\n'


def _gains_and_tests(
    found: Sequence[Arm], measure: str, compared: bool
) -> list[str]:
  """Gains of each arm, and each later arm against the first."""
  parts = []
  gains = [row for arm in found if (row := _gain(arm, measure))]
  if gains:
    parts += [
        markdown(_GAIN, gains),
        (
            f'Gain: {measure} after the last step less that before the first'
            ' one, of the same tasks and samples; p as of paired policies'
            ' (McNemar for one run, else a permutation over tasks).'
        ),
    ]
  for member in dict.fromkeys(arm.member for arm in found) if compared else ():
    alike = [arm for arm in found if arm.member == member]
    if len(alike) > 1:
      parts += [
          markdown(_TEST, _tests(alike, measure)),
          (
              f'Differences in {measure} to `{alike[0].name}`, the first'
              ' arm. p is paired by task and sample (McNemar for one run each,'
              ' else a permutation over tasks); p (Holm) is adjusted for the'
              ' arms of this table.'
          ),
      ]
  return parts


def _run_row(run: Run) -> list[str]:
  before, after = run.before, run.after
  minutes, seconds = divmod(round(run.summary['wall_s']), 60)
  memory = run.column(_MEMORY)
  return [
      run.name,
      str(run.summary['steps']),
      str(run.summary.get('updates', '')),
      _evaluation(before),
      _evaluation(after),
      _disjoint(before, after),
      f'{minutes}:{seconds:02d}',
      f'{max(memory):.1f} GiB' if memory else '',
  ]


def chance_kinds(runs: Sequence[Run]) -> list[str]:
  """Those of random actions and the expert that some run has played."""
  return [kind for kind in KINDS if any(kind in run.chance for run in runs)]


def chance_cell(runs: Sequence[Run], kind: str) -> str:
  """Success of random actions or the expert; '' where runs had other panels."""
  values = {run.chance.get(kind) for run in runs}
  [value] = values if len(values) == 1 else [None]
  return '' if value is None else f'{value:.3f}'


def _arm_row(arm: Arm, kinds: Sequence[str]) -> list[str]:
  before = [run.before['mean'] for run in arm.runs if run.before]
  found = arm.interval(arm.values(), SUCCESS)
  return [
      arm.name,
      str(len(arm.runs)),
      mean_cell(before),
      mean_cell(arm.scores()),
      _ends(found.low, found.high) if found else '',
      _over_seeds(arm.scores()),
      *(chance_cell(arm.runs, kind) for kind in kinds),
  ]


def _return_row(arm: Arm, run: Run) -> list[str]:
  intervals = (
      arm.interval(played.get(RETURN, {}), RETURN)
      for played in (run.played_before, run.played)
  )
  before, after = (found and found._asdict() for found in intervals)
  return [
      run.name,
      _evaluation(before),
      _evaluation(after),
      _disjoint(before, after),
  ]


def _disjoint(
    before: Mapping[str, float] | None, after: Mapping[str, float] | None
) -> str:
  """Says if the interval after lies above the one before; '' without both."""
  if before is None or after is None:
    return ''
  return 'yes' if after['low'] > before['high'] else 'no'


def _over_seeds(scores: Sequence[float], form: str = '.3f') -> str:
  if len(scores) < 2:
    return ''
  found = training_seeds.mean_intervals(np.array(scores))
  if not np.isfinite(found.low):
    return 'all equal'  # which is no certainty
  return _ends(float(found.low), float(found.high), form)


def _gain(arm: Arm, measure: str) -> list[str] | None:
  """After against before; None where an evaluation is missing."""
  before, after = arm.values_before(measure), arm.values(measure)
  if not before or before.keys() != after.keys():
    return None
  result = comparison.compare(
      after, before, seed=0, clusters=arm.clusters, bounds=BOUNDS[measure]
  )
  gains = [
      after - before
      for after, before in zip(
          arm.scores(measure), arm.scores_before(measure), strict=True
      )
  ]
  return [
      arm.name,
      *_difference(result.difference),
      _p(result.p_value, result),
      result.test,
      _over_seeds(gains, _SIGNED),
  ]


def _difference(found: Interval) -> list[str]:
  return [f'{found.mean:{_SIGNED}}', _ends(found.low, found.high, _SIGNED)]


def _tests(found: Sequence[Arm], measure: str) -> list[list[str]]:
  """Rows of each later arm against the first."""
  first, *others = found
  rows, tested = [], []
  for arm in others:
    try:
      result = comparison.compare(
          arm.values(measure),
          first.values(measure),
          seed=0,
          clusters=arm.clusters,
          bounds=BOUNDS[measure],
      )
    except (PanelError, ValueError) as error:
      reason = str(error).partition(':')[0]
      rows.append([arm.name, f'not compared: {reason}', *[''] * 5])
      continue
    row = [
        arm.name,
        *_difference(result.difference),
        _p(result.p_value, result),
        '',
        result.test,
        _difference_over_seeds(arm.scores(measure), first.scores(measure)),
    ]
    rows.append(row)
    tested.append((row, result))
  p_values = [result.p_value for _, result in tested]
  adjusted = comparison.holm(p_values) if tested else []
  for (row, result), p in zip(tested, adjusted, strict=True):
    row[4] = _p(p, result)
  return rows


def _p(p_value: float, result: comparison.Comparison) -> str:
  """The p-value of a test, or what it is once adjusted."""
  bound = comparison.is_bound(result.p_value, result.test)
  return comparison.p_words(p_value, bound=bound)


def _difference_over_seeds(
    scores: Sequence[float], first: Sequence[float]
) -> str:
  if min(len(scores), len(first)) < 2:
    return ''
  found = training_seeds.seed_difference({'': scores}, {'': first}, seed=0)
  if not np.isfinite(found.mean_low):
    return 'all equal'  # within each arm, which is no certainty
  return _ends(found.mean_low, found.mean_high, _SIGNED)


def _evaluation(found: Mapping[str, float] | None) -> str:
  if found is None or found['mean'] is None:
    return ''
  return f'{found["mean"]:.3f} {_ends(found["low"], found["high"])}'


def mean_cell(values: Sequence[float]) -> str:
  """The mean as a cell of a table; empty of nothing."""
  return f'{statistics.fmean(values):.3f}' if values else ''


def _ends(low: float, high: float, form: str = '.3f') -> str:
  return f'[{low:{form}}, {high:{form}}]'


def markdown(header: str, rows: Sequence[Sequence[str]]) -> str:
  """A table; names in the header are parted by ` | `."""
  names = header.split(' | ')
  lines = [names, ['---'] * len(names), *rows]
  return '\n'.join(f'| {" | ".join(line)} |' for line in lines)
