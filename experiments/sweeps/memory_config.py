r"""TextCraft's deep goals under a context that is too small for them.

    python launch.py --workdir=runs/window \
        --config=experiments/sweeps/memory_config.py:context=window,start=runs/whole/checkpoints/0

`memory` is a sweep of it. `context` is a name of CONTEXTS. `start` is the policy that
it begins with, which imitates the expert under its context for a while before it
learns by GRPO; without it the run is that policy's: imitation of whole episodes, in
a context that holds them. `depth` is a key of GOALS.
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
# Training goals by their depth: which, and the turns that their plans fit in. Of
# the seven of depth 4 two are done in 14 turns, the longest takes 27.
GOALS = {
    3: dict(min_family=4, turns=14, num_tasks=40, samples=2),
    4: dict(min_family=0, turns=28, num_tasks=7, samples=4),
}


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(
      arg, context='full', depth=3, start=str, algo='grpo', tiny=False
  )
  if arg.context not in CONTEXTS:
    raise ValueError(
        f'Unknown context={arg.context}; known: {", ".join(CONTEXTS)}.'
    )
  if arg.depth not in GOALS:
    raise ValueError(
        f'Unknown depth={arg.depth}; known: {", ".join(map(str, GOALS))}.'
    )
  goals = GOALS[arg.depth]

  config = laptop(arg.algo, 'tiny-1m')
  config.num_steps = 5
  config.model.remat = 'none'
  config.env.name = 'textcraft'
  config.env.options.update(
      min_depth=arg.depth,
      max_depth=arg.depth,
      min_family=goals['min_family'],
      distractors=0,
  )
  config.agent.context = CONTEXTS[arg.context]
  config.warmstart.update(
      episodes=400,
      epochs=6,
      horizon=max(24, goals['turns']),
  )
  config.rollout.update(
      tasks_per_step=4, max_completion_tokens=48, max_context=2048
  )
  config.horizon.update(kind='fixed', turns=(goals['turns'] + 2,), every=0)
  # The goals that it learns from: whether it remembers within an episode is
  # the question, and one million parameters do not reach other deep goals.
  config.eval.update(
      split='train',
      num_tasks=goals['num_tasks'],
      samples=goals['samples'],
      horizon=goals['turns'],
  )

  if arg.start:
    config.model.name = arg.start
    config.warmstart.update(episodes=96, epochs=2, lr=1e-3)
    config.rollout.update(group_size=6, max_context=512)
    config.horizon.turns = (goals['turns'],)
  else:  # fewer tokens a name
    config.model.vocab_size = 2048
  if arg.tiny:  # two steps, to see that everything works
    shrink_laptop(config)
  return config
