"""Any environment as one of Gymnasium: observations and actions are texts.

    env = gymnasium.TextEnv('textcraft', split='train', max_depth=2)
    text, info = env.reset(seed=0)  # or options={'task_id': 7}
    text, reward, terminated, truncated, info = env.step('get 1 oak log')

In this process, without a server. Needs `pip install gymnasium`.
"""

import string
from typing import Any

from gymnasium import Env, spaces

from agentrl.envs.exports.local import LocalEnv

_LONGEST = 100_000  # characters
_SEEDS = 2**31


class AnyText(spaces.Text):
  """Texts of any characters; samples are printable ASCII."""

  def __init__(self, max_length: int = _LONGEST, **rest: Any):
    super().__init__(max_length, min_length=0, charset=string.printable, **rest)

  def contains(self, x: Any) -> bool:
    return isinstance(x, str) and len(x) <= self.max_length


class TextEnv(Env[str, str]):
  """An environment by its name, with an episode of a task at a time.

  `info` of `reset` has the `task_id` and the `instructions` of a policy, `info` of
  `step` the `success` (None: not known yet) and the `progress`.

  Attributes:
    tasks: ids of the split's tasks.
    functions: the actions as functions, where the environment has them.

  Args:
    name: a name of `envs.ENVS`, or `module:SPEC`, `FILE.py:SPEC` of your own.
    split: the tasks that `reset` draws from: 'train', 'dev' or 'test'.
    format: in which the instructions tell a policy to act; actions are given as the
      environment reads them, without it.
    render_mode: 'ansi': `render` gives the last observation.
    options: of the environment, as `env.options` of a config.

  Raises:
    ConfigError: name, split or an option is unknown or wrong.
    EnvError: a package that it needs is missing.
  """

  metadata = {'render_modes': ['ansi'], 'render_fps': 1}

  def __init__(
      self,
      name: str,
      *,
      split: str = 'train',
      format: str = 'plain',
      render_mode: str | None = None,
      **options: Any,
  ):
    self._local = LocalEnv(name, split, options)
    spec = self._local.spec
    self.render_mode = render_mode
    self.observation_space = AnyText()
    self.action_space = AnyText()
    self.functions = spec.functions
    self.tasks = self._local.tasks
    self._instructions = spec.instructions(format, 'full')

  def reset(
      self,
      *,
      seed: int | None = None,
      options: dict[str, Any] | None = None,
  ) -> tuple[str, dict[str, Any]]:
    """Starts a task that the seed draws, or `options['task_id']`.

    Raises:
      EnvError: there is no such task, or the environment failed.
    """
    super().reset(seed=seed)
    drawn = self.tasks[self.np_random.integers(len(self.tasks))]
    task_id = (options or {}).get('task_id', drawn)
    text = self._local.reset(task_id, int(self.np_random.integers(_SEEDS)))
    info = {'task_id': int(task_id), 'instructions': self._instructions}
    return text, info

  def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
    """Does an action; one that is not understood is answered in words.

    Raises:
      EnvError: the episode is over, or the environment failed.
    """
    result = self._local.step(action)
    info = {'success': result.success, 'progress': result.progress}
    return (
        result.observation,
        float(result.reward),
        result.terminated,
        result.truncated,
        info,
    )

  def render(self) -> str | None:
    """The last observation with `render_mode='ansi'`."""
    return self._local.observation if self.render_mode == 'ansi' else None

  def close(self) -> None:
    """Frees the environment and what it shares."""
    self._local.close()
