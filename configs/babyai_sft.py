r"""Supervised fine-tuning on BabyAI: a tiny policy imitates the expert.

The one-million-parameter policy of the quickstart, minutes on a laptop. With
model=smollm2-135m or a directory it is the original's recipe on the six levels
of the paper.

Success on 256 held-out tasks, seed 0: 0.645 [0.584, 0.701] from 0.000.

    python launch.py --config=configs/babyai_sft.py --workdir=runs/babyai-sft
    python launch.py --config=configs/babyai_sft.py:data=traj.json \
        --workdir=runs/babyai-sft
    python launch.py --config=configs/babyai_sft.py:tiny --workdir=runs/smoke
"""

from ml_collections import ConfigDict

from configs import common, offline


def get_config(arg: str | None = None) -> ConfigDict:
  arg = common.parse_arg(arg, model='tiny-1m', data='', tiny=False)
  return offline.sft('babyai', arg.model, data=arg.data, tiny=arg.tiny)
