r"""GRPO on SearchQA's questions of one hop, on a laptop.

    python launch.py --config=configs/searchqa_laptop.py --workdir=runs/searchqa
    python launch.py --config=configs/searchqa_laptop.py:tiny --workdir=runs/smoke

A policy of one million parameters imitates the expert and goes on by GRPO. It has
not been seen to learn yet: experiments/2026-11-recipes says what was tried and what
held it back. `algo` is any name of configs/algorithms.py.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from configs import algorithms
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='tiny-1m', tiny=False)

  config = defaults('train')
  config.num_steps = 30

  config.env.name = 'searchqa'
  config.env.options.update(max_hops=1, topk=1)
  config.agent = dict(format='plain', instructions='compact')
  config.model = dict(name=arg.model, remat='dots')

  config.warmstart = dict(
      episodes=2048, epochs=4, minibatch_size=16, warmup_steps=8, horizon=4
  )
  config.rollout = dict(
      tasks_per_step=16,
      group_size=8,
      max_completion_tokens=32,
      max_context=1024,
  )
  config.horizon = dict(kind='stepwise', turns=(2, 4), every=10)
  config.algo = algorithms.get(arg.algo, minibatches=2)
  config.optim = dict(lr=2e-4, warmup_steps=2)
  config.eval = dict(num_tasks=256, horizon=4)

  if arg.tiny:  # two steps, to see that everything works
    config.num_steps = 2
    config.sampler.max_running = 8
    config.warmstart.update(episodes=16, epochs=1)
    config.rollout.update(tasks_per_step=2, group_size=4, concurrency=8)
    config.horizon.every = 1
    config.eval.num_tasks = 4
    config.checkpoint.every = 1
  return config
