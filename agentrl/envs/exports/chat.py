"""An episode in messages, for harnesses that talk with a model themselves."""

from typing import Any

from agentrl.envs import formats
from agentrl.envs.base import Env
from agentrl.envs.spec import EnvSpec
from agentrl.errors import ConfigError

MOST_ENVS = 64  # at a time, of a factory without a limit of its own


class Chat:
  """An episode: a message to the policy for each reply of the policy.

  Its methods wait for the environment.

  Attributes:
    over: true if no reply is asked for any more.
    success: true if the task is solved, false until it is known.
    returned: the rewards' sum.
    turns: replies so far, those without an action among them.

  Args:
    env: an environment of `spec`, for this episode alone.
    spec: under its options.
    format: name of an action format.
    horizon: turns, at most.
  """

  def __init__(self, env: Env, spec: EnvSpec, format: str, horizon: int):
    self._env = env
    self._spec = spec
    self._read = formats.find(format).read
    self._horizon = horizon
    self.over = False
    self.success = False
    self.returned = 0.0
    self.turns = 0

  @property
  def outcome(self) -> dict[str, Any]:
    """`success`, `return` and `turns` so far."""
    return {
        'success': self.success,
        'return': self.returned,
        'turns': self.turns,
    }

  def begin(self, task_id: int, seed: int) -> str:
    """Starts a task; the first message.

    Raises:
      EnvError: there is no such task, or the environment failed.
    """
    return self._env.reset(task_id, seed)

  def answer(self, reply: str) -> str:
    """Does a reply's action; the next message.

    Raises:
      EnvError: the environment failed.
    """
    self.turns += 1
    self.over = self.turns == self._horizon
    action, reason = self._read(reply, self._spec.functions)
    if not action:
      return f'Error: {reason}'
    result = self._env.step(action)
    self.returned += result.reward
    ended = result.terminated or result.truncated
    if result.success is not None:
      self.success = result.success
    elif ended:  # its rewards tell
      self.success = result.terminated and self._spec.dialect.success(
          self.returned
      )
    self.over = self.over or ended
    return result.observation


def instructions(spec: EnvSpec, format: str, style: str, horizon: int) -> str:
  """The words for a policy that plays `horizon` turns in `format`; may be empty.

  Args:
    spec: under its options.
    format: name of an action format.
    style: as `agent.instructions` of a config.
    horizon: turns, at most.

  Raises:
    ConfigError: one of them is of no use here.
  """
  if horizon < 1:
    raise ConfigError(f'horizon={horizon} is no number of turns.')
  return spec.instructions(format, style)
