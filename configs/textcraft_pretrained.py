r"""GRPO on TextCraft's goals of two to four levels, from SmolLM2-135M, on a laptop.

    python launch.py --config=configs/textcraft_pretrained.py --workdir=runs/textcraft
    python launch.py --config=configs/textcraft_pretrained.py:tiny --workdir=runs/smoke

Worlds are held out: items exchange their names in each. Not measured yet with these
values: experiments/2026-12-pretrained says what was. `algo` is any name of
configs/algorithms.py.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, pretrained, shrink_pretrained


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = pretrained(arg.algo, arg.model)
  config.num_steps = 10
  config.env.name = 'textcraft'
  config.env.options.update(min_depth=2, max_depth=4, distractors=2, worlds=400)
  config.warmstart.update(episodes=320, epochs=1, horizon=12)
  config.rollout.update(max_completion_tokens=40, max_context=1024)
  config.horizon.turns = (6, 10)
  config.eval.update(horizon=10)

  if arg.tiny:  # two steps, to see that everything works
    shrink_pretrained(config)
  return config
