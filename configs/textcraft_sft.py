r"""Supervised fine-tuning on TextCraft.

On the environment's expert, or on a file of conversations (AgentTraj or plain)
or episodes. Learning rate, batch, length and warm-up are those of AgentGym-RL's
SFT trainer (sft_trainer.yaml). No run of that size has been made yet.

    python launch.py --config=configs/textcraft_sft.py --workdir=runs/sft
    python launch.py --config=configs/textcraft_sft.py:data=traj.json \
        --workdir=runs/sft
    python launch.py --config=configs/textcraft_sft.py:tiny --workdir=runs/smoke

The last one shows that everything works, in about a minute on a CPU.
"""

from ml_collections import ConfigDict

from configs import common, offline


def get_config(arg: str | None = None) -> ConfigDict:
  arg = common.parse_arg(arg, model='', data='', tiny=False)
  model = arg.model or ('tiny-1m' if arg.tiny else 'smollm2-135m')
  return offline.sft('textcraft', model, data=arg.data, tiny=arg.tiny)
