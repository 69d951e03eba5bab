r"""GRPO on MiniWoB++, small web tasks in a real browser, on a laptop.

    python launch.py --config=configs/miniwob_grpo.py --workdir=runs/miniwob
    python launch.py --config=configs/miniwob_grpo.py:tiny --workdir=runs/smoke

`algo` is any name of configs/algorithms.py. On 240 held-out tasks, of an earlier panel
and data version, success before and after GRPO was 0.475 and 0.546, 0.508 and 0.688,
0.533 and 0.617 for seeds 0, 1, 2; experiments/2026-11-miniwob has intervals and what
held it back.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from configs import algorithms
from configs.common import parse_arg

# One or two commands each, on a page of some ten elements, whose names are of a
# few words: to copy a random one, a million parameters would need more episodes.
PAGES = (
    'button-delay',
    'click-button-sequence',
    'click-collapsible',
    'click-dialog',
    'click-tab',
    'click-test',
    'click-test-2',
    'click-widget',
    'focus-text',
    'focus-text-2',
)


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='tiny-1m', tiny=False)

  config = defaults('train')
  config.num_steps = 28

  config.env.name = 'miniwob'
  config.env.options.update(tasks=PAGES, style='compact')
  config.agent = dict(format='plain', instructions='compact')
  config.model = dict(name=arg.model)

  config.warmstart = dict(
      episodes=160, epochs=5, minibatch_size=16, warmup_steps=4, horizon=8
  )
  # Pages open one after the other: more episodes at a time only wait.
  config.rollout = dict(
      tasks_per_step=10,
      group_size=8,
      max_completion_tokens=24,
      max_context=1024,
      concurrency=16,
  )
  config.horizon = dict(kind='stepwise', turns=(2, 4), every=10)
  config.algo = algorithms.get(arg.algo, minibatches=4)
  config.optim = dict(lr=3e-4, warmup_steps=2)
  config.eval = dict(num_tasks=240, horizon=4)

  if arg.tiny:  # two steps, to see that everything works
    config.num_steps = 2
    config.sampler.max_running = 8
    config.warmstart.update(episodes=12, epochs=1)
    config.rollout.update(tasks_per_step=2, group_size=4, concurrency=8)
    config.horizon.every = 1
    config.eval.num_tasks = 4
    config.checkpoint.every = 1
  return config
