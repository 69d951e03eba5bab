r"""AgentEvol on TextCraft (arXiv:2406.04151).

Rounds of playing the training tasks and of training the base model anew on the
demonstrations and on what went well. Rounds, threshold, rate and batch are
those of AgentGym's scripts. No run of that size has been made yet.

    python launch.py --config=configs/textcraft_agentevol.py --workdir=runs/evol
    python launch.py --config=configs/textcraft_agentevol.py:data=traj.json \
        --workdir=runs/evol
    python launch.py --config=configs/textcraft_agentevol.py:tiny \
        --workdir=runs/smoke

The last one shows that everything works, in about a minute on a CPU.
"""

from ml_collections import ConfigDict

from configs import common, offline


def get_config(arg: str | None = None) -> ConfigDict:
  arg = common.parse_arg(arg, model='', data='', tiny=False)
  model = arg.model or ('tiny-1m' if arg.tiny else 'smollm2-135m')
  return offline.agentevol('textcraft', model, data=arg.data, tiny=arg.tiny)
