"""What the configs of sft, dpo and agentevol share."""

from ml_collections import ConfigDict, config_dict

from configs import common

# The original's: tasks to train on and to evaluate on, turns of an evaluation.
_TASKS = {'textcraft': 374, 'babyai': 810}
_TESTS = {'textcraft': 100, 'babyai': 90}
_HORIZONS = {'textcraft': 30, 'babyai': 20}


def is_small(model: str) -> bool:
  """Whether a model is of the tiny family, or a run that began from one."""
  if common.run_of(model) is not None:
    return is_small(common.trained_with(model)['model']['name'])
  return model.startswith('tiny')


def _common(
    mode: str, *, env: str, model: str, data: str, tiny: bool
) -> ConfigDict:
  """What the configs of sft, dpo and agentevol have in common.

  A small model talks tersely, as in the quickstart. The caller adds what the
  mode learns from, algo and optim.
  """
  small = is_small(model)
  config = common.begin(mode)
  config.seed = 0
  config.env = dict(
      name=env,
      url=config_dict.placeholder(str),  # none: a child process serves it
      retry_s=60.0,  # how long a server there may be away
      options=_options(env, small),
  )
  config.agent = common.agent(
      'plain' if small else 'react', 'compact' if small else 'full'
  )
  # Recomputed activations: the attention scores of one long episode in 30
  # layers would fill a laptop's memory.
  config.model = dict(
      name=model,
      dtype='float32',
      remat='dots' if small else 'full',
      attention='reference',
      lora=common.lora(),
  )
  config.mesh = dict(data=1, fsdp=-1, tensor=1, sequence=1, offload=())
  config.sampler = common.sampler(8 if tiny else 64)
  config.rollout = dict(
      max_completion_tokens=16 if small else 512,
      max_context=1024 if small else 4096,  # the original's max_length
      concurrency=8 if tiny else 64,
      deadline_s=600.0,
  )
  config.eval = dict(
      num_tasks=8 if tiny else (256 if small else _TESTS[env]),
      horizon=6 if small else _HORIZONS[env],
  )
  config.checkpoint = dict(every=5 if tiny else 50, keep=2)
  if mode != 'dpo':
    config.data = _demonstrations(env, small, data, tiny=tiny)
  return config


def _options(env: str, small: bool) -> dict:
  if env == 'textcraft':
    return dict(max_depth=1) if small else {}
  if small:
    return dict(levels=('GoToRedBall',), style='compact')
  return dict(levels=common.BABYAI_LEVELS)


def _demonstrations(env: str, small: bool, data: str, *, tiny: bool) -> dict:
  """`config.data`: a file when there is one, else the expert."""
  if data:
    # Asked in training as at evaluation: our instructions, not the file's.
    return dict(files=(data,), own_opening=True)
  return dict(
      expert_episodes=_num_tasks(env, small, tiny=tiny),
      expert_horizon=12 if small else 30,
  )


def _num_tasks(env: str, small: bool, *, tiny: bool) -> int:
  """Training tasks; of a pretrained model as many as the original has."""
  if tiny:
    return 16
  return 256 if small else _TASKS[env]


def sft(env: str, model: str, *, data: str, tiny: bool) -> ConfigDict:
  """Supervised fine-tuning as in AgentGym-RL's sft_trainer.yaml."""
  small = is_small(model)
  config = _common('sft', env=env, model=model, data=data, tiny=tiny)
  config.algo = dict(
      epochs=3 if small else 1,  # from nothing, one pass is too few
      minibatch_size=8 if tiny else 16,
      warmup=0.1,
      heldout=0.05,
  )
  config.optim = dict(
      name='adamw',
      # A random policy takes larger steps, and few of them: none is small.
      lr=1e-3 if small else 1e-4,
      schedule='constant' if small else 'cosine',
      grad_clip=1.0,
      weight_decay=0.01,
      b1=0.9,
      b2=0.95,
      max_tokens=8192,
  )
  return config


def dpo(env: str, model: str, *, data: str, tiny: bool) -> ConfigDict:
  """DPO as in AgentGym's scripts for it: two samples a task, then three epochs.

  `model` is best a run of sft; a random one imitates the expert first. A small
  policy deviates from the original where experiments/2026-11-offline found that
  it must: the expert's episodes are among the pairs, lengths are normalised, the
  better episode is imitated as well, and there are more tasks.
  """
  small, random = is_small(model), model.startswith('tiny')
  config = _common('dpo', env=env, model=model, data=data, tiny=tiny)
  num_tasks = _num_tasks(env, small, tiny=tiny)
  config.warmstart = dict(
      episodes=num_tasks if random else 0,
      epochs=3,
      minibatch_size=8 if tiny else 16,
      warmup_steps=4,
      lr=1e-3,
      horizon=12,
  )
  config.explore = dict(
      tasks=0 if data else (1024 if small and not tiny else num_tasks),
      samples=4 if small else 2,  # sampling costs little
      horizon=config.eval.horizon,
      temperature=1.0,
  )
  config.pairs = dict(
      files=(data,) if data else (),
      own_opening=bool(data),  # as in sft
      gap=0.01,
      threshold=0.7,
      with_expert=small and not data,
  )
  config.algo = dict(
      loss='sigmoid',
      beta=5.0 if small else 0.5,
      length_normalised=small,
      nll_coef=1.0 if small else 0.0,
      epochs=2 if small else 3,
      minibatch_size=8 if tiny else (16 if small else 64),
      warmup=0.1,
  )
  config.optim = dict(
      name='adamw',
      lr=3e-4 if small else 5e-7,
      schedule='constant',
      grad_clip=1.0,
      weight_decay=0.1,
      max_tokens=8192,
  )
  return config


def agentevol(env: str, model: str, *, data: str, tiny: bool) -> ConfigDict:
  """AgentEvol as in AgentGym's scripts for it."""
  small = is_small(model)
  config = _common('agentevol', env=env, model=model, data=data, tiny=tiny)
  config.num_steps = 2 if small else 4
  config.explore = dict(
      tasks=_num_tasks(env, small, tiny=tiny),
      samples=2 if small else 1,  # a small policy fails often
      horizon=config.eval.horizon,
      temperature=1.0,  # the original: 1.2, where replies are long
  )
  config.algo = dict(
      threshold={'textcraft': 0.99, 'babyai': 0.0}[env],
      weighting='equal',
      epochs=3 if small else 1,
      minibatch_size=8 if tiny else (16 if small else 32),
      warmup=0.1,
  )
  config.optim = dict(
      name='adamw',
      lr=1e-3 if small else 1e-5,  # as in sft
      schedule='constant' if small else 'linear',
      grad_clip=1.0,
      weight_decay=0.0,
      max_tokens=8192,
  )
  config.checkpoint = dict(keep=2)
  return config
