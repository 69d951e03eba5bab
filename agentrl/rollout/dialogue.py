"""The conversation of one episode, as `run_episode` holds it with a policy.

There are two: in token ids (`agent.TokenDialogue`) and in messages
(`text_agent.MessageDialogue`). An agent starts the one that it speaks.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from agentrl.rollout.transcript import Transcript
from agentrl.types import Completion, Message, TextCompletion

# The completions of a dialogue: ids or text.
AnyCompletion = TypeVar('AnyCompletion', Completion, TextCompletion)


class Reading(NamedTuple):
  """One completion, decoded and parsed."""

  text: str
  action: str
  parse_error: str | None


class Dialogue(Protocol[AnyCompletion]):
  """A conversation of append-only segments, and the policy that continues it.

  Attributes:
    transcript: its token ids; empty where the policy reads and writes text.
  """

  transcript: Transcript

  @property
  def overflow(self) -> str:
    """Why `ask` gave None, to follow the name of the prompt."""

  def count(self, text: str) -> int | None:
    """Tokens of a text; None: not known."""

  def fits(self, prompt: Sequence[Message], tokens: int) -> bool:
    """True if a segment can open with these messages and has room for tokens.

    Always, where tokens are not known.
    """

  async def open(self, prompt: Sequence[Message]) -> None:
    """Begins a segment with these messages, even without room to go on."""

  async def ask(
      self, turn: int, *, most: int | None = None
  ) -> AnyCompletion | None:
    """The policy's next completion; None when the context has no room for one.

    It is not yet part of the conversation: the environment may fail to answer.

    Args:
      turn: its number, which seeds it.
      most: tokens of it, at most; None: those of a turn.

    Raises:
      EngineError: the policy failed.
      EnvError: the policy is the environment's expert, and that failed.
    """

  def read(self, completion: AnyCompletion) -> Reading:
    """The text of a completion, and its action."""

  def append(self, completion: AnyCompletion) -> None:
    """Adds a completion that was answered."""

  async def used(self, observation: str) -> int | None:
    """Tokens of the segment if this answer were added; None: not known."""

  async def observe(self, observation: str) -> None:
    """Adds the answer to the last completion, if the context has room."""
