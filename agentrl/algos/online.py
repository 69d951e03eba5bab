"""Online algorithms, by the name that configs use.

Each is a module with `Hyperparams`, `advantages(batch, hyperparams,
num_groups=)` and `loss(outputs, batch, denominators, hyperparams)`. To add one,
write its file, its hyperparameters in `hyperparams`, and its line here.
"""

import functools
from collections.abc import Callable

from agentrl.algos import gigpo, grpo, ppo, reinforce_pp, rloo
from agentrl.algos.hyperparams import Online

ONLINE = {
    'grpo': grpo,
    'rloo': rloo,
    'reinforce_pp': reinforce_pp,
    'ppo': ppo,
    'gigpo': gigpo,
}


def bind_loss(hyperparams: Online) -> Callable:
  """The algorithm's loss, its hyperparameters bound."""
  return functools.partial(
      ONLINE[hyperparams.name].loss, hyperparams=hyperparams
  )


def bind_advantages(hyperparams: Online) -> Callable:
  """The algorithm's advantages, its hyperparameters bound."""
  return functools.partial(
      ONLINE[hyperparams.name].advantages, hyperparams=hyperparams
  )
