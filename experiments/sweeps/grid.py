r"""A sweep over any fields of any config that learns.

    python -m experiments.sweeps.grid --config=configs/quickstart.py:tiny \
        --grid=':algo=grpo;rloo' --grid='optim.lr=1e-4;2e-4' \
        --grid='seed=0;1;2' --out=runs/grid --jobs=2
    python -m experiments.sweeps.grid --config=configs/textcraft_grpo.py \
        --grid='horizon.turns=(10,20,30);(30,)' --grid='seed=0;1;2' \
        --out=runs/horizon --cluster=slurm --slurm=gpus_per_node=8 \
        --slurm=partition=gpu --jobs=4 --show

Each --grid is a field, or after a colon an argument of the config file, and its
values; several multiply. Cells that differ in `seed` alone are one arm, and each
arm is tested against the first. With --cluster=slurm, --jobs bounds the tasks of
the array that run at a time; --show prints the sbatch file.
"""

from experiments.sweeps import program

if __name__ == '__main__':
  program.run(None, [{}])
