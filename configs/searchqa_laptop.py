r"""GRPO on SearchQA's questions for the country of a city, on a laptop.

    python launch.py --config=configs/searchqa_laptop.py --workdir=runs/searchqa
    python launch.py --config=configs/searchqa_laptop.py:tiny --workdir=runs/smoke

A policy of one million parameters imitates the expert and goes on by GRPO, in six
minutes on one of two shared CPU cores. It answers 0.030 of the held-out questions before
RL and 0.043 after (three seeds, gain +0.014 [-0.026, +0.113]): experiments/2026-11-recipes
says what was tried and what held it back. `algo` is any name of configs/algorithms.py.
"""

from ml_collections import ConfigDict

from configs.common import laptop, parse_arg, shrink_laptop


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='tiny-1m', tiny=False)

  config = laptop(arg.algo, arg.model)
  config.num_steps = 20
  config.env.name = 'searchqa'
  # Names to search for that it has never read, but answers that it has.
  config.env.options.update(relations=('country of city',), max_hops=1, topk=1)
  config.warmstart.update(
      episodes=404,  # once each
      epochs=6,
      prompt_weight=0.1,
      horizon=4,
  )
  config.rollout.update(
      tasks_per_step=16, max_completion_tokens=32, max_context=1024
  )
  config.horizon.turns = (2, 4)
  config.optim.lr = 3e-4
  config.eval.update(num_tasks=48, samples=4, horizon=4)

  if arg.tiny:  # two steps, to see that everything works
    shrink_laptop(config)
  return config
