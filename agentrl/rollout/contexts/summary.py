"""A summary that the policy writes when its context fills."""

from collections.abc import Callable

from agentrl.rollout.contexts import base
from agentrl.rollout.contexts.base import Continuation, EpisodeView, Request
from agentrl.types import SUMMARY, Message

REQUEST = (
    'Your context is nearly full. Summarise in a few words what you did, what'
    ' you found and what is left to do. You will see this summary alone.'
)


def summary(
    budget: int, tokens: int, *, learn: bool
) -> Callable[[EpisodeView], Continuation]:
  """The prompt, a summary by the policy, and the last observation.

  It is written once the segment, with the observation that comes next, would
  exceed `budget` tokens.

  Args:
    budget: tokens of a segment before it.
    tokens: of a summary, at most.
    learn: whether they are trained on.
  """

  def next_segment(view: EpisodeView) -> Continuation:
    assert view.used is not None  # refused where no tokens are counted
    if view.used <= budget:
      return Continuation()
    latest = view.turns[-1].observation

    def opening(text: str) -> tuple[Message, ...]:
      return base.head(
          view, f'Summary of your turns so far: {text}\n\n{latest}'
      )

    return Continuation(opening, Request(SUMMARY, REQUEST, tokens, learn))

  return next_segment
