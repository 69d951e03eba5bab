r"""GRPO on BabyAI with a growing horizon: the ScalingInter-RL recipe.

Horizon stages, batch, learning rate and KL are those of AgentGym-RL's script
for this environment (arXiv:2509.08755), where they train Qwen2.5-7B-Instruct on
eight GPUs. No run of that size has been made with this code yet.

    python launch.py --config=configs/babyai_grpo.py --workdir=runs/babyai
    python launch.py --config=configs/babyai_grpo.py:model=smollm2-135m,tiny \
        --workdir=runs/smoke  # two real steps on a CPU, some minutes
"""

from ml_collections import ConfigDict, config_dict

from configs.common import BABYAI_LEVELS, parse_arg, scaling_inter


def get_config(arg: str | None = None) -> ConfigDict:
  return with_algorithm('grpo', arg)


def with_algorithm(algo: str, arg: str | None) -> ConfigDict:
  """This recipe under any entry of `configs.algorithms`."""
  arg = parse_arg(arg, model='smollm2-135m', tiny=False)

  config = scaling_inter(algo, arg.model, tiny=arg.tiny)
  config.num_steps = 2 if arg.tiny else 500

  config.env = dict(
      name='babyai',
      url=config_dict.placeholder(str),  # none: a child process serves it
      retry_s=60.0,  # how long a server there may be away
      # An item file of AgentGym; none: the train list.
      task_file=config_dict.placeholder(str),
      options=dict(levels=BABYAI_LEVELS[:1] if arg.tiny else BABYAI_LEVELS),
  )
  # The original starts from an instruct model. A small model needs to see the
  # format first; episodes=0 leaves this out.
  config.warmstart = dict(
      episodes=4 if arg.tiny else 810,
      epochs=1,
      minibatch_size=4 if arg.tiny else 16,
      lr=1e-5,
      horizon=8 if arg.tiny else 20,
  )
  config.rollout = dict(
      tasks_per_step=2 if arg.tiny else 32,
      group_size=2 if arg.tiny else 4,
      max_completion_tokens=24 if arg.tiny else 512,
      # The original: 512 of prompt and 8,192 of episode. SmolLM2 ends at 8192.
      max_context=2048 if arg.tiny else 8192,
      temperature=1.0,
      concurrency=64,
      deadline_s=600.0,
  )
  # Turns allowed per episode: 6 for the first 100 steps, then 13, then 20.
  config.horizon = dict(
      kind='stepwise',
      turns=(2, 3) if arg.tiny else (6, 13, 20),
      every=1 if arg.tiny else 100,
  )
  config.eval = dict(
      task_file=config_dict.placeholder(str),  # none: the test list
      num_tasks=2 if arg.tiny else 90,
      horizon=3 if arg.tiny else 20,
      every=0 if arg.tiny else 50,
  )
  config.checkpoint = dict(every=1 if arg.tiny else 25, keep=2)
  return config
