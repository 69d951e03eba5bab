"""An online algorithm by its name, one of these or one of your own.

See README.md beside this file. Imports no jax: configs are read before it is.
"""

import dataclasses
from collections.abc import Callable

from agentrl import plugins
from agentrl.algos.hyperparams import ONLINE, Online
from agentrl.errors import ConfigError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Algorithm:
  """An algorithm.

  Attributes:
    hyperparams: fields of `config.algo`; its `name` is `module:NAME`.
    advantages: `advantages(batch, hyperparams, num_groups=)` gives the batch
      with `[B, T]` advantages, and with a critic returns.
    loss: as `algos.policy.loss`; None: that one.
  """

  hyperparams: type[Online]
  advantages: Callable
  loss: Callable | None = None


def hyperparams(name: str) -> type[Online]:
  """The hyperparameters of the algorithm called `name`.

  Raises:
    ConfigError: there is none, or its hyperparameters have another name.
  """
  return ONLINE[name] if name in ONLINE else load(name).hyperparams


def load(name: str) -> Algorithm:
  """The algorithm of your own that is called `module:NAME`.

  Raises:
    ConfigError: as `hyperparams`.
  """
  algorithm = plugins.get(name, dict.fromkeys(ONLINE), Algorithm, 'algo.name=')
  cls = algorithm.hyperparams
  if not (isinstance(cls, type) and issubclass(cls, Online)):
    raise ConfigError(
        f'{name} has hyperparams={cls!r}: write a dataclass that is derived'
        ' from agentrl.algos.hyperparams.Online.'
    )
  if getattr(cls, 'name', None) != name:
    raise ConfigError(
        f'{cls.__name__}.name is {getattr(cls, "name", None)!r}: write name ='
        f' {name!r} in its class, which runs keep and find it again by.'
    )
  return algorithm


def correction(name: str) -> Callable:
  """The correction of your own that is called `module:NAME`.

  Raises:
    ConfigError: there is none.
  """
  return plugins.function(name, {}, 'algo.correction=')
