r"""GRPO on TextCraft's goals of two to four levels, from SmolLM2-135M, on a laptop.

    python launch.py --config=configs/textcraft_pretrained.py --workdir=runs/textcraft
    python launch.py --config=configs/textcraft_pretrained.py:tiny --workdir=runs/smoke

Worlds are held out: items exchange their names in each. Goals of two levels come first,
deeper ones as these are solved. Seed 0 began at 0.172 of 64 goals after imitation, at 0.282 of
those of two levels; what RL makes of it is not measured yet: experiments/2026-12-pretrained.
`algo` is any name of configs/algorithms.py.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, pretrained, shrink_pretrained


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = pretrained(arg.algo, arg.model)
  config.num_steps = 24
  config.model.lora.rank = 16
  config.env.name = 'textcraft'
  # Without distractors a page has a third of the lines.
  config.env.options.update(min_depth=2, max_depth=4, distractors=0, worlds=400)
  config.warmstart.update(episodes=1200, epochs=1, horizon=16)
  # In most groups of four, all episodes ended alike.
  config.rollout.update(
      group_size=8, max_completion_tokens=40, max_context=1024
  )
  config.horizon.update(turns=(8, 14), every=6)
  config.tasks.update(
      order='stages', stages=(('depth 2',), ('depth 3',), ('depth 4',))
  )
  config.eval.update(horizon=14)

  if arg.tiny:  # two steps, to see that everything works
    shrink_pretrained(config)
  return config
