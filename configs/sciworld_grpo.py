r"""GRPO on SciWorld with a growing horizon: the ScalingInter-RL recipe.

Horizon stages, batch, learning rate and KL are those of AgentGym-RL's script
for this environment (arXiv:2509.08755), where they train Qwen2.5-7B-Instruct on
eight GPUs; with --config.horizon.kind=fixed --config.horizon.every=0 and
--config.horizon.turns="(20,)" those of its AgentGym-RL script. No run of that
size has been made with this code yet. Needs third_party/requirements/envs.txt.

    python launch.py --config=configs/sciworld_grpo.py --workdir=runs/sciworld
    python launch.py --config=configs/sciworld_grpo.py:model=smollm2-135m,tiny \
        --workdir=runs/smoke  # two real steps on a CPU, some minutes

`algo` may be any other name of configs/algorithms.py, with this batch and rate.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, scaling_inter, shrink


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = scaling_inter(arg.algo, arg.model)
  config.num_steps = 350
  config.env.name = 'sciworld'
  config.env.options.update(tasks='agentgym', simulators=8)
  config.env.timeout_s = 120.0  # simulators start in the first resets
  config.warmstart.update(episodes=2120, horizon=100)  # gold paths are long
  config.rollout.update(
      tasks_per_step=16,
      group_size=8,
      max_completion_tokens=200,
      # As many as there are simulators: others would wait for one while their
      # deadline runs.
      concurrency=8,
  )
  config.horizon.turns = (10, 20, 30)
  config.algo.minibatches = 2  # of 8 tasks each
  config.eval.update(num_tasks=200, horizon=30)

  if arg.tiny:  # two steps, to see that everything works
    shrink(config)
    config.env.options.update(tasks=('find-animal',), simulators=2)
    config.warmstart.update(episodes=2, minibatch_size=2, horizon=20)
    config.rollout.concurrency = 2
  return config
