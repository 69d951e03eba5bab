"""What the server asks of an environment: one live episode behind text."""

from typing import Protocol

from agentrl.types import StepResult


class Env(Protocol):
  """One episode at a time; a new `reset` starts another.

  Transcripts are a pure function of `(task_id, seed, actions)`: equal on every
  machine, in every process and under every PYTHONHASHSEED. The server never
  steps an episode that has ended and never calls one instance from two threads
  at once.
  """

  def reset(self, task_id: int, seed: int) -> str:
    """Starts task `task_id` and returns its first observation.

    Raises:
      EnvError: this environment has no such task.
    """

  def observation(self) -> str:
    """The last observation, as `reset` or `step` gave it."""

  def step(self, action: str) -> StepResult:
    """Does `action`; one that is not understood changes nothing but the text.

    Rewards are of this step alone.
    """

  def available_actions(self) -> list[str]:
    """Actions that can be done now, or their forms where there are too many."""

  def expert_action(self) -> str:
    """The expert's next action. It changes nothing.

    Raises:
      EnvError: the environment has no expert, or the expert no plan from here.
    """

  def close(self) -> None:
    """Frees what the episode holds. May be called twice."""
