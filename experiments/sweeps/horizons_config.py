r"""The quickstart under one schedule of the horizon.

    python launch.py --workdir=runs/success \
        --config=experiments/sweeps/horizons_config.py:schedule=success

Sweeps are made of it: `horizons` of all schedules, `collapse` of learning rates
that are too large. `schedule` is a name of SCHEDULES; `start=RUN/checkpoints/0`
begins with that run's policy in place of a warm start.
"""

from ml_collections import ConfigDict

from configs import quickstart
from configs.common import parse_arg

# For 20 steps from 3 turns to 6, in which success at 3 goes from 0.3 to 0.6.
_STAGES = (3, 4, 6)
SCHEDULES = {
    'fixed_3': dict(kind='fixed', turns=(3,)),
    'fixed_6': dict(kind='fixed', turns=(6,)),
    'stepwise': dict(kind='stepwise', turns=(3, 6), every=10),
    'linear': dict(kind='linear', turns=(3, 6), every=12),
    'success': dict(kind='success', turns=_STAGES, threshold=0.5, window=3),
    'held_out': dict(
        kind='success',
        turns=_STAGES,
        threshold=0.5,
        window=1,
        metric='eval_small',
    ),
    'saturation': dict(
        kind='saturation', turns=_STAGES, threshold=0.5, window=3
    ),
    'token_budget': dict(kind='token_budget', turns=_STAGES, tokens=4000.0),
    'random': dict(kind='random', turns=(3, 6)),
    # Twice what a task needs: for a collapse.
    'fixed_12': dict(kind='fixed', turns=(12,)),
}


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(
      arg, schedule='stepwise', steps=20, start=str, algo='grpo', tiny=False
  )
  if arg.schedule not in SCHEDULES:
    raise ValueError(
        f'Unknown schedule={arg.schedule}; known: {", ".join(SCHEDULES)}.'
    )
  config = quickstart.get_config(
      f'algo={arg.algo},tiny={"true" if arg.tiny else "false"}'
  )
  if not arg.tiny:
    config.num_steps = arg.steps
  config.horizon = SCHEDULES[arg.schedule]
  if config.horizon.metric == 'eval_small':
    config.eval.small = dict(num_tasks=64, every=2)
    if arg.tiny:
      config.eval.small = dict(num_tasks=4, every=1)
  if arg.start:
    config.model.name = arg.start
    config.warmstart = {}
  return config
