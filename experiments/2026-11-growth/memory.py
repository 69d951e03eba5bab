r"""The memory of a long run: what its process holds after each rl step.

    python launch.py --config=configs/quickstart.py:tiny --config.num_steps=300 \
        --workdir=runs/long
    python -m experiments.2026-11-growth.memory --run=runs/long

Prints the mean of each 50 steps in MiB, and what each of the last hundred adds, by
the means of its four quarters (95%, t).
"""

import pathlib

import numpy as np
from absl import app, flags
from scipy import stats

from agentrl import metrics as metrics_lib

_RUN = flags.DEFINE_string('run', None, 'Workdir of the run.', required=True)

_BLOCK = 50
_LAST, _PARTS = 100, 4


def main(argv):
  del argv
  path = pathlib.Path(_RUN.value) / 'metrics.jsonl'
  held = np.array([
      line['time/memory_gib'] * 1024
      for line in metrics_lib.read(path)
      if 'time/memory_gib' in line
  ])
  print(f'step 1: {held[0]:.0f}')
  for start in range(0, len(held), _BLOCK):
    part = held[start : start + _BLOCK]
    print(f'steps {start + 1} to {start + len(part)}: {part.mean():.0f}')
  quarters = held[-_LAST:].reshape(_PARTS, -1)
  steps = np.arange(_LAST).reshape(_PARTS, -1).mean(axis=1)
  fit = stats.linregress(steps, quarters.mean(axis=1))
  half = stats.t.ppf(0.975, _PARTS - 2) * fit.stderr
  print(
      f'a step of the last {_LAST} adds {fit.slope:+.3f} MiB'
      f' [{fit.slope - half:+.3f}, {fit.slope + half:+.3f}]'
  )


if __name__ == '__main__':
  app.run(main)
