"""The whole transcript, or the last observations of it."""

from collections.abc import Callable

from agentrl import types
from agentrl.rollout.contexts import base
from agentrl.rollout.contexts.base import Continuation, EpisodeView


def full(view: EpisodeView) -> Continuation:
  """Everything, in one segment, until the context is full."""
  del view
  return Continuation()


def window(size: int) -> Callable[[EpisodeView], Continuation]:
  """The prompt and the last `size` observations with the actions before them.

  An episode of no more turns than that is one segment.
  """

  def next_segment(view: EpisodeView) -> Continuation:
    acts = types.acts(view.turns)
    if len(acts) <= size:
      return Continuation()
    return Continuation(
        lambda _: (
            *base.head(view, base.LEFT_OUT),
            *base.shown(acts[-size:]),
        )
    )

  return next_segment
