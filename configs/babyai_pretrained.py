r"""GRPO on BabyAI's way to the red ball, from SmolLM2-135M, on a laptop.

    python launch.py --config=configs/babyai_pretrained.py --workdir=runs/babyai
    python launch.py --config=configs/babyai_pretrained.py:tiny --workdir=runs/smoke

Seeds 0 to 2 gain 0.172, 0.109 and -0.016 on 64 held-out tasks, from about 0.65, in seven
minutes each; a pilot of rank 16 with 96 expert episodes and ten steps went from 0.719 to 0.875:
experiments/2026-12-pretrained. `algo` is any name of configs/algorithms.py.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, pretrained, shrink_pretrained


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = pretrained(arg.algo, arg.model)
  config.num_steps = 8
  config.env.name = 'babyai'
  config.env.options.update(levels=('GoToRedBall',), style='compact')
  config.warmstart.update(episodes=64, epochs=1, horizon=12)
  config.rollout.update(max_completion_tokens=16, max_context=512)
  config.horizon.turns = (3, 6)
  config.eval.update(horizon=6)

  if arg.tiny:  # two steps, to see that everything works
    shrink_pretrained(config)
  return config
