r"""AgentEvol on BabyAI: a tiny policy learns from the expert, then from itself.

The one-million-parameter policy of the quickstart, minutes on a laptop. With
model=smollm2-135m or a directory it is the original's recipe on the six levels
of the paper.

Success on 256 held-out tasks with its 95% interval, seed 0: 0.480 [0.420, 0.542]
after the demonstrations, 0.695 [0.636, 0.748] after one round, 0.719
[0.661, 0.770] after two.

    python launch.py --config=configs/babyai_agentevol.py --workdir=runs/evol
    python launch.py --config=configs/babyai_agentevol.py:tiny \
        --workdir=runs/smoke
"""

from ml_collections import ConfigDict

from configs import common, offline


def get_config(arg: str | None = None) -> ConfigDict:
  arg = common.parse_arg(arg, model='tiny-1m', data='', tiny=False)
  return offline.agentevol('babyai', arg.model, data=arg.data, tiny=arg.tiny)
