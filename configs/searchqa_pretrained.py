r"""GRPO on SearchQA's questions of one to three hops, from SmolLM2-135M, on a laptop.

    python launch.py --config=configs/searchqa_pretrained.py --workdir=runs/searchqa
    python launch.py --config=configs/searchqa_pretrained.py:tiny --workdir=runs/smoke

7,317 questions to train on, of countries, cities and elements; those held out are of
others. Questions of one hop come first, longer ones as these are solved. Not measured yet
with these values: experiments/2026-12-pretrained says what was. `algo` is any name of
configs/algorithms.py.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, pretrained, shrink_pretrained


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = pretrained(arg.algo, arg.model)
  config.num_steps = 24
  config.env.name = 'searchqa'
  config.env.options.update(topk=1)
  config.warmstart.update(episodes=320, epochs=1, horizon=6)
  # In three of four groups of four, all episodes ended alike.
  config.rollout.update(group_size=8, max_completion_tokens=32, max_context=768)
  config.horizon.update(turns=(3, 5), every=8)
  config.tasks.update(
      order='stages', stages=(('1 hop',), ('2 hops',), ('3 hops',))
  )
  config.eval.update(horizon=5)

  if arg.tiny:  # two steps, to see that everything works
    shrink_pretrained(config)
  return config
