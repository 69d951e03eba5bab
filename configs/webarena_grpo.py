r"""GRPO on WebArena's kind of sites with a growing horizon: ScalingInter-RL.

Horizon stages, batch, lengths and KL are those of AgentGym-RL's script for this
environment (arXiv:2509.08755), where they train Qwen2.5-7B-Instruct on eight
GPUs. No run of that size has been made with this code yet. The sites and their
tasks are this project's own; `tasks='raw'`, `'verified'` or `'hard'` are the
public ones, on hosts of yours (agentrl/envs/README.md).

    python launch.py --config=configs/webarena_grpo.py --workdir=runs/webarena
    python launch.py --config=configs/webarena_grpo.py:model=DIR \
        --config.env.options.tasks=raw --workdir=runs/public
    python launch.py --config=configs/webarena_grpo.py:model=smollm2-135m,tiny \
        --workdir=runs/smoke  # two real steps on a CPU, some minutes

`algo` may be any other name of configs/algorithms.py, with this batch and rate.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, scaling_inter, shrink


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = scaling_inter(arg.algo, arg.model)
  config.num_steps = 240
  config.env.name = 'webarena'
  config.env.timeout_s = 120.0  # pages open one after the other
  config.warmstart.update(episodes=360, horizon=16)
  config.rollout.update(
      tasks_per_step=32,
      group_size=4,
      max_completion_tokens=512,
      concurrency=32,
  )
  if arg.model != 'smollm2-135m':  # its context ends at 8192
    config.rollout.max_context = 750 + 14_098
  config.horizon.update(turns=(8, 12, 15), every=80)
  config.algo.minibatches = 8  # of 4 tasks each
  config.eval.update(num_tasks=50, horizon=15)

  if arg.tiny:  # two steps, to see that everything works
    shrink(config)
    # Their pages are small: some thousand tokens in two turns.
    config.env.options.update(
        tasks=('shop/wish_this', 'forum/reply'),
        split_by='value',
        style='compact',
    )
    config.rollout.update(max_context=4096, concurrency=4)
    config.horizon.turns = (1, 2)
    config.eval.horizon = 2
    config.optim.max_tokens = 4096
  return config
