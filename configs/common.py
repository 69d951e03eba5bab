"""Helpers shared by config files."""

from ml_collections import ConfigDict

from agentrl.config import defaults
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


def scaling_inter(algo: str, model: str, *, tiny: bool) -> ConfigDict:
  """What AgentGym-RL's scripts have in common, for a pretrained policy.

  The original has scripts for GRPO only; the other algorithms keep its batch,
  rate and KL.

  The caller adds env, warmstart, rollout, horizon, eval and checkpoint.
  """
  config = defaults('train')
  # Recomputed activations: the attention scores of one long episode in 30
  # layers would fill a laptop's memory.
  config.model = dict(name=model, remat='full')
  # Four minibatches of 8 tasks each. The original multiplies the gradient of
  # its low-variance KL by 1e-3; k3+ has the same value and the right gradient.
  config.algo = algorithms.get(algo, kl_coef=1e-3, minibatches=4)
  config.optim = dict(lr=1e-6, weight_decay=0.01, max_tokens=16384)
  if tiny:
    config.sampler.max_running = 4
    config.algo.minibatches = 2
    config.optim.max_tokens = 2048
  return config
