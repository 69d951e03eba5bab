r"""GRPO on three kinds of task of a shop and a forum, on a laptop.

    python launch.py --config=configs/webarena_laptop.py --workdir=runs/webarena
    python launch.py --config=configs/webarena_laptop.py:tiny --workdir=runs/smoke

A policy of one million parameters reads whole pages of some 100 elements and acts
once before it stops. It has not been seen to learn: after the warm start it solves
0.056 [0.025, 0.094] of 160 held-out episodes, too few for GRPO
(experiments/2026-11-webarena). `algo` is any name of configs/algorithms.py.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from configs import algorithms
from configs.common import parse_arg

TASKS = ('shop/cart_this', 'shop/wish_this', 'forum/subscribe')


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='tiny-1m', tiny=False)

  config = defaults('train')
  config.num_steps = 12

  config.env.name = 'webarena'
  config.env.options.update(tasks=TASKS, split_by='value', style='compact')
  config.agent = dict(format='plain', instructions='compact')
  config.model = dict(name=arg.model)

  config.warmstart = dict(
      episodes=120, epochs=4, minibatch_size=8, warmup_steps=4, horizon=4
  )
  config.rollout = dict(
      tasks_per_step=6,
      group_size=6,
      max_completion_tokens=24,
      max_context=4096,  # pages have some 1,300 tokens
      concurrency=16,
  )
  config.horizon = dict(kind='stepwise', turns=(2, 3), every=6)
  config.algo = algorithms.get(arg.algo, minibatches=3)
  config.optim = dict(lr=3e-4, warmup_steps=2, max_tokens=8192)
  config.eval = dict(num_tasks=20, samples=8, horizon=3)

  if arg.tiny:  # two steps, to see that everything works
    config.num_steps = 2
    config.sampler.max_running = 4
    config.warmstart.update(episodes=8, epochs=1, minibatch_size=4)
    config.rollout.update(tasks_per_step=2, group_size=2, concurrency=4)
    config.optim.max_tokens = 4096
    config.horizon.every = 1
    config.eval.update(num_tasks=4, samples=1)
    config.checkpoint.every = 1
  return config
