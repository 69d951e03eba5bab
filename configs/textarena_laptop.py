r"""GRPO on TextArena's GuessTheNumber, on a laptop.

    python launch.py --config=configs/textarena_laptop.py --workdir=runs/guess
    python launch.py --config=configs/textarena_laptop.py:tiny --workdir=runs/smoke
    python launch.py --config=configs/textarena_laptop.py:model=MODEL --workdir=runs/sudoku \
        --config.env.options.id=Sudoku-v0-easy --config.warmstart.episodes=0

A number from 1 to 20 in ten guesses, and a policy of one million parameters from scratch
after a warm start on halving. `algo` is any name of configs/algorithms.py. Another game is
another `env.options.id`; only GuessTheNumber has an expert, so that others want a model
that knows how to play. Needs `pip install -r third_party/requirements/adapters.txt`.
"""

from ml_collections import ConfigDict

from configs.common import laptop, parse_arg, shrink_laptop


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='tiny-1m', tiny=False)

  config = laptop(arg.algo, arg.model)
  config.num_steps = 50
  config.env.name = 'textarena'
  config.env.options.update(id='GuessTheNumber-v0')
  config.warmstart.update(episodes=512, epochs=2, horizon=10)
  config.rollout.update(
      tasks_per_step=8, max_completion_tokens=8, max_context=1024
  )
  config.horizon.turns = (6, 10)
  config.eval = dict(num_tasks=256, horizon=10)

  if arg.tiny:  # two steps, to see that everything works
    shrink_laptop(config)
  return config
