r"""GRPO on SciWorld's life spans, on a laptop.

    python launch.py --config=configs/sciworld_laptop.py --workdir=runs/sciworld
    python launch.py --config=configs/sciworld_laptop.py:tiny --workdir=runs/smoke

A policy of one million parameters imitates the expert and goes on by GRPO, in ten
minutes on two CPU cores. It solves 0.279 of the held-out tasks before RL and 0.289 after
(three seeds, gain +0.010 [-0.048, +0.070]): experiments/2026-11-recipes says what was
tried and what held it back. `algo` is any name of configs/algorithms.py.
"""

from ml_collections import ConfigDict

from configs.common import laptop, parse_arg, shrink_laptop

TASKS = ('lifespan-longest-lived', 'lifespan-shortest-lived')


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='tiny-1m', tiny=False)

  config = laptop(arg.algo, arg.model)
  config.num_steps = 20
  config.env.name = 'sciworld'
  # Half of the score is for walking outside. Paid for that, a policy is as well
  # off idle as with a guess that is right every second time.
  config.env.options.update(
      tasks=TASKS, simplifications=('easy',), scoring='success', simulators=4
  )
  config.env.timeout_s = 120.0  # simulators start in the first resets
  config.warmstart.update(
      episodes=400,
      epochs=6,
      prompt_weight=0.03,
      stumbles=0.2,
      horizon=12,
  )
  config.rollout.update(
      tasks_per_step=12,
      max_completion_tokens=48,
      max_context=3072,
      concurrency=4,  # as many as there are simulators
  )
  config.horizon.update(turns=(8, 12), every=8)
  config.optim.lr = 5e-4
  config.eval.update(num_tasks=64, samples=2, horizon=12)

  if arg.tiny:  # two steps, to see that everything works
    shrink_laptop(config)
  return config
