r"""GRPO on TextCraft with a growing horizon: the ScalingInter-RL recipe.

Horizon stages, batch, learning rate and KL are those of AgentGym-RL's script
for this environment (arXiv:2509.08755), where they train Qwen2.5-7B-Instruct on
eight GPUs. No run of that size has been made with this code yet.

    python launch.py --config=configs/textcraft_grpo.py --workdir=runs/textcraft
    python launch.py --config=configs/textcraft_grpo.py:model=DIR \
        --config.sampler.kind=sglang --config.model.dtype=bfloat16 \
        --config.sampler.launch.python=/opt/sglang/bin/python \
        --config.sampler.launch.devices="('1',)" --workdir=runs/textcraft
    python launch.py --config=configs/textcraft_grpo.py:model=DIR \
        --config.model.lora.rank=16 --config.optim.lr=1e-5 \
        --workdir=runs/lora  # an adapter over the frozen model
    python launch.py --config=configs/textcraft_grpo.py:model=smollm2-135m,tiny \
        --workdir=runs/smoke  # two real steps on a CPU, some minutes

`algo` may be any other name of configs/algorithms.py, with this batch and rate.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, scaling_inter, shrink


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = scaling_inter(arg.algo, arg.model)
  config.num_steps = 350
  config.env.name = 'textcraft'
  config.warmstart.update(episodes=374, horizon=30)
  config.rollout.update(tasks_per_step=32, group_size=8)
  config.horizon.turns = (10, 20, 30)
  config.eval.update(num_tasks=100, horizon=30)

  if arg.tiny:  # two steps, to see that everything works
    shrink(config)
    config.env.options.max_depth = 1
  return config
