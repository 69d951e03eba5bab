r"""Supervised fine-tuning on TextCraft.

On the environment's expert, or on a file of conversations (AgentTraj or plain)
or episodes. Learning rate, batch, length and warm-up are those of AgentGym-RL's
SFT trainer (sft_trainer.yaml). No run of that size has been made yet.

    python launch.py --config=configs/textcraft_sft.py --workdir=runs/sft
    python launch.py --config=configs/textcraft_sft.py:data=traj.json \
        --workdir=runs/sft
    python launch.py --config=configs/textcraft_sft.py:tiny --workdir=runs/smoke

The last one shows that everything works, in about a minute on a CPU.

BabyAI as the paper has it, with the levels of babyai_grpo.py:

    python launch.py --config=configs/textcraft_sft.py --workdir=runs/babyai \
        --config.env.name=babyai --config.env.options.levels="('Pickup',)" \
        --config.data.expert_episodes=810 --config.eval.num_tasks=90 \
        --config.eval.horizon=20
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from agentrl.models.options import TINY
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, model='', data='', tiny=False)
  model = arg.model or ('tiny-1m' if arg.tiny else 'smollm2-135m')

  config = defaults('sft')
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
  config.algo = dict(epochs=1, minibatch_size=16, warmup=0.1)
  config.optim = dict(lr=1e-4, schedule='cosine', weight_decay=0.01, b2=0.95)
  config.eval = dict(num_tasks=100, horizon=30)
  config.checkpoint.every = 50

  if model in TINY:  # from scratch: short answers told tersely, larger steps
    config.env.options.max_depth = 1
    config.agent = dict(format='plain', instructions='compact')
    config.model.remat = 'dots'
    config.rollout.update(max_completion_tokens=16, max_context=1024)
    if not arg.data:
      config.data.update(expert_episodes=256, expert_horizon=12)
    config.algo.epochs = 3
    config.optim.update(lr=1e-3, schedule='constant')
    config.eval.update(num_tasks=256, horizon=6)
  if arg.tiny:  # few of everything, to see that it works
    config.sampler.max_running = 8
    config.rollout.concurrency = 8
    if not arg.data:
      config.data.expert_episodes = 16
    config.algo.minibatch_size = 8
    config.eval.num_tasks = 8
    config.checkpoint.every = 5
  return config
