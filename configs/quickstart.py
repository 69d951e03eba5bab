r"""A tiny policy learns BabyAI by GRPO with a growing horizon, on a laptop.

A policy of one million parameters, trained from scratch, imitates a few hundred
episodes of the expert and then improves by multi-turn GRPO: first with 3 turns
an episode, later with 6. Everything runs inside this one command: the
environment server, the inference engine, the learner.

    python launch.py --config=configs/quickstart.py --workdir=runs/quickstart
    python launch.py --config=configs/quickstart.py:tiny --workdir=runs/smoke
    python launch.py --config=configs/quickstart.py:algo=ppo --workdir=runs/ppo

The second one only shows that everything works: two steps, in about a minute.
`algo` is any name of configs/algorithms.py.
What the first one reached is in experiments/README.md.
"""

from ml_collections import ConfigDict, config_dict

from configs import algorithms
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', tiny=False)

  config = ConfigDict()
  config.mode = 'train'
  config.seed = 0
  config.num_steps = 2 if arg.tiny else 70

  config.env = dict(
      name='babyai',
      url=config_dict.placeholder(str),
      options=dict(levels=('GoToRedBall',), style='compact'),
  )
  config.agent = dict(format='plain', instructions='compact')
  config.model = dict(name='tiny-1m')
  config.mesh = dict(data=1, fsdp=-1, tensor=1, sequence=1)
  config.sampler = dict(kind='embedded', max_running=8 if arg.tiny else 64)

  # Imitation first: a random policy never meets a reward.
  config.warmstart = dict(
      episodes=16 if arg.tiny else 256,
      epochs=1 if arg.tiny else 3,
      minibatch_size=16,
      lr=1e-3,
      warmup_steps=4,
      horizon=12,
  )
  config.rollout = dict(
      tasks_per_step=2 if arg.tiny else 8,
      group_size=4 if arg.tiny else 8,
      max_completion_tokens=16,
      max_context=1024,
      temperature=1.0,
      concurrency=8 if arg.tiny else 64,
  )
  # Turns allowed per episode: 3 for the first steps, then 6. For long at 3 the
  # policy unlearns to look around: what it cannot see, it cannot reach in 3.
  config.horizon = dict(
      kind='stepwise', turns=(3, 6), every=1 if arg.tiny else 10
  )
  # Two updates a collection: sampling costs the same for one.
  config.algo = algorithms.get(arg.algo, kl_coef=0.0, minibatches=2)
  if 'aggregation_constant' in config.algo:
    config.algo.aggregation_constant = 96.0  # 6 turns of 16 tokens
  if arg.algo == 'ppo':
    # From scratch a critic needs a rate like the warm start's, and a while.
    config.algo.critic = dict(kind='own', lr=3e-4, warmup=5)
  config.optim = dict(lr=2e-4, warmup_steps=2, grad_clip=1.0, max_tokens=8192)
  config.eval = dict(num_tasks=8 if arg.tiny else 256, horizon=6)
  config.checkpoint = dict(every=1 if arg.tiny else 10, keep=2)
  return config
