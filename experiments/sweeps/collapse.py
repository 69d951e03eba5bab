r"""A provoked collapse: far too large a bonus for entropy, and a long horizon.

    python -m experiments.sweeps.collapse --out=runs/collapse
    python -m experiments.sweeps.collapse --out=runs/smoke \
        --config=experiments/sweeps/horizons_config.py:tiny

30 steps of the quickstart with 12 turns an episode, from one warm start: as it is,
with a bonus that grows faster than the reward, and at ten times its learning rate.
OUT/table.md has the step at which each gauge first warned beside that at which the
return fell; `signs` prints the same of any runs.
"""

from experiments.sweeps import horizons, program, signs

SWEEP = [
    {':schedule': 'fixed_12', ':steps': 30, 'gauges.every': 1} | change
    for change in ({}, {'algo.entropy_coef': 0.03}, {'optim.lr': 2e-3})
]

if __name__ == '__main__':
  program.run(horizons.CONFIG, SWEEP, warm_start=(), more=signs.table)
