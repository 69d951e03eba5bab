"""Figures of a sweep: its schedules beforehand, success and horizons after."""

import math
import pathlib
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib import axes as axes_lib, figure as figure_lib, ticker
from scipy import stats

from agentrl.evaluation import report
from agentrl.evaluation.chance.level import KINDS
from agentrl.evaluation.stats import training_seeds
from agentrl.types import Turns
from experiments.sweeps import results
from experiments.sweeps.results import Arm, Run
from experiments.sweeps.schedules import Lines, Simulated

_STYLE = {
    'svg.fonttype': 'none',  # letters, not their outlines
    'svg.hashsalt': 'sweep',  # the same names in every drawing
    'font.size': 9,
    'axes.spines.top': False,
    'axes.spines.right': False,
}
_WINDOW = 5  # steps whose episodes are pooled
_COLLECTED = {
    results.SUCCESS: 'rollout/success',
    results.RETURN: 'rollout/return_mean',
}
_Z = stats.norm.ppf(0.975)


def draw(runs: Sequence[Run], path: pathlib.Path) -> None:
  """Writes the figure; a colour an arm, in all panels.

  A row of panels has success, dotted lines at random actions and the expert where all
  runs have the same, one below it the returns where parts of a task are paid. Where
  arms differ in their horizons, a panel has these.

  Args:
    runs: finished ones, at least one.
    path: its ending says the format.
  """
  arms = results.arms(runs)
  colours = _colours(len(arms))
  turns = [horizons(arm) for arm in arms]
  differ = any(found != turns[0] for found in turns)
  with matplotlib.rc_context(_STYLE):
    # A line an override: a long name would leave the panels no width.
    names = [re.sub(r'-(?=[a-z_.]+=)', '\n', arm.name) for arm in arms]
    lines = sum(1 + name.count('\n') for name in names)
    height = 1.2 + max(0.16 * (lines + len(arms)), 2.0)
    shown = {results.SUCCESS: arms}
    if partial := results.with_partial_returns(arms):
      shown[results.RETURN] = partial
    figure = figure_lib.Figure(
        figsize=(13.5 if differ else 9.5, height * len(shown)),
        layout='constrained',
    )
    panels = figure.subplots(len(shown), 3 if differ else 2, squeeze=False)
    for measure, (held_out, learning, *_) in zip(shown, panels, strict=True):
      for row, arm in enumerate(arms):
        if arm in shown[measure]:
          colour = colours[row % len(colours)]
          _held_out(held_out, arm, row, colour, measure)
          _curve(learning, arm, colour, measure)
      held_out.set_yticks(range(len(arms)), names)
      held_out.set_ylim(len(arms) - 0.5, -0.5)
      held_out.set_xlabel(f'{measure} on {_tasks(runs)}')
      learning.set(xlabel='rl step', ylabel=measure)
      _steps(learning)
      if measure == results.SUCCESS:
        _levels(held_out, runs)
      if bounds := results.BOUNDS[measure]:
        limits = bounds[0] - 0.02, bounds[1] + 0.02
        held_out.set_xlim(limits)
        learning.set_ylim(limits)
    panels[0][0].set_title(
        'before (grey) and after; bars: 95% over seeds,\nof one run over tasks',
        fontsize=8,
    )
    panels[0][1].set_title(
        f'collected episodes, pooled over {_WINDOW} steps\nand seeds; band: 95%'
        ' over episodes',
        fontsize=8,
    )
    if differ:
      _step_lines(panels[0][2], turns, colours)
      panels[0][2].set_title(
          'horizon, mean over episodes and seeds;\nlines moved apart',
          fontsize=8,
      )
      for axes in panels[1:, 2]:
        axes.set_axis_off()
    _save(figure, path)


def _levels(axes: axes_lib.Axes, runs: Sequence[Run]) -> None:
  """Lines at what it takes nothing to reach, and at what can be."""
  for kind in KINDS:
    values = {run.chance.get(kind) for run in runs}
    value = values.pop() if len(values) == 1 else None
    if value is not None:
      axes.axvline(value, color='grey', linestyle=':', linewidth=1, label=kind)
      axes.annotate(
          f' {kind}',
          (value, 1.0),
          xycoords=('data', 'axes fraction'),
          rotation=90,
          va='top',
          ha='right',
          fontsize=7,
          color='grey',
      )


class Against(NamedTuple):
  """A panel of `draw_by_setting`.

  Attributes:
    measure: written beside it.
    found: of each name, by value of the setting, the measure of each seed.
    level: the same of each seed of what the rest is compared with, if anything.
  """

  measure: str
  found: Mapping[str, Mapping[float, Sequence[float]]]
  level: Sequence[float] = ()


def draw_by_setting(
    panels: Sequence[Against],
    path: pathlib.Path,
    *,
    setting: str,
    level: str,
) -> None:
  """Writes measures by the value of a setting; a line a name, a dot a seed.

  Args:
    panels: side by side; names have one colour in all.
    path: its ending says the format.
    setting: written below the values.
    level: name of the panels' levels: a line at their mean, a band from the least to
      the largest.
  """
  names = list(dict.fromkeys(name for panel in panels for name in panel.found))
  colours = _colours(len(names))
  with matplotlib.rc_context(_STYLE):
    figure = figure_lib.Figure(
        figsize=(4.2 * len(panels) + 1.3, 3.4), layout='constrained'
    )
    [row] = figure.subplots(1, len(panels), squeeze=False)
    for axes, (measure, found, scores) in zip(row, panels, strict=True):
      if scores:
        axes.axhspan(min(scores), max(scores), color='grey', alpha=0.15)
        mean = statistics.fmean(scores)
        axes.axhline(mean, color='grey', linestyle=':', label=level)
      values = sorted({value for points in found.values() for value in points})
      for name, points in found.items():
        colour, shift = colours[names.index(name)], names.index(name)
        shift = 0.06 * (shift - (len(names) - 1) / 2)  # so that all are seen
        places = [values.index(value) + shift for value in sorted(points)]
        seeds = [points[value] for value in sorted(points)]
        for place, each in zip(places, seeds, strict=True):
          axes.plot(
              [place] * len(each), each, 'o', color=colour, ms=3.5, alpha=0.6
          )
        means = list(map(statistics.fmean, seeds))
        axes.plot(places, means, '_-', color=colour, ms=10, label=name)
      axes.set_xticks(range(len(values)), [f'{value:g}' for value in values])
      axes.set(xlabel=setting, ylabel=measure)
      axes.set_ylim(bottom=0)
    row[-1].legend(frameon=False, loc='center left', bbox_to_anchor=(1, 0.5))
    _save(figure, path)


def draw_schedules(
    found: Sequence[Simulated], trace: Lines, path: pathlib.Path
) -> None:
  """Writes the horizons of schedules beside the success that they follow.

  Args:
    found: at least one.
    trace: whose metrics they saw.
    path: its ending says the format.
  """
  with matplotlib.rc_context(_STYLE):
    figure = figure_lib.Figure(figsize=(9.5, 3.6), layout='constrained')
    success, horizon = figure.subplots(1, 2)
    points = [
        (line['step'], line['rollout/success'])
        for line in trace
        if 'rollout/success' in line
    ]
    if points:
      success.plot(*zip(*points, strict=True), color='grey')
    success.set(ylim=(-0.02, 1.02), xlabel='rl step', ylabel='success')
    success.set_title('of the trace, which is an assumption', fontsize=8)
    means = [
        {step: _mean(turns) for step, turns in enumerate(one.turns)}
        for one in found
    ]
    _step_lines(horizon, means, _colours(len(found)))
    for one, line in zip(found, horizon.lines, strict=True):
      unseen = f'\n(no {", ".join(one.missing)})' if one.missing else ''
      line.set_label(f'{one.name}{unseen}')
    horizon.set_title('mean horizon on it; lines moved apart', fontsize=8)
    _steps(success)
    success.set_xlim(right=horizon.get_xlim()[1])
    horizon.legend(frameon=False, loc='center left', bbox_to_anchor=(1, 0.5))
    _save(figure, path)


def _mean(turns: int | Turns) -> float:
  return statistics.fmean(turns) if isinstance(turns, Turns) else turns


def horizons(arm: Arm) -> dict[int, float]:
  """Turns by step, the mean over the runs of an arm."""
  found: dict[int, list[float]] = {}
  for run in arm.runs:
    for line in run.metrics:
      # Runs of before have the largest alone, which all episodes had.
      turns = line.get('rollout/horizon_mean', line.get('rollout/horizon'))
      if turns is not None:
        found.setdefault(int(line['step']), []).append(turns)
  return {step: statistics.fmean(turns) for step, turns in found.items()}


def _step_lines(
    axes: axes_lib.Axes, found: Sequence[Mapping[int, float]], colours
) -> None:
  """Turns by step, a line each; shifted a little, so that all are seen."""
  for row, turns in enumerate(found):
    shift = 0.05 * (row - (len(found) - 1) / 2)
    steps, values = list(turns), [value + shift for value in turns.values()]
    if steps:  # to the end of the last one
      steps, values = [*steps, steps[-1] + 1], [*values, values[-1]]
    colour = colours[row % len(colours)]
    axes.plot(steps, values, color=colour, drawstyle='steps-post')
  axes.set(xlabel='rl step', ylabel='turns of an episode, at most')
  axes.set_ylim(bottom=0)
  axes.yaxis.set_major_locator(ticker.MaxNLocator(integer=True))
  _steps(axes)


def _steps(axes: axes_lib.Axes) -> None:
  axes.set_xlim(left=0)
  axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))


def _colours(count: int):
  return matplotlib.colormaps['tab10' if count <= 10 else 'tab20'].colors


def _save(figure: figure_lib.Figure, path: pathlib.Path) -> None:
  # The same bytes whenever it is drawn.
  date = {'Date': None} if path.suffix == '.svg' else None
  figure.savefig(path, metadata=date)


def _held_out(
    axes: axes_lib.Axes, arm: Arm, row: int, colour, measure: str
) -> None:
  """Each run as a dot, the arm's mean with its interval."""
  scores = arm.scores(measure)
  for found, ink in (
      (arm.scores_before(measure), 'lightgrey'),
      (scores, colour),
  ):
    axes.plot(found, [row] * len(found), 'o', color=ink, ms=3.5, alpha=0.7)
  if not scores:
    return
  if len(scores) > 1:
    found = training_seeds.mean_intervals(np.array(scores))
    low, high = found.low, found.high
    if bounds := results.BOUNDS[measure]:
      low, high = max(low, bounds[0]), min(high, bounds[1])
  else:
    found = arm.interval(arm.values(measure), measure)
    low, high = found.low, found.high
  if math.isfinite(high - low):
    axes.plot([low, high], [row, row], color=colour, linewidth=1.2)
  axes.plot(statistics.fmean(scores), row, '|', color=colour, ms=12)


def _curve(axes: axes_lib.Axes, arm: Arm, colour, measure: str) -> None:
  """Collected episodes by step, pooled over windows and runs."""
  name = _COLLECTED[measure]
  lines = [line for run in arm.runs for line in run.metrics]
  lines = [line for line in lines if _valid(line) and name in line]
  points = []
  for start in sorted({line['step'] // _WINDOW for line in lines}):
    part = [line for line in lines if line['step'] // _WINDOW == start]
    episodes = [_valid(line) for line in part]
    mean = np.average([line[name] for line in part], weights=episodes)
    last = max(line['step'] for line in part) + 1
    points.append((last, mean, *_ends(part, mean, episodes, measure)))
  if points:
    steps, means, lows, highs = zip(*points, strict=True)
    axes.plot(steps, means, color=colour, marker='.', label=arm.name)
    axes.fill_between(steps, lows, highs, color=colour, alpha=0.15, linewidth=0)


def _ends(
    part: Lines, mean: float, episodes: Sequence[float], measure: str
) -> tuple[float, float]:
  """Ends of the interval of steps' mean, as if episodes were independent."""
  count = round(sum(episodes))
  if measure == results.SUCCESS:
    trials = stats.binomtest(round(mean * count), count)
    return tuple(trials.proportion_ci(method='wilson'))
  # Within the steps, and between them.
  squares = [
      line['rollout/return_std'] ** 2 + (line[_COLLECTED[measure]] - mean) ** 2
      for line in part
  ]
  error = np.sqrt(np.average(squares, weights=episodes) / count)
  return mean - _Z * error, mean + _Z * error


def _tasks(runs: Sequence[Run]) -> str:
  splits = {run.config['eval']['split'] for run in runs}
  return ' or '.join(sorted({f'{report.kind_of_task(x)}s' for x in splits}))


def _valid(line: Mapping[str, float]) -> float:
  return line['rollout/episodes'] - line['rollout/invalid']
