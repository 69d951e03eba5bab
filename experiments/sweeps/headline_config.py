r"""One run of the horizon study: a small policy under one schedule of the horizon.

    python launch.py --workdir=runs/cell \
        --config=experiments/sweeps/headline_config.py:env=babyai,schedule=stepwise

`headline` runs all of them; experiments/2026-12-headline/PLAN.md is the plan they
follow. `schedule` is a name of SCHEDULES; `start=RUN/checkpoints/0` begins with that
run's policy in place of a warm start.
"""

from typing import Any

from ml_collections import ConfigDict

from agentrl.schedules import Horizon
from configs.common import laptop, parse_arg, shrink_laptop

# Turns of the three stages. The expert takes 5 and 6 turns on average; the last is the
# horizon of every evaluation.
TURNS = {'babyai': (6, 12, 24), 'textcraft': (8, 16, 30)}
# Steps of a stage.
STAGE = {'babyai': 10, 'textcraft': 8}
TOKENS = {'babyai': 100_000, 'textcraft': 200_000}


def reversed_stepwise(options: Any) -> Horizon:
  """The stages from the last to the first: as many turns, in the wrong order."""
  turns = tuple(reversed(options.turns))
  return Horizon(
      init=lambda: None,
      update=lambda state, step, stats: (
          state,
          turns[min(step // options.every, len(turns) - 1)],
      ),
      name=f'reversed_stepwise({turns}, every={options.every})',
  )


def _schedules(env: str) -> dict[str, dict[str, Any]]:
  short, middle, long = turns = TURNS[env]
  every = STAGE[env]
  return {
      'long': dict(kind='fixed', turns=(long,)),
      'short': dict(kind='fixed', turns=(short,)),
      'stepwise': dict(kind='stepwise', turns=turns, every=every),
      'linear': dict(kind='linear', turns=(short, long), every=2 * every),
      'success': dict(kind='success', turns=turns, threshold=0.5, window=3),
      'saturation': dict(
          kind='saturation', turns=turns, threshold=0.5, window=3
      ),
      # Each episode its own; on average the mean of the three stages.
      'random': dict(kind='random', turns=(2 * sum(turns) // 3 - long, long)),
      'reversed': dict(
          kind='experiments.sweeps.headline_config:reversed_stepwise',
          turns=turns,
          every=every,
      ),
  }


SCHEDULES = tuple(_schedules('babyai'))


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(
      arg,
      env='babyai',
      schedule='stepwise',
      start=str,
      algo='grpo',
      tiny=False,
  )
  for name, known in (('env', tuple(TURNS)), ('schedule', SCHEDULES)):
    if arg[name] not in known:
      raise ValueError(
          f'Unknown {name}={arg[name]}; known: {", ".join(known)}.'
      )
  long = TURNS[arg.env][-1]
  config = laptop(arg.algo, 'tiny-1m')
  # The tokens end a run; no schedule needs as many steps.
  config.num_steps, config.num_tokens = 400, TOKENS[arg.env]
  config.env.name = arg.env
  if arg.env == 'babyai':
    # Two doors in a fixed order, of which one is seen at a time.
    config.env.options.update(
        levels=('OpenRedBlueDoorsDebug',), style='compact'
    )
    config.warmstart.update(
        episodes=800, epochs=1, minibatch_size=16, horizon=12
    )
    config.rollout.update(
        tasks_per_step=8, max_completion_tokens=16, max_context=2048
    )
    config.eval.num_tasks = 256
  else:
    config.env.options.update(
        min_depth=2, max_depth=3, max_ingredients=1, distractors=0
    )
    config.warmstart.update(
        episodes=133, epochs=42, minibatch_size=16, horizon=24
    )
    config.rollout.update(
        tasks_per_step=4, max_completion_tokens=40, max_context=4096
    )
    # Held out are 27 goals; whether what is trained on is learnt, 133 can say.
    config.eval.update(split='train', num_tasks=133, samples=2)
  config.horizon = _schedules(arg.env)[arg.schedule]
  if arg.algo == 'ppo':
    config.algo.critic = dict(lr=3e-4, warmup=5)
  config.eval.update(horizon=long, small=dict(num_tasks=64, every=5))
  if arg.start:
    config.model.name = arg.start
    config.warmstart = {}
  if arg.tiny:  # two steps, to see that everything works
    shrink_laptop(config)
    config.num_tokens = 0
    if config.horizon.kind == 'random':
      config.horizon.turns = (2, 4)
    config.eval.small.update(num_tasks=2, every=1)
  return config
