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

BabyAI takes the flags that textcraft_sft.py names, and
--config.explore.tasks=810 --config.explore.horizon=20 --config.algo.threshold=0.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from agentrl.models.options import TINY
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, model='', data='', tiny=False)
  model = arg.model or ('tiny-1m' if arg.tiny else 'smollm2-135m')

  config = defaults('agentevol')
  config.num_steps = 4

  config.env.name = 'textcraft'
  # Recomputed activations: the attention scores of one long episode in 30
  # layers would fill a laptop's memory.
  config.model = dict(name=model, remat='full')
  config.rollout.max_context = 4096  # the original's max_length
  if arg.data:
    # Asked in training as at evaluation: our instructions, not the file's.
    config.data = dict(files=(arg.data,), own_opening=True)
  else:
    config.data = dict(expert_episodes=374)
  # The original samples at 1.2, where replies are long.
  config.explore = dict(tasks=374, samples=1, horizon=30, temperature=1.0)
  config.algo = dict(threshold=0.99, epochs=1, minibatch_size=32, warmup=0.1)
  config.optim = dict(lr=1e-5, schedule='linear')
  config.eval = dict(num_tasks=100, horizon=30)

  if arg.tiny:  # few of everything, to see that it works
    config.sampler.max_running = 8
    config.rollout.concurrency = 8
    if not arg.data:
      config.data.expert_episodes = 16
    config.explore.tasks = 16
    config.algo.minibatch_size = 8
    config.eval.num_tasks = 8
    if model in TINY:  # from scratch: as in babyai_agentevol.py
      config.num_steps = 2
      config.env.options.max_depth = 1
      config.agent = dict(format='plain', instructions='compact')
      config.model.remat = 'dots'
      config.rollout.update(max_completion_tokens=16, max_context=1024)
      if not arg.data:
        config.data.expert_horizon = 12
      config.explore.update(samples=2, horizon=6)
      config.algo.epochs = 3
      config.optim.update(lr=1e-3, schedule='constant')
      config.eval.horizon = 6
  return config
