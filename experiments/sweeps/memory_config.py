r"""TextCraft's deep goals under a context that is too small for them.

    python launch.py --workdir=runs/window \
        --config=experiments/sweeps/memory_config.py:context=window,start=runs/whole/checkpoints/0

`memory` is a sweep of it. `context` is a name of CONTEXTS. `start` is the policy that
it begins with, which imitates the expert under its context for a while before it
learns by GRPO; without it the run is that policy's: imitation of whole episodes, in
a context that holds them.
"""

from ml_collections import ConfigDict

from configs.common import laptop, parse_arg, shrink_laptop

# Plans repeat themselves: a bed needs three wool, one craft each, so that who
# forgets what was done cannot go on.
CONTEXTS = {
    'full': dict(kind='full'),
    'window': dict(kind='window', window=2),
    'summary': dict(kind='summary', budget=384, summary_tokens=64),
}


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, context='full', start=str, algo='grpo', tiny=False)
  if arg.context not in CONTEXTS:
    raise ValueError(
        f'Unknown context={arg.context}; known: {", ".join(CONTEXTS)}.'
    )

  config = laptop(arg.algo, 'tiny-1m')
  config.num_steps = 5
  config.model.remat = 'none'
  config.env.name = 'textcraft'
  config.env.options.update(
      min_depth=3, max_depth=3, min_family=4, distractors=0
  )
  config.agent.context = CONTEXTS[arg.context]
  config.warmstart.update(
      episodes=400,
      epochs=6,
      horizon=24,
  )
  config.rollout.update(
      tasks_per_step=4, max_completion_tokens=48, max_context=2048
  )
  config.horizon.update(kind='fixed', turns=(16,), every=0)
  # The goals that it learns from: whether it remembers within an episode is
  # the question, and one million parameters do not reach other deep goals.
  config.eval.update(split='train', num_tasks=40, samples=2, horizon=14)

  if arg.start:
    config.model.name = arg.start
    config.warmstart.update(episodes=96, epochs=2, lr=1e-3)
    config.rollout.update(group_size=6, max_context=512)
    config.horizon.turns = (14,)
  else:  # fewer tokens a name
    config.model.vocab_size = 2048
  if arg.tiny:  # two steps, to see that everything works
    shrink_laptop(config)
  return config
