r"""A tiny policy learns BabyAI by GRPO with a growing horizon, on a laptop.

A policy of one million parameters, trained from scratch, imitates a few hundred
episodes of the expert and then improves by multi-turn GRPO: first with 3 turns
an episode, later with 6. Everything runs inside this one command: the
environment server, the inference engine, the learner.

    python launch.py --config=configs/quickstart.py --workdir=runs/quickstart
    python launch.py --config=configs/quickstart.py:tiny --workdir=runs/smoke
    python launch.py --config=configs/quickstart.py:algo=ppo --workdir=runs/ppo

The second one only shows that everything works: two steps, in about a minute.
`algo` is any name of configs/algorithms.py; experiments/2026-11-algorithms
compares them. The first command took about ten minutes on two CPU cores and
raised success on 256 held-out tasks from 0.50, 0.57, 0.62 (warm start) to 0.84,
0.85, 0.85 for seeds 0, 1, 2; see experiments/2026-11-quickstart.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from configs import algorithms
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', tiny=False)

  config = defaults('train')
  config.num_steps = 70

  config.env.name = 'babyai'
  config.env.options.update(levels=('GoToRedBall',), style='compact')
  # Short answers, told tersely: a small policy learns them soon.
  config.agent = dict(format='plain', instructions='compact')
  config.model = dict(name='tiny-1m')

  # Imitation first: a random policy never meets a reward.
  config.warmstart = dict(
      episodes=256, epochs=3, minibatch_size=16, warmup_steps=4, horizon=12
  )
  config.rollout = dict(
      tasks_per_step=8,
      group_size=8,
      max_completion_tokens=16,
      max_context=1024,
  )
  # Turns allowed per episode: 3 for the first steps, then 6. For long at 3 the
  # policy unlearns to look around: what it cannot see, it cannot reach in 3.
  config.horizon = dict(kind='stepwise', turns=(3, 6), every=10)
  # Two updates a collection: sampling costs the same for one.
  config.algo = algorithms.get(arg.algo, minibatches=2)
  if config.algo.aggregation == 'constant':
    config.algo.aggregation_constant = 96.0  # 6 turns of 16 tokens
  if arg.algo == 'gspo':
    # The paper's bounds go with a rate of 1e-6; this one moves ratios further.
    config.algo.update(clip_low=0.03, clip_high=0.04)
  if arg.algo == 'ppo':
    # From scratch a critic needs a rate like the warm start's, and a while.
    config.algo.critic = dict(lr=3e-4, warmup=5)
  config.optim = dict(lr=2e-4, warmup_steps=2)
  config.eval = dict(num_tasks=256, horizon=6)

  if arg.tiny:  # two steps, to see that everything works
    config.num_steps = 2
    config.sampler.max_running = 8
    config.warmstart.update(episodes=16, epochs=1)
    config.rollout.update(tasks_per_step=2, group_size=4, concurrency=8)
    config.horizon.every = 1
    config.eval.num_tasks = 8
    config.checkpoint.every = 1
    if arg.algo == 'ppo':
      config.algo.critic.warmup = 1
  return config
