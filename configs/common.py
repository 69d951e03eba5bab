"""Helpers shared by config files."""

from ml_collections import ConfigDict, config_dict

from configs import algorithms

# One level for each of the paper's six sub-tasks.
BABYAI_LEVELS = (
    'GoToLocalS8N7',
    'Pickup',
    'ActionObjDoor',
    'FindObjS7',
    'OneRoomS20',
    'SynthLoc',
)

# The original's: tasks to train on and to evaluate on, turns of an evaluation.
_TASKS = {'textcraft': 374, 'babyai': 810}
_TESTS = {'textcraft': 100, 'babyai': 90}
_HORIZONS = {'textcraft': 30, 'babyai': 20}


def parse_arg(arg: str | None, **defaults) -> ConfigDict:
  """Reads `--config=file.py:key=value,flag` into the types of `defaults`."""
  values = dict(defaults)
  for item in filter(None, (arg or '').split(',')):
    key, has_value, text = item.partition('=')
    if key not in defaults:
      raise ValueError(
          f'Unknown config argument {key!r}; known: {", ".join(defaults)}.'
      )
    kind = type(defaults[key])
    if kind is bool:
      if text.lower() not in ('', 'true', 'false'):
        raise ValueError(f'{key!r} is a boolean, got {text!r}.')
      values[key] = text.lower() != 'false'
    elif not has_value:
      raise ValueError(f'{key!r} needs a value, as in {key}={defaults[key]}.')
    else:
      values[key] = kind(text)
  return ConfigDict(values)


def scaling_inter(algo: str, model: str, *, tiny: bool) -> ConfigDict:
  """What AgentGym-RL's scripts have in common, for a pretrained policy.

  The original has scripts for GRPO only; the other algorithms keep its batch,
  rate and KL.

  The caller adds env, warmstart, rollout, horizon, eval and checkpoint.
  """
  config = ConfigDict()
  config.mode = 'train'
  config.seed = 0
  config.agent = dict(format='react', instructions='full')
  # Recomputed activations: the attention scores of one long episode in 30
  # layers would fill a laptop's memory.
  config.model = dict(name=model, dtype='float32', remat=True)
  config.mesh = dict(data=1, fsdp=-1, tensor=1, sequence=1)
  config.sampler = dict(
      kind='embedded',
      urls=(),
      push_dir=config_dict.placeholder(str),
      max_running=4 if tiny else 64,
  )
  # Four minibatches of 8 tasks each. The original multiplies the gradient of
  # its low-variance KL by 1e-3; k3+ has the same value and the right gradient.
  config.algo = algorithms.get(
      algo,
      kl_coef=1e-3,
      kl_estimator='k3+',
      entropy_coef=0.0,
      epochs=1,
      minibatches=2 if tiny else 4,
  )
  config.optim = dict(
      lr=1e-6,
      warmup_steps=0,
      grad_clip=1.0,
      weight_decay=0.01,
      max_tokens=2048 if tiny else 16384,
  )
  return config


def offline(
    mode: str, *, env: str, model: str, data: str, tiny: bool
) -> ConfigDict:
  """What the configs of sft, dpo and agentevol have in common.

  A model of the tiny family starts random: it talks tersely, as in the
  quickstart, and learns from the expert first. The caller adds what the mode
  learns from, algo and optim.
  """
  scratch = model.startswith('tiny')
  config = ConfigDict()
  config.mode = mode
  config.seed = 0
  config.env = dict(
      name=env,
      url=config_dict.placeholder(str),  # none: a child process serves it
      options=_options(env, scratch),
  )
  config.agent = dict(
      format='plain' if scratch else 'react',
      instructions='compact' if scratch else 'full',
  )
  # Recomputed activations: the attention scores of one long episode in 30
  # layers would fill a laptop's memory.
  config.model = dict(name=model, dtype='float32', remat=not scratch)
  config.mesh = dict(data=1, fsdp=-1, tensor=1, sequence=1)
  config.sampler = dict(
      kind='embedded',
      urls=(),
      push_dir=config_dict.placeholder(str),
      max_running=8 if tiny else 64,
  )
  config.rollout = dict(
      max_completion_tokens=16 if scratch else 512,
      max_context=1024 if scratch else 4096,  # the original's max_length
      concurrency=8 if tiny else 64,
      deadline_s=600.0,
  )
  config.eval = dict(
      num_tasks=8 if tiny else (256 if scratch else _TESTS[env]),
      horizon=6 if scratch else _HORIZONS[env],
  )
  config.checkpoint = dict(every=5 if tiny else 50, keep=2)
  if mode != 'dpo':
    config.data = _demonstrations(env, scratch, data, tiny=tiny)
  return config


def _options(env: str, scratch: bool) -> dict:
  if env == 'textcraft':
    return dict(max_depth=1) if scratch else {}
  if scratch:
    return dict(levels=('GoToRedBall',), style='compact')
  return dict(levels=BABYAI_LEVELS)


def _demonstrations(env: str, scratch: bool, data: str, *, tiny: bool) -> dict:
  """`config.data`: a file when there is one, else the expert."""
  if data:
    # Asked in training as at evaluation: our instructions, not the file's.
    return dict(files=(data,), own_opening=True)
  return dict(
      expert_episodes=_num_tasks(env, scratch, tiny=tiny),
      expert_horizon=12 if scratch else 30,
  )


def _num_tasks(env: str, scratch: bool, *, tiny: bool) -> int:
  """Training tasks; of a pretrained model as many as the original has."""
  if tiny:
    return 16
  return 256 if scratch else _TASKS[env]


def sft(env: str, model: str, *, data: str, tiny: bool) -> ConfigDict:
  """Supervised fine-tuning as in AgentGym-RL's sft_trainer.yaml."""
  scratch = model.startswith('tiny')
  config = offline('sft', env=env, model=model, data=data, tiny=tiny)
  config.algo = dict(
      epochs=3 if scratch else 1,  # from nothing, one pass is too few
      minibatch_size=8 if tiny else 16,
      warmup=0.1,
      heldout=0.05,
  )
  config.optim = dict(
      # A random policy takes larger steps, and few of them: none is small.
      lr=1e-3 if scratch else 1e-4,
      schedule='constant' if scratch else 'cosine',
      grad_clip=1.0,
      weight_decay=0.01,
      b1=0.9,
      b2=0.95,
      max_tokens=8192,
  )
  return config


def dpo(env: str, model: str, *, data: str, tiny: bool) -> ConfigDict:
  """DPO as in AgentGym's scripts for it: two samples a task, then three epochs.

  A pretrained model is fine-tuned first: `model` is best a run of sft.
  """
  scratch = model.startswith('tiny')
  config = offline('dpo', env=env, model=model, data=data, tiny=tiny)
  num_tasks = _num_tasks(env, scratch, tiny=tiny)
  config.warmstart = dict(
      episodes=num_tasks if scratch else 0,
      epochs=3,
      minibatch_size=8 if tiny else 16,
      warmup_steps=4,
      lr=1e-3,
      horizon=12,
  )
  config.explore = dict(
      tasks=0 if data else num_tasks,
      samples=4 if scratch else 2,  # sampling costs little
      horizon=config.eval.horizon,
      temperature=1.0,
  )
  config.pairs = dict(
      files=(data,) if data else (),
      own_opening=bool(data),  # as in sft
      gap=0.01,
      threshold=0.7,
      # What has learnt for seconds solves nothing by itself.
      with_expert=tiny and scratch and not data,
  )
  config.algo = dict(
      loss='sigmoid',
      beta=0.5,
      # A small policy forgets how to play: three passes at 1e-4 took its
      # success from 0.52 to 0.36, while the loss went to 0.04.
      epochs=1 if scratch and not tiny else 3,
      minibatch_size=8 if tiny else (16 if scratch else 64),
      warmup=0.1,
  )
  config.optim = dict(
      lr=5e-5 if scratch else 5e-7,
      schedule='constant',
      grad_clip=1.0,
      weight_decay=0.1,
      max_tokens=8192,
  )
  return config


def agentevol(env: str, model: str, *, data: str, tiny: bool) -> ConfigDict:
  """AgentEvol as in AgentGym's scripts for it."""
  scratch = model.startswith('tiny')
  config = offline('agentevol', env=env, model=model, data=data, tiny=tiny)
  config.num_steps = 2 if scratch else 4
  config.explore = dict(
      tasks=_num_tasks(env, scratch, tiny=tiny),
      samples=2 if scratch else 1,  # a small policy fails often
      horizon=config.eval.horizon,
      temperature=1.0,  # the original: 1.2, where replies are long
  )
  config.algo = dict(
      threshold={'textcraft': 0.99, 'babyai': 0.0}[env],
      weighting='equal',
      epochs=3 if scratch else 1,
      minibatch_size=8 if tiny else (16 if scratch else 32),
      warmup=0.1,
  )
  config.optim = dict(
      lr=1e-3 if scratch else 1e-5,  # as in sft
      schedule='constant' if scratch else 'linear',
      grad_clip=1.0,
      weight_decay=0.0,
      max_tokens=8192,
  )
  config.checkpoint = dict(keep=2)
  return config
