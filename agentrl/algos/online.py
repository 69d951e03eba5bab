"""Online algorithms, by the name that configs use.

Each is a module with `Hyperparams`, `advantages(batch, hyperparams,
num_groups=)` and `loss(outputs, batch, denominators, hyperparams)`. To add one,
write its file, its hyperparameters in `hyperparams`, and its line here. One of
your own needs nothing in here: see README.md beside this file.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from agentrl.algos import (
    algorithm,
    distill,
    gigpo,
    grpo,
    policy,
    ppo,
    reinforce_pp,
    rloo,
)
from agentrl.algos.algorithm import Algorithm
from agentrl.algos.hyperparams import Online
from agentrl.batch import TokenBatch
from agentrl.errors import ConfigError

ONLINE = {
    'grpo': grpo,
    'rloo': rloo,
    'reinforce_pp': reinforce_pp,
    'ppo': ppo,
    'gigpo': gigpo,
    'distill': distill,
}


def find(name: str) -> Algorithm:
  """The algorithm called `name`, or `module:NAME`.

  Raises:
    ConfigError: there is none.
  """
  if name not in ONLINE:
    custom = algorithm.load(name)
    return dataclasses.replace(custom, loss=custom.loss or policy.loss)
  module = ONLINE[name]
  return Algorithm(
      hyperparams=module.Hyperparams,
      advantages=module.advantages,
      loss=module.loss,
  )


def bind_loss(hyperparams: Online) -> Callable:
  """The algorithm's loss, its hyperparameters bound."""
  loss = find(hyperparams.name).loss
  assert loss is not None  # `find` fills it in
  return functools.partial(loss, hyperparams=hyperparams)


def bind_advantages(hyperparams: Online) -> Callable:
  """The algorithm's advantages, its hyperparameters bound.

  Their shape is checked whenever they are traced, and those below 0 have their
  `negative_weight`.
  """
  advantages = find(hyperparams.name).advantages

  def checked(batch: TokenBatch, *, num_groups: int) -> TokenBatch:
    result = advantages(batch, hyperparams, num_groups=num_groups)
    if not isinstance(result, TokenBatch):
      raise ConfigError(
          f'The advantages of {hyperparams.name} are a {type(result).__name__}:'
          ' return the batch, batch.replace(advantages=...).'
      )
    shape = getattr(result.advantages, 'shape', None)
    wanted = batch.tokens.shape
    if shape != wanted:
      raise ConfigError(
          f'The advantages of {hyperparams.name} have the shape {shape}; one'
          f' for each token, [B, T], is {wanted}. From one an episode'
          ' ops.advantage.to_tokens makes them.'
      )
    assert result.advantages is not None  # it has a shape
    if hyperparams.negative_weight == 1:
      return result
    weights = jnp.where(result.advantages < 0, hyperparams.negative_weight, 1.0)
    return result.replace(advantages=weights * result.advantages)

  return checked


def check(hyperparams: Online) -> None:
  """Refuses an algorithm whose advantages have another shape.

  Raises:
    ConfigError: as `bind_advantages`, or there is no such correction; nothing
      was played yet.
  """
  if hyperparams.correction != 'none':
    algorithm.correction(hyperparams.correction)
  rows, length = 4, 6
  array = lambda dtype, *shape: jax.ShapeDtypeStruct(shape, dtype)
  token = lambda dtype: array(dtype, rows, length)
  whole, real = jnp.int32, jnp.float32
  reals = (
      *('rewards', 'old_logprobs', 'sampler_logprobs', 'ref_logprobs'),
      'teacher_logprobs',
  )
  tokens: dict[str, Any] = {
      **{name: token(whole) for name in ('tokens', 'segment_ids', 'positions')},
      **{name: token(real) for name in (*reals, 'values')},
  }
  batch = TokenBatch(
      **tokens,
      completion_mask=token(bool),
      turn_ids=token(whole),
      anchor_ids=token(whole),
      group_ids=array(whole, rows),
      valid=array(bool, rows),
      episode_return=array(real, rows),
      truncated=array(bool, rows),
      bootstrap_value=array(real, rows),
  )
  advantages = functools.partial(bind_advantages(hyperparams), num_groups=2)
  jax.eval_shape(advantages, batch)
