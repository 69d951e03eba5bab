r"""RLOO on TextCraft, with a leave-one-out baseline.

The batch, rate, KL and horizon are those of textcraft_grpo.py; the original
names RLOO but refuses to run it.
No run of the original's size has been made with this code yet.

    python launch.py --config=configs/textcraft_rloo.py:model=DIR \
        --workdir=runs/textcraft_rloo
    python launch.py --config=configs/textcraft_rloo.py:model=smollm2-135m,tiny \
        --workdir=runs/smoke  # two real steps on a CPU, some minutes
"""

from ml_collections import ConfigDict

from configs import textcraft_grpo


def get_config(arg: str | None = None) -> ConfigDict:
  return textcraft_grpo.get_config(f'algo=rloo,{arg or ""}')
