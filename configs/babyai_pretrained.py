r"""GRPO on a BabyAI level, with a pretrained policy, on a laptop.

    python launch.py --config=configs/babyai_pretrained.py --workdir=runs/babyai
    python launch.py --config=configs/babyai_pretrained.py:tiny --workdir=runs/smoke

DRAFT
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, pretrained, shrink_pretrained


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = pretrained(arg.algo, arg.model)
  config.num_steps = 10
  config.env.name = 'babyai'
  config.env.options.update(levels=('GoToRedBall',), style='compact')
  config.warmstart.update(episodes=96, epochs=1, horizon=12)
  config.rollout.update(max_completion_tokens=16, max_context=1024)
  config.horizon.turns = (3, 6)
  config.eval.update(horizon=6)

  if arg.tiny:  # two steps, to see that everything works
    shrink_pretrained(config)
  return config
