r"""GRPO on an agent program: a loop of the openai package that guesses with a tool.

    python launch.py --config=experiments/2026-12-program/config.py --workdir=runs/guesses

A policy of one million parameters imitates somebody who guesses at random among what is
left, and learns to halve it.
"""

from ml_collections import ConfigDict

from configs.common import laptop, parse_arg, shrink_laptop

HERE = 'experiments/2026-12-program'  # from the root of a clone


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='tiny-1m', tiny=False)

  config = laptop(arg.algo, arg.model)
  config.num_steps = 40
  config.env.name = 'program'
  config.env.options = dict(
      function=f'{HERE}/agent.py:play',
      expert=f'{HERE}/agent.py:wander',
      tasks=f'{HERE}/tasks.jsonl',
  )
  config.agent.update(format='chat', template='chatml')
  config.warmstart.update(episodes=992, epochs=2, horizon=4)
  config.rollout.update(
      tasks_per_step=8, max_completion_tokens=48, max_context=1024
  )
  config.horizon.update(kind='fixed', turns=(4,), every=0)
  config.eval.update(num_tasks=15, samples=16, horizon=4)

  if arg.tiny:  # two steps, to see that everything works
    shrink_laptop(config)
  return config
