r"""GRPO on SearchQA's questions of one to three hops, with a pretrained policy, on a laptop.

    python launch.py --config=configs/searchqa_pretrained.py --workdir=runs/searchqa
    python launch.py --config=configs/searchqa_pretrained.py:tiny --workdir=runs/smoke

DRAFT
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, pretrained, shrink_pretrained


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = pretrained(arg.algo, arg.model)
  config.num_steps = 10
  config.env.name = 'searchqa'
  config.env.options.update(topk=1)
  config.warmstart.update(episodes=160, epochs=1, horizon=6)
  config.rollout.update(max_completion_tokens=32, max_context=1536)
  config.horizon.turns = (3, 5)
  config.eval.update(horizon=5)

  if arg.tiny:  # two steps, to see that everything works
    shrink_pretrained(config)
  return config
