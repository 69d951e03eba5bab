"""An environment in this process, for interfaces in which others step it."""

from collections.abc import Mapping
from typing import Any

from agentrl import envs
from agentrl.errors import EnvError
from agentrl.types import StepResult


class LocalEnv:
  """An environment by its name, with an episode of a task at a time.

  Attributes:
    spec: of the environment, under its options.
    tasks: ids of the split's tasks.
    observation: the last one.

  Args:
    name: a name of `envs.ENVS`, or `module:SPEC`, `FILE.py:SPEC` of your own.
    split: of the tasks: 'train', 'dev' or 'test'.
    options: of the environment, as `env.options` of a config.

  Raises:
    ConfigError: name, split or an option is unknown or wrong.
    EnvError: a package that it needs is missing.
  """

  def __init__(self, name: str, split: str, options: Mapping[str, Any]):
    self.spec = envs.get(name).under(**options)
    self.tasks = self.spec.tasks(split, **options)
    self._factory = self.spec.open(**options)
    self._env = self._factory.make()
    self._over = True
    self.observation = ''

  def reset(self, task_id: int, seed: int) -> str:
    """Starts a task; the first observation.

    Raises:
      EnvError: there is no such task, or the environment failed.
    """
    self.observation = self._env.reset(task_id, seed)
    self._over = False
    return self.observation

  def step(self, action: str) -> StepResult:
    """Does an action; one that is not understood is answered in words.

    Raises:
      EnvError: no episode is under way, or the environment failed.
    """
    if self._over:
      raise EnvError('No episode is under way: call reset first.')
    result = self._env.step(action)
    self._over = result.terminated or result.truncated
    self.observation = result.observation
    return result

  def close(self) -> None:
    """Frees the environment and what it shares."""
    self._env.close()
    self._factory.close()
