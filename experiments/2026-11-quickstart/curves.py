r"""Draws the learning curves of README: held-out success by step, three seeds.

    python -m experiments.2026-11-quickstart.curves --runs=runs/seed0,runs/seed1,runs/seed2
    python -m experiments.2026-11-quickstart.curves --levels=runs/levels
    python -m experiments.2026-11-quickstart.curves

The first command reads the runs, which evaluated every ten steps, into curves.json
beside this file, the second an evaluation of random actions and the expert on the
same tasks into levels.json. Each draws curves.svg, the third from those files alone.
Bands are 95% Wilson intervals.
"""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import matplotlib
from absl import app, flags
from matplotlib import figure as figure_lib

_RUNS = flags.DEFINE_list('runs', [], 'Workdirs; none: those of curves.json.')

_LEVELS = flags.DEFINE_string(
    'levels', None, 'Workdir of an evaluation; none: that of levels.json.'
)

_HERE = pathlib.Path(__file__).parent
_COLOURS = ('#0072b2', '#d55e00', '#009e73')  # told apart by everybody
_INTERVAL = ('mean', 'low', 'high')
_STYLE = {
    'svg.fonttype': 'none',  # letters, not their outlines
    'svg.hashsalt': 'curves',  # the same names in every drawing
    'font.size': 9,
    'axes.spines.top': False,
    'axes.spines.right': False,
}

Curve = dict[str, Any]
Levels = dict[str, list[float]]


def read(workdir: pathlib.Path) -> Curve:
  """Seed, and [steps trained, success, low, high] of each evaluation of a run."""
  config = json.loads((workdir / 'config.json').read_text())
  lines = (workdir / 'metrics.jsonl').read_text().splitlines()
  records = [json.loads(line) for line in lines]
  names = ('success', 'success_low', 'success_high')
  points = [[0, *(records[0][f'eval_before/{name}'] for name in names)]]
  points += [
      [record['step'] + 1, *(record[f'eval/{name}'] for name in names)]
      for record in records
      if 'eval/success' in record
  ]
  return dict(seed=config['seed'], points=points)


def read_levels(workdir: pathlib.Path) -> Levels:
  """[success, low, high] of random actions and of the expert, by their name."""
  found = json.loads((workdir / 'summary.json').read_text())['eval']
  return {
      policy: [found[policy]['babyai']['test'][x] for x in _INTERVAL]
      for policy in ('random', 'expert')
  }


def draw(curves: Sequence[Curve], levels: Levels, path: pathlib.Path) -> None:
  """Writes the figure."""
  with matplotlib.rc_context(_STYLE):
    figure = figure_lib.Figure(figsize=(6.4, 3.0), layout='constrained')
    axes = figure.subplots()
    for curve, colour in zip(curves, _COLOURS, strict=True):
      steps, mean, low, high = zip(*curve['points'], strict=True)
      axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
      label = f'seed {curve["seed"]}'
      axes.plot(steps, mean, color=colour, marker='o', ms=3, label=label)
    for name, (mean, low, high) in levels.items():
      axes.axhspan(low, high, color='grey', alpha=0.15, linewidth=0)
      axes.axhline(mean, color='grey', linewidth=1, linestyle='--')
      side = (
          dict(va='top', y=low - 0.005) if mean > 0.9 else dict(y=mean + 0.01)
      )
      axes.text(69.5, s=name, ha='right', color='dimgrey', **side)
    axes.axvline(10, color='grey', linewidth=0.8, linestyle=':')
    axes.text(10.6, 0.36, 'horizon of training: 3, then 6 turns', color='grey')
    axes.set(xlabel='GRPO step', ylabel='success, 256 held-out tasks')
    axes.set(xlim=(0, None), ylim=(0.34, 1.01))
    axes.legend(frameon=False, loc='lower right', bbox_to_anchor=(1, 0.22))
    figure.savefig(path, metadata={'Date': None})


def main(argv):
  del argv
  data = _HERE / 'curves.json'
  if _RUNS.value:
    curves = [read(pathlib.Path(run)) for run in _RUNS.value]
    rows = ',\n'.join(json.dumps(curve) for curve in curves)
    data.write_text(f'[\n{rows}\n]\n')
  levels = _HERE / 'levels.json'
  if _LEVELS.value:
    found = read_levels(pathlib.Path(_LEVELS.value))
    levels.write_text(json.dumps(found) + '\n')
  files = (json.loads(file.read_text()) for file in (data, levels))
  draw(*files, _HERE / 'curves.svg')


if __name__ == '__main__':
  app.run(main)
