r"""Supervised fine-tuning on BabyAI: a tiny policy imitates the expert.

The one-million-parameter policy of the quickstart, minutes on a laptop.

Success on 256 held-out tasks, seed 0: 0.645 [0.584, 0.701] from 0.000; see
experiments/2026-11-offline.

    python launch.py --config=configs/babyai_sft.py --workdir=runs/babyai-sft
    python launch.py --config=configs/babyai_sft.py:data=traj.json \
        --workdir=runs/babyai-sft
    python launch.py --config=configs/babyai_sft.py:tiny --workdir=runs/smoke

`model` may be a run, which then goes on in the style that it learnt. The recipe
for a pretrained model is textcraft_sft.py, which takes BabyAI, too.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from agentrl.models.options import TINY
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, model='tiny-1m', data='', tiny=False)

  config = defaults('sft')
  config.env.name = 'babyai'
  config.env.options.update(levels=('GoToRedBall',), style='compact')
  config.model = dict(name=arg.model)
  if arg.model in TINY:  # short answers, told tersely; a run brings its own
    config.agent = dict(format='plain', instructions='compact')
  config.rollout = dict(max_completion_tokens=16, max_context=1024)
  if arg.data:
    # Asked in training as at evaluation: our instructions, not the file's.
    config.data = dict(files=(arg.data,), own_opening=True)
  else:
    config.data = dict(expert_episodes=256, expert_horizon=12)
  config.algo.epochs = 3  # from nothing, one pass is too few
  # A random policy takes larger steps, and few of them: none is small.
  config.optim = dict(lr=1e-3, weight_decay=0.01, b2=0.95)
  config.eval = dict(num_tasks=256, horizon=6)
  config.checkpoint.every = 50

  if arg.tiny:  # a minute, to see that everything works
    config.sampler.max_running = 8
    config.rollout.concurrency = 8
    if not arg.data:
      config.data.expert_episodes = 16
    config.algo.minibatch_size = 8
    config.eval.num_tasks = 8
    config.checkpoint.every = 5
  return config
