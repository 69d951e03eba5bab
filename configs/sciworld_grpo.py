r"""GRPO on SciWorld with a growing horizon: the ScalingInter-RL recipe.

Horizon stages, batch, learning rate and KL are those of AgentGym-RL's script
for this environment (arXiv:2509.08755), where they train Qwen2.5-7B-Instruct on
eight GPUs; with --config.horizon.kind=fixed and --config.horizon.turns="(20,)"
those of its AgentGym-RL script. No run of that size has been made with this
code yet. Needs third_party/requirements/envs.txt.

    python launch.py --config=configs/sciworld_grpo.py --workdir=runs/sciworld
    python launch.py --config=configs/sciworld_grpo.py:model=smollm2-135m,tiny \
        --workdir=runs/smoke  # two real steps on a CPU, some minutes
"""

from ml_collections import ConfigDict, config_dict

from configs.common import parse_arg, scaling_inter


def get_config(arg: str | None = None) -> ConfigDict:
  return with_algorithm('grpo', arg)


def with_algorithm(algo: str, arg: str | None) -> ConfigDict:
  """This recipe under any entry of `configs.algorithms`."""
  arg = parse_arg(arg, model='smollm2-135m', tiny=False)

  config = scaling_inter(algo, arg.model, tiny=arg.tiny)
  config.num_steps = 2 if arg.tiny else 350
  # Minibatches of 8 tasks each.
  config.algo.minibatches = 2

  config.env = dict(
      name='sciworld',
      url=config_dict.placeholder(str),  # none: a child process serves it
      retry_s=60.0,  # how long a server there may be away
      options=dict(
          tasks=('find-animal',) if arg.tiny else 'agentgym',
          simulators=2 if arg.tiny else 8,
      ),
      timeout_s=120.0,  # simulators start in the first resets
  )
  # The original starts from an instruct model. A small model needs to see the
  # format first; episodes=0 leaves this out.
  config.warmstart = dict(
      episodes=2 if arg.tiny else 2120,
      epochs=1,
      minibatch_size=2 if arg.tiny else 16,
      lr=1e-5,
      horizon=20 if arg.tiny else 100,  # gold paths are long
  )
  config.rollout = dict(
      tasks_per_step=2 if arg.tiny else 16,
      group_size=2 if arg.tiny else 8,
      max_completion_tokens=24 if arg.tiny else 200,
      # The original: 1,024 of prompt and 8,192 of episode. SmolLM2 ends at 8192.
      max_context=2048 if arg.tiny else 8192,
      temperature=1.0,
      # As many as there are simulators: others would wait for one while their
      # deadline runs.
      concurrency=2 if arg.tiny else 8,
      deadline_s=600.0,
  )
  # Turns allowed per episode: 10 for the first 100 steps, then 20, then 30.
  config.horizon = dict(
      kind='stepwise',
      turns=(2, 3) if arg.tiny else (10, 20, 30),
      every=1 if arg.tiny else 100,
  )
  config.eval = dict(
      num_tasks=2 if arg.tiny else 200,
      horizon=3 if arg.tiny else 30,
      every=0 if arg.tiny else 50,
  )
  config.checkpoint = dict(every=1 if arg.tiny else 25, keep=2)
  return config
