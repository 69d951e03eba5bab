r"""DPO on TextCraft, from a policy that was fine-tuned before.

The policy plays each training task twice; episodes of different returns make
pairs. Or the pairs come from a file, of pairs or of episodes. beta, rate, batch,
epochs, gap and threshold are those of AgentGym's scripts. No run of that size
has been made yet.

    python launch.py --config=configs/textcraft_dpo.py:model=runs/sft \
        --workdir=runs/dpo
    python launch.py --config=configs/textcraft_dpo.py:model=runs/sft,data=FILE \
        --workdir=runs/dpo
    python launch.py --config=configs/textcraft_dpo.py:tiny --workdir=runs/smoke

The last one shows that everything works, in about a minute on a CPU.
"""

from ml_collections import ConfigDict

from configs import common, offline


def get_config(arg: str | None = None) -> ConfigDict:
  arg = common.parse_arg(arg, model='', data='', tiny=False)
  model = arg.model or ('tiny-1m' if arg.tiny else 'smollm2-135m')
  return offline.dpo('textcraft', model, data=arg.data, tiny=arg.tiny)
