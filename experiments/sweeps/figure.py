"""Figure of a sweep: success on held-out tasks, and while learning."""

import pathlib
import statistics
from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib import axes as axes_lib, figure as figure_lib, ticker
from scipy import stats

from agentrl.evaluation import training_seeds
from experiments.sweeps import results
from experiments.sweeps.results import Arm, Run

_STYLE = {
    'svg.fonttype': 'none',  # letters, not their outlines
    'svg.hashsalt': 'sweep',  # the same names in every drawing
    'font.size': 9,
    'axes.spines.top': False,
    'axes.spines.right': False,
}
_WINDOW = 5  # steps whose episodes are pooled


def draw(runs: Sequence[Run], path: pathlib.Path) -> None:
  """Writes the figure; a colour an arm, in both panels.

  Args:
    runs: finished ones, at least one.
    path: its ending says the format.
  """
  arms = results.arms(runs)
  colours = matplotlib.colormaps['tab10' if len(arms) <= 10 else 'tab20'].colors
  with matplotlib.rc_context(_STYLE):
    height = 1.2 + max(0.32 * len(arms), 2.0)
    figure = figure_lib.Figure(figsize=(9.5, height), layout='constrained')
    held_out, learning = figure.subplots(1, 2)
    for row, arm in enumerate(arms):
      colour = colours[row % len(colours)]
      _held_out(held_out, arm, row, colour)
      _curve(learning, arm, colour)
    held_out.set_yticks(range(len(arms)), [arm.name for arm in arms])
    held_out.set_ylim(len(arms) - 0.5, -0.5)
    held_out.set(xlim=(-0.02, 1.02), xlabel='success on held-out tasks')
    held_out.set_title(
        'before (grey) and after; bars: 95% over seeds,\nof one run over tasks',
        fontsize=8,
    )
    learning.set(ylim=(-0.02, 1.02), xlabel='rl step', ylabel='success')
    learning.set_xlim(left=0)
    learning.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    learning.set_title(
        f'collected episodes, pooled over {_WINDOW} steps\nand seeds; band: 95%'
        ' Wilson over episodes',
        fontsize=8,
    )
    figure.savefig(path, metadata={'Date': None} if _is_svg(path) else None)


def _held_out(axes: axes_lib.Axes, arm: Arm, row: int, colour) -> None:
  """Each run as a dot, the arm's mean with its interval."""
  for run in arm.runs:
    for found, ink in ((run.before, 'lightgrey'), (run.after, colour)):
      if found and found['mean'] is not None:
        axes.plot(found['mean'], row, 'o', color=ink, ms=3.5, alpha=0.7)
  if not arm.scores:
    return
  mean = statistics.fmean(arm.scores)
  if len(arm.scores) > 1:
    found = training_seeds.over_seeds({'': arm.scores}, seed=0)
    low, high = max(found.mean_low, 0.0), min(found.mean_high, 1.0)
  else:
    after = next(run.after for run in arm.runs if run.after)
    low, high = after['low'], after['high']
  axes.plot([low, high], [row, row], color=colour, linewidth=1.2)
  axes.plot(mean, row, '|', color=colour, ms=12)


def _curve(axes: axes_lib.Axes, arm: Arm, colour) -> None:
  """Success of collected episodes by step, pooled over windows and runs."""
  lines = [line for run in arm.runs for line in run.metrics]
  lines = [line for line in lines if 'rollout/success' in line]
  points = []
  for start in sorted({line['step'] // _WINDOW for line in lines}):
    part = [line for line in lines if line['step'] // _WINDOW == start]
    episodes = round(sum(map(_valid, part)))
    solved = round(
        sum(
            line['rollout/success'] * _valid(line)
            for line in part
            if _valid(line)
        )
    )
    if episodes:
      last = max(line['step'] for line in part) + 1
      trials = stats.binomtest(solved, episodes)
      ends = trials.proportion_ci(method='wilson')
      points.append((last, solved / episodes, *ends))
  if points:
    steps, means, lows, highs = zip(*points, strict=True)
    axes.plot(steps, means, color=colour, marker='.', label=arm.name)
    axes.fill_between(steps, lows, highs, color=colour, alpha=0.15, linewidth=0)


def _valid(line: Mapping[str, float]) -> float:
  return line['rollout/episodes'] - line['rollout/invalid']


def _is_svg(path: pathlib.Path) -> bool:
  return path.suffix == '.svg'
