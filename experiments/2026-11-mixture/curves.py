r"""Checks and draws a run of a mixture: quotas, resume, a curve for each member.

    python -m experiments.2026-11-mixture.curves --run=runs/whole --other=runs/killed

reads a run into curves.json beside this file, checks the quotas of each step, and
that `--other`, the same run killed and started again, equals it to the last bit in
every metric but those of clocks and caches. Without `--run` it draws curves.svg
again from curves.json.
"""

import json
import pathlib
from typing import Any

import matplotlib
from absl import app, flags
from matplotlib import figure as figure_lib

from agentrl.data.quotas import Quotas

_RUN = flags.DEFINE_string('run', None, 'Workdir; none: that of curves.json.')
_OTHER = flags.DEFINE_string('other', None, 'Workdir of the run that resumed.')

_HERE = pathlib.Path(__file__).parent
_SHOWN = ('quota', 'rollout/horizon', 'rollout/success', 'rollout/turns_mean')
_CLOCKS = ('_s_mean', '_wait_s', '/programs', 'rollout/cached_share')
_COLOURS = ('#0072b2', '#d55e00', '#009e73')
_STYLE = {
    'svg.fonttype': 'none',  # letters, not their outlines
    'svg.hashsalt': 'curves',  # the same names in every drawing
    'font.size': 9,
    'axes.spines.top': False,
    'axes.spines.right': False,
}


def lines(workdir: pathlib.Path) -> list[dict[str, Any]]:
  """The steps of a run."""
  text = (workdir / 'metrics.jsonl').read_text()
  return [json.loads(line) for line in text.splitlines()]


def check_quotas(config: dict[str, Any], steps: list[dict[str, Any]]) -> None:
  """Compares quotas and episodes of every step with the rule."""
  names, rollout = sorted(config['mixture']), config['rollout']
  weights = [config['mixture'][name]['weight'] for name in names]
  quotas = Quotas(weights, rollout['tasks_per_step'])
  for step, line in enumerate(steps):
    for name, count in zip(names, quotas.at(step), strict=True):
      assert line[f'{name}/quota'] == count, (step, name)
      played = line.get(f'{name}/rollout/episodes', 0.0)
      assert played == count * rollout['group_size'], (step, name)
  sums = {name: sum(line[f'{name}/quota'] for line in steps) for name in names}
  print(f'quotas are exact at each of {len(steps)} steps; in sum {sums}')


def compare(steps: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
  """Compares two runs to the last bit."""
  count = 0
  for line, other in zip(steps, others, strict=True):
    assert line.keys() == other.keys()
    for name in line:
      if not (name.startswith('time') or name.endswith(_CLOCKS)):
        assert line[name] == other[name], (line['step'], name)
        count += 1
  print(f'{count} values of {len(steps)} steps are equal to the last bit')


def draw(curves: dict[str, dict[str, list[float]]], path: pathlib.Path) -> None:
  """Writes the figure: a row of what each member did, a curve for each."""
  with matplotlib.rc_context(_STYLE):
    figure = figure_lib.Figure(figsize=(8.0, 2.4), layout='constrained')
    for axes, shown in zip(
        figure.subplots(1, len(_SHOWN)), _SHOWN, strict=True
    ):
      for (name, curve), colour in zip(curves.items(), _COLOURS, strict=True):
        steps = range(1, len(curve[shown]) + 1)
        axes.plot(steps, curve[shown], color=colour, linewidth=1, label=name)
      axes.set(title=shown.rpartition('/')[2], xlabel='step')
    figure.legend(
        *axes.get_legend_handles_labels(),
        loc='outside right upper',
        frameon=False,
        fontsize=8,
    )
    figure.savefig(path, metadata={'Date': None})


def main(argv):
  del argv
  data = _HERE / 'curves.json'
  if _RUN.value:
    run = pathlib.Path(_RUN.value)
    steps = lines(run)
    config = json.loads((run / 'config.json').read_text())
    check_quotas(config, steps)
    if _OTHER.value:
      compare(steps, lines(pathlib.Path(_OTHER.value)))
    curves = {
        name: {
            key: [line.get(f'{name}/{key}') for line in steps] for key in _SHOWN
        }
        for name in sorted(config['mixture'])
    }
    data.write_text(f'{json.dumps(curves)}\n')
  draw(json.loads(data.read_text()), _HERE / 'curves.svg')


if __name__ == '__main__':
  app.run(main)
