r"""AgentEvol on BabyAI: a tiny policy learns from the expert, then from itself.

The one-million-parameter policy of the quickstart, minutes on a laptop. With
model=smollm2-135m or a directory it is the original's recipe on the six levels
of the paper.

    python launch.py --config=configs/babyai_agentevol.py --workdir=runs/evol
    python launch.py --config=configs/babyai_agentevol.py:tiny \
        --workdir=runs/smoke
"""

from ml_collections import ConfigDict

from configs import common


def get_config(arg: str | None = None) -> ConfigDict:
  arg = common.parse_arg(arg, model='tiny-1m', data='', tiny=False)
  return common.agentevol('babyai', arg.model, data=arg.data, tiny=arg.tiny)
