"""The conversation of one episode, as `run_episode` holds it with a policy.

There are two: in token ids (`agent.TokenDialogue`) and in messages
(`text_agent.MessageDialogue`). An agent starts the one that it speaks.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from agentrl.rollout.transcript import Transcript
from agentrl.types import Completion, Message, TextCompletion


class Reading(NamedTuple):
  """One completion, decoded and parsed."""

  text: str
  action: str
  parse_error: str | None


class Dialogue(Protocol):
  """An append-only conversation and the policy that continues it.

  Attributes:
    transcript: its token ids; empty where the policy reads and writes text.
    overflow: why `ask` gave None, to follow the name of the prompt.
  """

  transcript: Transcript
  overflow: str

  def open(self, prompt: Sequence[Message]) -> None:
    """Begins with the messages before the first completion."""

  async def ask(self, turn: int) -> Completion | TextCompletion | None:
    """The policy's next completion; None when the context has no room for one.

    It is not yet part of the conversation: the environment may fail to answer.

    Raises:
      EngineError: the policy failed.
      EnvError: the policy is the environment's expert, and that failed.
    """

  def read(self, completion: Completion | TextCompletion) -> Reading:
    """The text of a completion, and its action."""

  def append(self, completion: Completion | TextCompletion) -> None:
    """Adds a completion that was answered."""

  def observe(self, observation: str) -> None:
    """Adds the answer to the last completion, if the context has room."""
