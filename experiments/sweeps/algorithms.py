r"""Trains every algorithm on the quickstart: experiments/2026-11-algorithms.

    python -m experiments.sweeps.algorithms --out=runs/algorithms
    python -m experiments.sweeps.algorithms --out=runs/algorithms --show
    python -m experiments.sweeps.algorithms --out=runs/few \
        --only=':algo=grpo;ppo' --only='seed=0;1' --grid='optim.lr=1e-4;2e-4'
    python -m experiments.sweeps.algorithms --out=runs/smoke \
        --config=configs/quickstart.py:tiny

The same command continues: finished runs are left alone, interrupted ones go on
from their checkpoint, failed ones are tried again and named with their reason.
`OUT/table.md` and `OUT/figure.svg` have what is there.
"""

from experiments.sweeps import program

CONFIG = 'configs/quickstart.py'
# Three seeds of the first two, one of the others.
SWEEP = [
    {':algo': algo, 'seed': seed}
    for algo, seeds in (
        ('grpo', 3),
        ('ppo', 3),
        ('rloo', 1),
        ('reinforce_pp', 1),
        ('dr_grpo', 1),
        ('dapo', 1),
        ('gspo', 1),
        ('gigpo', 1),
    )
    for seed in range(seeds)
]

if __name__ == '__main__':
  program.run(CONFIG, SWEEP)
