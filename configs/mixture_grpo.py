r"""GRPO on a mixture of TextCraft, BabyAI and SearchQA, on a laptop.

One tiny policy from scratch imitates the experts of all three and then improves
by GRPO in all three at once. A step has 9 tasks: 3 of each environment while the
weights are equal. Each has its own horizon schedule, limits and panel.

    python launch.py --config=configs/mixture_grpo.py --workdir=runs/mixture
    python launch.py --config=configs/mixture_grpo.py:tiny --workdir=runs/smoke
    python launch.py --config=configs/mixture_grpo.py --workdir=runs/weighted \
        --config.mixture.babyai.weight=2 --config.mixture.searchqa.weight=0.5

Metrics stand as `babyai/rollout/success` and so on beside those of all tasks. In 30
steps BabyAI rose from 0.047 to 0.359 of its held-out tasks, the other two stayed at
0: see experiments/2026-11-mixture. SearchQA needs envs.txt and data.txt, see
README. `algo` is any name of configs/algorithms.py.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from configs import algorithms
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', tiny=False)

  config = defaults('train')
  config.num_steps = 30

  # What the members have in common; each lists what differs.
  config.agent = dict(format='plain', instructions='compact')
  config.rollout = dict(
      tasks_per_step=9, group_size=8, max_completion_tokens=32, max_context=2048
  )
  config.eval = dict(num_tasks=128)
  config.mixture = {
      'textcraft': dict(
          env=dict(name='textcraft', options=dict(max_depth=1, distractors=2)),
          horizon=dict(kind='stepwise', turns=(4, 8), every=10),
          eval=dict(num_tasks=31, horizon=8),
      ),
      'babyai': dict(
          env=dict(
              name='babyai',
              options=dict(levels=('GoToRedBall',), style='compact'),
          ),
          horizon=dict(kind='stepwise', turns=(3, 6), every=10),
          rollout=dict(max_completion_tokens=16, max_context=1024),
          eval=dict(horizon=6),
      ),
      'searchqa': dict(
          env=dict(name='searchqa', options=dict(max_hops=1, topk=1)),
          horizon=dict(turns=(4,)),
          eval=dict(horizon=4),
      ),
  }

  config.model = dict(name='tiny-1m')
  config.warmstart = dict(
      episodes=384, epochs=3, minibatch_size=16, warmup_steps=4, horizon=12
  )
  config.algo = algorithms.get(arg.algo, minibatches=2)
  config.optim = dict(lr=2e-4, warmup_steps=2)

  if arg.tiny:  # two steps, to see that everything works
    config.num_steps = 2
    config.sampler.max_running = 8
    config.warmstart.update(episodes=24, epochs=1)
    config.rollout.update(tasks_per_step=4, group_size=2, concurrency=8)
    config.eval.num_tasks = 2
    for member in config.mixture.values():
      member.eval.num_tasks = 2
    config.checkpoint.every = 1
  return config
