r"""Draws the learning curves of README: held-out success by step, three seeds.

    python -m experiments.2026-11-quickstart.curves --runs=runs/seed0,runs/seed1,runs/seed2
    python -m experiments.2026-11-quickstart.curves

The first command reads the runs, which evaluated every ten steps, into curves.json
beside this file, and draws curves.svg; the second draws it again from curves.json.
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

_HERE = pathlib.Path(__file__).parent
_COLOURS = ('#0072b2', '#d55e00', '#009e73')  # told apart by everybody
_STYLE = {
    'svg.fonttype': 'none',  # letters, not their outlines
    'svg.hashsalt': 'curves',  # the same names in every drawing
    'font.size': 9,
    'axes.spines.top': False,
    'axes.spines.right': False,
}

Curve = dict[str, Any]


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


def draw(curves: Sequence[Curve], path: pathlib.Path) -> None:
  """Writes the figure."""
  with matplotlib.rc_context(_STYLE):
    figure = figure_lib.Figure(figsize=(6.4, 3.0), layout='constrained')
    axes = figure.subplots()
    for curve, colour in zip(curves, _COLOURS, strict=False):
      steps, mean, low, high = zip(*curve['points'], strict=True)
      axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
      label = f'seed {curve["seed"]}'
      axes.plot(steps, mean, color=colour, marker='o', ms=3, label=label)
    axes.axvline(10, color='grey', linewidth=0.8, linestyle=':')
    axes.text(10.6, 0.42, 'horizon of training: 3, then 6 turns', color='grey')
    axes.set(xlabel='GRPO step', ylabel='success, 256 held-out tasks')
    axes.set(xlim=(0, None), ylim=(0.4, 1.0))
    axes.legend(frameon=False, loc='lower right')
    figure.savefig(path, metadata={'Date': None})


def main(argv):
  del argv
  data = _HERE / 'curves.json'
  if _RUNS.value:
    curves = [read(pathlib.Path(run)) for run in _RUNS.value]
    rows = ',\n'.join(json.dumps(curve) for curve in curves)
    data.write_text(f'[\n{rows}\n]\n')
  draw(json.loads(data.read_text()), _HERE / 'curves.svg')


if __name__ == '__main__':
  app.run(main)
