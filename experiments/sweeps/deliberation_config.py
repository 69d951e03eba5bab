r"""ReAct, with plans, or with attempts that learn from each other, on TextCraft.

    python launch.py --workdir=runs/plan \
        --config=experiments/sweeps/deliberation_config.py:agent=plan

`deliberation` is a sweep of it. `agent` is a name of AGENTS. With
`start=RUN/checkpoints/0` it begins with that run's policy and imitates the expert for
a short while only, in its own way of talking.
"""

from ml_collections import ConfigDict

from configs.common import laptop, parse_arg, shrink_laptop

AGENTS = {
    'react': {},
    'plan': dict(plan=dict(kind='start', tokens=32)),
    'reflect': dict(reflect=dict(attempts=2, tokens=32)),
}


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, agent='react', start=str, algo='grpo', tiny=False)
  if arg.agent not in AGENTS:
    raise ValueError(f'Unknown agent={arg.agent}; known: {", ".join(AGENTS)}.')

  config = laptop(arg.algo, 'tiny-1m')
  config.env.name = 'textcraft'
  config.env.options.update(max_depth=1, max_ingredients=1, distractors=0)
  config.agent.update(format='react', **AGENTS[arg.agent])
  config.warmstart.update(
      episodes=408,
      epochs=8,
      horizon=12,
  )
  config.rollout.update(
      tasks_per_step=8, max_completion_tokens=48, max_context=1024
  )
  config.horizon.update(kind='fixed', turns=(6,), every=0)
  # The goals that it learns from: one million parameters do not reach others.
  config.eval.update(split='train', num_tasks=68, samples=2, horizon=6)

  if arg.agent == 'reflect':
    # As many episodes as the others: two attempts each.
    config.rollout.group_size = 4
    config.eval.samples = 1
  if arg.start:
    config.model.name = arg.start
    config.num_steps = 15
    config.warmstart.update(episodes=68, epochs=2, lr=1e-3)
  if arg.tiny:  # two steps, to see that everything works
    shrink_laptop(config)
  return config
