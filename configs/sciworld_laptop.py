r"""GRPO on SciWorld's search for a thing that does not live, on a laptop.

    python launch.py --config=configs/sciworld_laptop.py --workdir=runs/sciworld
    python launch.py --config=configs/sciworld_laptop.py:tiny --workdir=runs/smoke

A policy of one million parameters imitates the expert and goes on by GRPO, in about
a quarter of an hour on two CPU cores. The mean return of held-out tasks rises from 0.485 to
0.646 (three seeds, gain +0.161 [+0.136, +0.186]); success hardly moves, since
the box is named by a colour that the policy does not copy: experiments/2026-11-recipes.
`algo` is any name of configs/algorithms.py.
"""

from ml_collections import ConfigDict

from configs.common import laptop, parse_arg, shrink_laptop


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='tiny-1m', tiny=False)

  config = laptop(arg.algo, arg.model)
  config.num_steps = 16
  config.env.name = 'sciworld'
  # A quarter of the score is for the way, half for the thing, a quarter for the
  # box: each part can be found by itself.
  config.env.options.update(
      tasks=('find-non-living-thing',), simplifications=('easy',), simulators=4
  )
  config.env.timeout_s = 120.0  # simulators start in the first resets
  config.warmstart.update(
      episodes=300,
      epochs=6,
      prompt_weight=0.05,
      stumbles=0.15,
      horizon=12,
  )
  config.rollout.update(
      tasks_per_step=12,
      max_completion_tokens=48,
      max_context=3072,
      concurrency=4,  # as many as there are simulators
  )
  config.horizon.update(turns=(8, 10), every=10)
  config.optim.lr = 5e-4
  config.eval.update(num_tasks=75, samples=2, horizon=10)

  if arg.tiny:  # two steps, to see that everything works
    shrink_laptop(config)
  return config
