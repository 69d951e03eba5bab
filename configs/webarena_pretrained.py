r"""GRPO on five kinds of tasks on sites of WebArena's kind, from SmolLM2-135M, on a laptop.

    python launch.py --config=configs/webarena_pretrained.py --workdir=runs/webarena
    python launch.py --config=configs/webarena_pretrained.py:tiny --workdir=runs/smoke

Values are held out: other products, terms, forums and projects. Not measured yet:
experiments/2026-12-pretrained says what is. `algo` is any name of
configs/algorithms.py.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, pretrained, shrink_pretrained

# One or two commands and an end, on pages of 600 to 1,300 tokens.
TASKS = (
    'shop/cart_this',
    'shop/wish_this',
    'admin/term-uses',
    'forum/subscribe',
    'forge/open-project',
)


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = pretrained(arg.algo, arg.model)
  config.num_steps = 8
  config.env.name = 'webarena'
  config.env.options.update(
      tasks=TASKS, split_by='value', style='lean', navigation='first'
  )
  config.warmstart.update(episodes=64, epochs=1, horizon=4)
  config.rollout.update(
      tasks_per_step=6,
      max_completion_tokens=24,
      max_context=4096,
      concurrency=12,
  )
  config.horizon.update(turns=(2, 3), every=3)
  config.optim.max_tokens = 4096
  config.eval.update(num_tasks=36, horizon=3)

  if arg.tiny:  # two steps, to see that everything works
    shrink_pretrained(config)
  return config
