r"""GRPO on BabyAI with a growing horizon: the ScalingInter-RL recipe.

Horizon stages, batch, learning rate and KL are those of AgentGym-RL's script
for this environment (arXiv:2509.08755), where they train Qwen2.5-7B-Instruct on
eight GPUs. No run of that size has been made with this code yet.

    python launch.py --config=configs/babyai_grpo.py --workdir=runs/babyai
    python launch.py --config=configs/babyai_grpo.py:model=smollm2-135m,tiny \
        --workdir=runs/smoke  # two real steps on a CPU, some minutes

`algo` may be any other name of configs/algorithms.py, with this batch and rate.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, scaling_inter, shrink

# One for each of the paper's six sub-tasks.
LEVELS = (
    'GoToLocalS8N7',
    'Pickup',
    'ActionObjDoor',
    'FindObjS7',
    'OneRoomS20',
    'SynthLoc',
)


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = scaling_inter(arg.algo, arg.model)
  config.num_steps = 500
  config.env.name = 'babyai'
  config.env.options.levels = LEVELS
  config.warmstart.update(episodes=810, horizon=20)
  config.rollout.update(tasks_per_step=32, group_size=4)
  config.horizon.turns = (6, 13, 20)
  config.eval.update(num_tasks=90, horizon=20)

  if arg.tiny:  # two steps, to see that everything works
    shrink(config)
    config.env.options.levels = LEVELS[:1]
  return config
