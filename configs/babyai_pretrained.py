r"""GRPO on BabyAI's way to the red ball, from SmolLM2-135M, on a laptop.

    python launch.py --config=configs/babyai_pretrained.py --workdir=runs/babyai
    python launch.py --config=configs/babyai_pretrained.py:tiny --workdir=runs/smoke

Three seeds go from 0.651 to 0.880 of 64 held-out tasks on average: a gain of 0.229, [0.054,
0.404] over seeds, in a quarter of an hour on two cores (50 minutes beside other work) and 12.8
GiB. With 8 steps of 32 episodes at a rate of 3e-4 they gained 0.089: experiments/2026-12-pretrained.
`algo` is any name of configs/algorithms.py.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, pretrained, shrink_pretrained


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = pretrained(arg.algo, arg.model)
  config.num_steps = 20
  config.env.name = 'babyai'
  config.env.options.update(levels=('GoToRedBall',), style='compact')
  config.warmstart.update(episodes=64, epochs=1, horizon=12)
  config.rollout.update(
      group_size=8, concurrency=64, max_completion_tokens=16, max_context=512
  )
  config.optim.lr = 5e-4
  config.horizon.update(turns=(3, 6), every=6)
  config.eval.update(horizon=6)

  if arg.tiny:  # two steps, to see that everything works
    shrink_pretrained(config)
  return config
