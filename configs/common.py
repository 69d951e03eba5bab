"""Helpers shared by config files."""

import json
import pathlib
from typing import Any

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


def run_of(model: str) -> pathlib.Path | None:
  """The workdir of the training run that `model` is of; None: of none."""
  path = pathlib.Path(model)
  if path.parent.name == 'checkpoints' and path.name.isdecimal():
    path = path.parent.parent
  return path if (path / 'checkpoints').is_dir() else None


def trained_with(model: str) -> dict[str, Any] | None:
  """The sections that a model was trained with, where it keeps them.

  Args:
    model: a name; workdirs of runs, their checkpoints/N and folders that were
      exported have them.
  """
  run = run_of(model)
  path = pathlib.Path(model) / 'agentrl.json'
  if run is not None:
    path = run / 'config.json'
  elif not path.is_file():
    return None
  try:
    return json.loads(path.read_text(encoding='utf-8'))
  except (OSError, ValueError) as error:
    raise ValueError(f'{path} cannot be read: {error}') from error


def begin(mode: str) -> ConfigDict:
  """What the config of every mode that computes begins with."""
  config = ConfigDict()
  config.mode = mode
  # Compiled programs, for the next start. None: in the user's cache folder (or
  # $JAX_COMPILATION_CACHE_DIR); an empty name keeps none.
  config.compile_cache = config_dict.placeholder(str)
  return config


def agent(form: str, instructions: str) -> dict:
  """How a policy talks; see `modes/settings.py` for all fields."""
  return dict(
      format=form,
      instructions=instructions,
      # A chat template by name; none: the model's own.
      template=config_dict.placeholder(str),
  )


def sampler(max_running: int) -> dict:
  """The embedded engine, with all that flags need to name servers instead.

  `--config.sampler.kind=sglang` and one of `urls`, `router` and
  `launch.python`; the fields are in agentrl/modes/sampler_settings.py.
  """
  return dict(
      kind='embedded',
      max_running=max_running,
      deterministic=False,
      urls=(),  # servers that run
      router=config_dict.placeholder(str),  # or a router before them
      launch=dict(  # or servers that the run starts
          python=config_dict.placeholder(str),
          module='sglang.launch_server',
          flags=(),
          replicas=1,
          devices=(),
          restarts=5,  # of one replica, in the whole run
          backoff_s=1.0,  # before the first; doubles with each
      ),
      push_dir=config_dict.placeholder(str),  # none: /dev/shm, on one host
      push='retract',
      push_lora=False,
      verify=True,
      # Files of one line; or set AGENTRL_SAMPLER_API_KEY and _ADMIN_KEY.
      api_key_file=config_dict.placeholder(str),
      admin_key_file=config_dict.placeholder(str),
      # Keys themselves are refused, with a word on where they go.
      api_key=config_dict.placeholder(str),
      admin_key=config_dict.placeholder(str),
      timeout_s=300.0,  # of one request
  )


def lora() -> dict:
  """No adapter; `--config.model.lora.rank=16` trains one, and nothing else."""
  return dict(
      rank=0,
      alpha=16.0,
      targets=('q', 'k', 'v', 'o', 'gate', 'up', 'down'),
      rslora=False,
  )


def scaling_inter(algo: str, model: str, *, tiny: bool) -> ConfigDict:
  """What AgentGym-RL's scripts have in common, for a pretrained policy.

  The original has scripts for GRPO only; the other algorithms keep its batch,
  rate and KL.

  The caller adds env, warmstart, rollout, horizon, eval and checkpoint.
  """
  config = begin('train')
  config.seed = 0
  config.agent = agent('react', 'full')
  # Recomputed activations: the attention scores of one long episode in 30
  # layers would fill a laptop's memory.
  config.model = dict(
      name=model,
      dtype='float32',
      remat='full',
      attention='reference',
      lora=lora(),
  )
  config.mesh = dict(data=1, fsdp=-1, tensor=1, sequence=1, offload=())
  config.sampler = sampler(4 if tiny else 64)
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
      name='adamw',
      lr=1e-6,
      warmup_steps=0,
      grad_clip=1.0,
      weight_decay=0.01,
      max_tokens=2048 if tiny else 16384,
  )
  return config
