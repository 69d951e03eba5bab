r"""GRPO on SciWorld's search for things, living or not, from SmolLM2-135M, on a laptop.

    python launch.py --config=configs/sciworld_pretrained.py --workdir=runs/sciworld
    python launch.py --config=configs/sciworld_pretrained.py:tiny --workdir=runs/smoke

Not measured yet: experiments/2026-12-pretrained says what is. `algo` is any name of
configs/algorithms.py.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, pretrained, shrink_pretrained


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = pretrained(arg.algo, arg.model)
  config.num_steps = 10
  config.env.name = 'sciworld'
  config.env.options.update(
      tasks=('find-non-living-thing', 'find-living-thing'),
      simplifications=('easy',),
      simulators=8,
  )
  config.env.timeout_s = 120.0  # simulators start in the first resets
  config.warmstart.update(episodes=96, epochs=1, horizon=16)
  config.rollout.update(
      max_completion_tokens=16,
      max_context=1024,
      concurrency=8,  # as many as there are simulators
  )
  config.horizon.turns = (10, 14)
  config.eval.update(num_tasks=64, horizon=14)

  if arg.tiny:  # two steps, to see that everything works
    shrink_pretrained(config)
  return config
