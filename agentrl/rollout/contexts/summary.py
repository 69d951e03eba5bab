"""A summary that the policy writes when its context fills."""

from collections.abc import Callable

from agentrl.rollout.contexts import base
from agentrl.rollout.contexts.base import Asked, Going, Next
from agentrl.types import SUMMARY, Message

REQUEST = (
    'Your context is nearly full. Summarise in a few words what you did, what'
    ' you found and what is left to do. You will see this summary alone.'
)


def summary(
    budget: int, tokens: int, *, learn: bool
) -> Callable[[Going], Next]:
  """The prompt, a summary by the policy, and the last observation.

  It is written once the segment, with the observation that comes next, would
  exceed `budget` tokens.

  Args:
    budget: tokens of a segment before it.
    tokens: of a summary, at most.
    learn: whether they are trained on.
  """

  def next_segment(going: Going) -> Next:
    assert going.used is not None  # refused where no tokens are counted
    if going.used <= budget:
      return Next()
    latest = going.turns[-1].observation

    def opening(text: str) -> tuple[Message, ...]:
      return base.head(
          going, f'Summary of your turns so far: {text}\n\n{latest}'
      )

    return Next(opening, Asked(SUMMARY, REQUEST, tokens, learn))

  return next_segment
