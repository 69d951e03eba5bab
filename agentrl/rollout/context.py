"""Context policies: what of an episode the policy still sees.

A long episode outgrows the context. A policy of this kind looks at the turns so
far and says whether the present segment goes on, or how the next one begins.
Each is a pure function, so that an episode can be read again from its record.
Whatever an opening repeats is context: its tokens are no loss's business, since
they were sampled, and are trained, in the segment where they stood first.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentrl.rollout.options import ContextOptions
from agentrl.types import ACT, Message, Turn

LEFT_OUT = 'Earlier turns are left out.'
SUMMARY_REQUEST = (
    'Your context is nearly full. Summarise in a few words what you did, what'
    ' you found and what is left to do. You will see this summary alone.'
)


class Going(NamedTuple):
  """An episode between two turns.

  Attributes:
    prompt: the messages before the first completion.
    turns: so far, the last of them answered.
    used: tokens of the present segment with that answer; None: not known.
  """

  prompt: Sequence[Message]
  turns: Sequence[Turn]
  used: int | None


class Asked(NamedTuple):
  """A summary that the policy is asked for.

  Attributes:
    tokens: at most.
    learn: whether they are trained on.
  """

  tokens: int
  learn: bool


class Next(NamedTuple):
  """The step after a turn.

  Attributes:
    opening: the messages that the next segment begins with, from the policy's
      summary where one is asked for; None: the present segment goes on.
    summary: that the policy writes first; None: none.
  """

  opening: Callable[[str], tuple[Message, ...]] | None = None
  summary: Asked | None = None


ContextPolicy = Callable[[Going], Next]


def full(going: Going) -> Next:
  """Everything, in one segment, until the context is full."""
  del going
  return Next()


def window(size: int) -> ContextPolicy:
  """The prompt and the last `size` observations with the actions before them.

  An episode of no more turns than that is one segment.
  """

  def next_segment(going: Going) -> Next:
    if len(going.turns) <= size:
      return Next()
    shown = [
        message
        for turn in going.turns[-size:]
        for message in (
            Message('assistant', turn.completion),
            Message('user', turn.observation),
        )
    ]
    return Next(lambda _: (*_with(going.prompt, LEFT_OUT), *shown))

  return next_segment


def summary(budget: int, asked: Asked) -> ContextPolicy:
  """The prompt, a summary by the policy, and the last observation.

  It is written once the segment, with the observation that comes next, would
  exceed `budget` tokens.
  """

  def next_segment(going: Going) -> Next:
    assert going.used is not None  # refused where no tokens are counted
    if going.used <= budget:
      return Next()
    latest = going.turns[-1].observation

    def opening(text: str) -> tuple[Message, ...]:
      return _with(
          going.prompt, f'Summary of your turns so far: {text}\n\n{latest}'
      )

    return Next(opening, asked)

  return next_segment


def make(options: ContextOptions) -> ContextPolicy:
  """The context policy that a config names."""
  return CONTEXTS[options.kind](options)


CONTEXTS: dict[str, Callable[[ContextOptions], ContextPolicy]] = {
    'full': lambda options: full,
    'window': lambda options: window(options.window),
    'summary': lambda options: summary(
        options.budget, Asked(options.summary_tokens, options.learn_summary)
    ),
}


def recount(turns: Sequence[Turn]) -> str:
  """A summary by whoever knows no better, an expert: the actions so far."""
  return '; '.join(turn.action for turn in turns if turn.kind == ACT)


def acts(turns: Sequence[Turn]) -> int:
  """The number of turns that count towards the horizon."""
  return sum(turn.kind == ACT for turn in turns)


def _with(prompt: Sequence[Message], text: str) -> tuple[Message, ...]:
  """The prompt, whose last message goes on with `text`.

  In that message, since templates want roles to alternate; at its end, so that
  all segments of a task begin with the same tokens.
  """
  *first, last = prompt
  return (*first, Message(last.role, f'{last.content}\n\n{text}'))
