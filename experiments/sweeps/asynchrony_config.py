"""The runs of experiments/sweeps/asynchrony.py: the quickstart, some steps ahead."""

import jax.numpy as jnp
from ml_collections import ConfigDict

from configs import algorithms, quickstart
from configs.common import parse_arg


def uncorrected(old_logprobs, sampler_logprobs, mask, batch):
  """A correction that corrects nothing: what a run is otherwise refused for."""
  del sampler_logprobs, mask, batch
  return jnp.ones_like(old_logprobs)


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, arm='depth', correction='bypass', start=str, tiny=False)
  config = quickstart.get_config('tiny' if arg.tiny else None)
  if arg.tiny:
    config.num_steps = 12
  if arg.correction == 'none':
    config.algo.correction = 'experiments.sweeps.asynchrony_config:uncorrected'
  else:
    config.algo.update(algorithms.CORRECTIONS[arg.correction])
  if arg.start:
    config.model.name = arg.start
    config.warmstart = {}
  return config
