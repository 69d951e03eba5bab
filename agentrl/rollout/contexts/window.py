"""The whole transcript, or the last observations of it."""

from collections.abc import Callable

from agentrl import types
from agentrl.rollout.contexts import base
from agentrl.rollout.contexts.base import Going, Next


def full(going: Going) -> Next:
  """Everything, in one segment, until the context is full."""
  del going
  return Next()


def window(size: int) -> Callable[[Going], Next]:
  """The prompt and the last `size` observations with the actions before them.

  An episode of no more turns than that is one segment.
  """

  def next_segment(going: Going) -> Next:
    acts = types.acts(going.turns)
    if len(acts) <= size:
      return Next()
    return Next(
        lambda _: (
            *base.head(going, base.LEFT_OUT),
            *base.shown(acts[-size:]),
        )
    )

  return next_segment
