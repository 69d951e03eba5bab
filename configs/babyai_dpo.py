r"""DPO on BabyAI: a tiny policy imitates the expert, then prefers what works.

The one-million-parameter policy of the quickstart, minutes on a laptop. With
model=RUN, a run of sft, it goes on from there, in the style that it learnt.

From a run of sft it raised success on 256 held-out tasks from 0.645 [0.584,
0.701] to 0.738 [0.681, 0.788], on 256 others from 0.602 to 0.633;
experiments/2026-11-offline has the runs that did not, and why.

    python launch.py --config=configs/babyai_dpo.py --workdir=runs/babyai-dpo
    python launch.py --config=configs/babyai_dpo.py:model=runs/babyai-sft \
        --workdir=runs/sft-dpo
    python launch.py --config=configs/babyai_dpo.py:tiny --workdir=runs/smoke

The recipe for a pretrained model is textcraft_dpo.py, which takes BabyAI, too.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from agentrl.models.options import TINY
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, model='tiny-1m', data='', tiny=False)

  config = defaults('dpo')
  config.env.name = 'babyai'
  config.env.options.update(levels=('GoToRedBall',), style='compact')
  config.model = dict(name=arg.model)
  config.rollout = dict(max_completion_tokens=16, max_context=1024)
  config.warmstart = dict(
      epochs=3, minibatch_size=16, warmup_steps=4, horizon=12
  )
  if arg.model in TINY:
    # A random policy imitates the expert first; short answers, told tersely.
    config.warmstart.episodes = 256
    config.agent = dict(format='plain', instructions='compact')
  if arg.data:
    # Asked in training as at evaluation: our instructions, not the file's.
    config.pairs = dict(files=(arg.data,), own_opening=True)
    config.explore.tasks = 0
  else:
    # Sampling costs little, and the expert's episodes show something new.
    config.explore = dict(tasks=1024, samples=4, horizon=6)
    config.pairs.with_expert = True
  # A failure is long, and a sum over its tokens lowers whatever long episodes
  # are made of: means instead, hence the large beta. The imitation keeps the
  # better episodes from becoming less likely, too.
  config.algo = dict(beta=5.0, length_normalised=True, nll_coef=1.0, epochs=2)
  config.optim = dict(lr=3e-4, weight_decay=0.1)
  config.eval = dict(num_tasks=256, horizon=6)
  config.checkpoint.every = 50

  if arg.tiny:  # a minute, to see that everything works
    config.sampler.max_running = 8
    config.rollout.concurrency = 8
    config.warmstart.minibatch_size = 8
    if arg.model in TINY:
      config.warmstart.episodes = 16
    if not arg.data:
      config.explore.tasks = 16
    config.algo.minibatch_size = 8
    config.eval.num_tasks = 8
    config.checkpoint.every = 5
  return config
