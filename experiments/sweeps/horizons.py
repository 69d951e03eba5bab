r"""Every schedule of the horizon on the quickstart, from one warm start.

    python -m experiments.sweeps.horizons --out=runs/horizons --trace=runs/seed0
    python -m experiments.sweeps.horizons --out=runs/horizons
    python -m experiments.sweeps.horizons --out=runs/smoke \
        --config=experiments/sweeps/horizons_config.py:tiny

The first command starts nothing: it draws OUT/schedules.svg, the horizons that
each schedule would have on the metrics of a run. The second trains 20 steps of
each; OUT/figure.svg has success and horizons.
"""

from experiments.sweeps import horizons_config, program

CONFIG = 'experiments/sweeps/horizons_config.py'
SWEEP = [
    {':schedule': name}
    for name in horizons_config.SCHEDULES
    if name != 'fixed_12'
]

if __name__ == '__main__':
  program.run(CONFIG, SWEEP, warm_start=())
