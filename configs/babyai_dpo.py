r"""DPO on BabyAI: a tiny policy imitates the expert, then prefers what works.

The one-million-parameter policy of the quickstart, minutes on a laptop. With
model=RUN, a run of sft, it goes on from there; from a run of a pretrained model
by the original's recipe, on the six levels of the paper.

From a run of sft it raised success on 256 held-out tasks from 0.645 [0.584,
0.701] to 0.738 [0.681, 0.788], on 256 others from 0.602 to 0.633;
experiments/2026-11-offline has the runs that did not, and why.

    python launch.py --config=configs/babyai_dpo.py --workdir=runs/babyai-dpo
    python launch.py --config=configs/babyai_dpo.py:model=runs/babyai-sft \
        --workdir=runs/sft-dpo
    python launch.py --config=configs/babyai_dpo.py:tiny --workdir=runs/smoke
"""

from ml_collections import ConfigDict

from configs import common, offline


def get_config(arg: str | None = None) -> ConfigDict:
  arg = common.parse_arg(arg, model='tiny-1m', data='', tiny=False)
  return offline.dpo('babyai', arg.model, data=arg.data, tiny=arg.tiny)
