r"""DPO on BabyAI: a tiny policy imitates the expert, then prefers what works.

The one-million-parameter policy of the quickstart, minutes on a laptop. With
model=RUN, a run of sft, it goes on from there; from a run of a pretrained model
by the original's recipe, on the six levels of the paper.

It raised success on 256 held-out tasks from 0.523 [0.462, 0.584] to 0.637
[0.576, 0.693]; from a run of sft, on the policy's own pairs, it did not:
experiments/2026-11-offline says why.

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
