r"""GRPO on Gymnasium's FrozenLake, told in words, on a laptop.

    python launch.py --config=configs/gymnasium_laptop.py --workdir=runs/lake
    python launch.py --config=configs/gymnasium_laptop.py:tiny --workdir=runs/smoke
    python launch.py --config=configs/gymnasium_laptop.py --workdir=runs/taxi \
        --config.env.options.id=Taxi-v4 --config.env.options.kwargs=None \
        --config.horizon.turns="(12, 20)" --config.eval.horizon=20

A lake of 4 x 4 for each task, none of the held-out ones seen before, and a policy of one
million parameters from scratch, which is told the map and what is beside it. Success on 256
held-out lakes, after imitation and after RL: 0.344 -> 0.730, 0.379 -> 0.633, 0.371 -> 0.688
(seeds 0, 1, 2), in 13 minutes and more beside other work; random actions 0.039. See
experiments/2026-12-gymnasium.

`algo` is any name of configs/algorithms.py. Another environment is another
`env.options.id`; agentrl/envs/README.md says how it is told. Taxi needs more to imitate:
0.004 of its held-out starts after 384 episodes.
"""

from ml_collections import ConfigDict

from configs.common import laptop, parse_arg, shrink_laptop


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='tiny-1m', tiny=False)

  config = laptop(arg.algo, arg.model)
  config.num_steps = 120
  config.env.name = 'gymnasium'
  config.env.options.update(id='FrozenLake-v1', kwargs={'is_slippery': False})
  config.warmstart.update(episodes=512, epochs=2, horizon=20)
  config.rollout.update(
      tasks_per_step=8, max_completion_tokens=8, max_context=1024
  )
  config.horizon.turns = (8, 12)
  config.eval = dict(num_tasks=256, horizon=12)

  if arg.tiny:  # two steps, to see that everything works
    shrink_laptop(config)
  return config
