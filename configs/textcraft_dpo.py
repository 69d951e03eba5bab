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

BabyAI takes the flags of env and eval that textcraft_sft.py names, and
--config.explore.tasks=810 --config.explore.horizon=20.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from agentrl.models.options import TINY
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, model='', data='', tiny=False)
  model = arg.model or ('tiny-1m' if arg.tiny else 'smollm2-135m')

  config = defaults('dpo')
  config.env.name = 'textcraft'
  # Recomputed activations: the attention scores of one long episode in 30
  # layers would fill a laptop's memory.
  config.model = dict(name=model, remat='full')
  config.rollout.max_context = 4096  # the original's max_length
  if arg.data:
    # Asked in training as at evaluation: our instructions, not the file's.
    config.pairs = dict(files=(arg.data,), own_opening=True)
    config.explore.tasks = 0
  else:
    config.explore = dict(tasks=374, samples=2, horizon=30)
  config.pairs.update(gap=0.01, threshold=0.7)
  config.algo = dict(beta=0.5, epochs=3, minibatch_size=64, warmup=0.1)
  config.optim = dict(lr=5e-7, weight_decay=0.1)
  config.eval = dict(num_tasks=100, horizon=30)
  config.checkpoint.every = 50

  if arg.tiny:  # few of everything, to see that it works
    config.sampler.max_running = 8
    config.rollout.concurrency = 8
    if not arg.data:
      config.explore.tasks = 16
    config.algo.minibatch_size = 8
    config.eval.num_tasks = 8
    config.checkpoint.every = 5
    if model in TINY:  # it imitates the expert first; as in babyai_dpo.py
      config.env.options.max_depth = 1
      config.agent = dict(format='plain', instructions='compact')
      config.model.remat = 'dots'
      config.rollout.update(max_completion_tokens=16, max_context=1024)
      config.warmstart = dict(
          episodes=16, epochs=3, minibatch_size=8, warmup_steps=4, horizon=12
      )
      config.explore.update(samples=4, horizon=6)
      config.pairs.with_expert = not arg.data
      config.algo.update(
          beta=5.0, length_normalised=True, nll_coef=1.0, epochs=2
      )
      config.optim.lr = 3e-4
      config.eval.horizon = 6
  return config
