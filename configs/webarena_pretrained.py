r"""GRPO on four kinds of tasks on sites of WebArena's kind, from SmolLM2-135M, on a laptop.

    python launch.py --config=configs/webarena_pretrained.py --workdir=runs/webarena
    python launch.py --config=configs/webarena_pretrained.py:tiny --workdir=runs/smoke

Values are held out: other products, forums and projects. Not measured yet:
experiments/2026-12-pretrained says what is. `algo` is any name of
configs/algorithms.py.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, pretrained, shrink_pretrained

# One or two commands and an end, by what can be clicked alone: 600 to 900 tokens.
TASKS = (
    'shop/cart_this',
    'shop/wish_this',
    'forum/subscribe',
    'forge/open-project',
)


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = pretrained(arg.algo, arg.model)
  config.num_steps = 8
  config.env.name = 'webarena'
  config.env.options.update(
      tasks=TASKS, split_by='value', style='controls', navigation='first'
  )
  config.warmstart.update(episodes=72, epochs=1, horizon=4)
  # Episodes of a task share its first page, so that many cost less than many tasks.
  config.rollout.update(
      tasks_per_step=4,
      group_size=8,
      max_completion_tokens=24,
      max_context=2048,
      concurrency=16,
  )
  config.horizon.update(turns=(2, 3), every=3)
  config.optim.lr = 2e-4
  config.eval.update(num_tasks=28, samples=2, horizon=3)

  if arg.tiny:  # two steps, to see that everything works
    shrink_pretrained(config)
  return config
