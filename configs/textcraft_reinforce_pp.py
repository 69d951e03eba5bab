r"""REINFORCE++ on TextCraft, without groups to compare.

The batch, rate, KL and horizon are those of textcraft_grpo.py. The original's
REINFORCE++ lost an outcome reward that arrives with the last observation.
No run of the original's size has been made with this code yet.

    python launch.py --config=configs/textcraft_reinforce_pp.py:model=DIR \
        --workdir=runs/textcraft_reinforce_pp
    python launch.py --config=configs/textcraft_reinforce_pp.py:model=smollm2-135m,tiny \
        --workdir=runs/smoke  # two real steps on a CPU, some minutes
"""

from ml_collections import ConfigDict

from configs import textcraft_grpo


def get_config(arg: str | None = None) -> ConfigDict:
  return textcraft_grpo.get_config(f'algo=reinforce_pp,{arg or ""}')
