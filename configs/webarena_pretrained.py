r"""GRPO on two kinds of tasks on sites of WebArena's kind, from SmolLM2-135M, on a laptop.

    python launch.py --config=configs/webarena_pretrained.py --workdir=runs/webarena
    python launch.py --config=configs/webarena_pretrained.py:tiny --workdir=runs/smoke

Values are held out: other products. Seed 0 went from 0.333 to 0.729 of 48 episodes in 13
minutes, from 14 to 24 of 24 on one of the two kinds and from 2 to 11 on the other:
experiments/2026-12-pretrained. `algo` is any name of configs/algorithms.py.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, pretrained, shrink_pretrained

# One command and an end on the page that they begin on: 300 to 600 tokens.
TASKS = ('shop/cart_this', 'shop/wish_this')


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = pretrained(arg.algo, arg.model)
  config.num_steps = 10
  config.env.name = 'webarena'
  config.env.options.update(
      tasks=TASKS,
      split_by='value',
      style='controls',
      navigation='never',
      most_chars=1000,
  )
  config.warmstart.update(episodes=48, epochs=2, lr=5e-4, horizon=4)
  # Episodes of a task share its first page, so that many cost less than many tasks.
  config.rollout.update(
      tasks_per_step=4,
      group_size=8,
      max_completion_tokens=24,
      max_context=1024,
      concurrency=16,
  )
  config.horizon.update(turns=(2, 3), every=4)
  config.eval.update(num_tasks=16, samples=3, horizon=3)

  if arg.tiny:  # two steps, to see that everything works
    shrink_pretrained(config)
  return config
