r"""AgentEvol on BabyAI: a tiny policy learns from the expert, then from itself.

The one-million-parameter policy of the quickstart, minutes on a laptop.

Success on 256 held-out tasks with its 95% interval, seed 0: 0.480 [0.420, 0.542]
after the demonstrations, 0.695 [0.636, 0.748] after one round, 0.719
[0.661, 0.770] after two; see experiments/2026-11-offline.

    python launch.py --config=configs/babyai_agentevol.py --workdir=runs/evol
    python launch.py --config=configs/babyai_agentevol.py:tiny \
        --workdir=runs/smoke

`model` may be a run, which then goes on in the style that it learnt. The recipe
for a pretrained model is textcraft_agentevol.py, which takes BabyAI, too.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from agentrl.models.options import TINY
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, model='tiny-1m', data='', tiny=False)

  config = defaults('agentevol')
  config.num_steps = 2

  config.env.name = 'babyai'
  config.env.options.update(levels=('GoToRedBall',), style='compact')
  config.model = dict(name=arg.model)
  if arg.model in TINY:  # short answers, told tersely; a run brings its own
    config.agent = dict(format='plain', instructions='compact')
  config.rollout = dict(max_completion_tokens=16, max_context=1024)
  if arg.data:
    # Asked in training as at evaluation: our instructions, not the file's.
    config.data = dict(files=(arg.data,), own_opening=True)
  else:
    config.data = dict(expert_episodes=256, expert_horizon=12)
  # A small policy fails often: two episodes a task.
  config.explore = dict(tasks=256, samples=2, horizon=6)
  config.algo.epochs = 3  # as in sft
  config.optim.lr = 1e-3
  config.eval = dict(num_tasks=256, horizon=6)

  if arg.tiny:  # a minute, to see that everything works
    config.sampler.max_running = 8
    config.rollout.concurrency = 8
    if not arg.data:
      config.data.expert_episodes = 16
    config.explore.tasks = 16
    config.algo.minibatch_size = 8
    config.eval.num_tasks = 8
  return config
