r"""A provoked collapse: learning rates far too large, and a long horizon.

    python -m experiments.sweeps.collapse --out=runs/collapse
    python -m experiments.sweeps.collapse --out=runs/smoke \
        --config=experiments/sweeps/horizons_config.py:tiny

40 steps of the quickstart with 12 turns an episode, from one warm start, at the
quickstart's rate and at 5, 10 and 30 times as much. OUT/table.md has the step at
which each gauge first warned beside that at which the return fell; `signs`
prints the same of any runs.
"""

from experiments.sweeps import horizons, program, signs

SWEEP = [
    {
        ':schedule': 'fixed_12',
        ':steps': 40,
        'gauges.every': 1,
        'optim.lr': rate,
    }
    for rate in (2e-4, 1e-3, 2e-3, 6e-3)
]

if __name__ == '__main__':
  program.run(horizons.CONFIG, SWEEP, warm_start=(), more=signs.table)
