"""Reflection: a lesson from one attempt for the next (arXiv:2303.11366).

An attempt after the first begins with a segment in which the policy reads the
attempt before it, in words, and writes a lesson. The next segment opens with the
task and that lesson, and the attempt is played from there. So a lesson is part
of the episode whose return it earns.
"""

from collections.abc import Callable, Sequence

from agentrl.rollout.contexts import base
from agentrl.rollout.contexts.base import Request
from agentrl.rollout.options import ReflectOptions
from agentrl.types import LESSON, Episode, Message, Turn

_REQUEST = (
    'You have tried this task before; your last attempt is above. Write in a'
    ' few words what you will do differently, or what worked. Do not act yet.'
)
_LEFT_OUT = '[...]'


def due(
    options: ReflectOptions,
    prompt: Sequence[Message],
    previous: Episode,
    fits: Callable[[Sequence[Message], int], bool],
) -> Request:
  """The lesson that an attempt begins with.

  Args:
    options: how long it may be.
    prompt: the messages before the first completion.
    previous: the attempt before, a valid episode.
    fits: True if a segment can open with these messages and leaves room for
      that many tokens. The attempt is shortened from its beginning until it
      does; where its outcome alone is too long, so is the whole request.
  """
  turns = [turn for turn in previous.turns if turn.kind != LESSON]
  start, stop = 0, len(turns)  # the first turn that is shown is between these
  while start < stop:
    middle = (start + stop) // 2
    text = request(previous, turns[middle:], middle > 0)
    if fits(base.with_text(prompt, text), options.tokens):
      stop = middle
    else:
      start = middle + 1
  text = request(previous, turns[start:], start > 0)
  return Request(LESSON, text, options.tokens, options.learn)


def request(previous: Episode, turns: Sequence[Turn], shortened: bool) -> str:
  """Words that ask for a lesson.

  Args:
    previous: the attempt before.
    turns: of it that are shown, the last ones.
    shortened: whether earlier ones are left out.
  """
  parts = ['Your last attempt:']
  parts += [f'Your lesson before it: {text}' for text in lessons(previous)]
  parts += [_LEFT_OUT] * shortened
  for turn in turns:
    parts += [turn.completion, turn.observation]
  outcome = 'succeeded' if previous.success else 'did not succeed'
  parts += [f'It {outcome}, with return {previous.episode_return:g}.', _REQUEST]
  return '\n\n'.join(filter(None, parts))


def lessons(episode: Episode) -> list[str]:
  """The lesson that an attempt began with; none in a first attempt."""
  return [turn.completion for turn in episode.turns if turn.kind == LESSON]


def with_lesson(prompt: Sequence[Message], lesson: str) -> tuple[Message, ...]:
  """The prompt of an attempt after its lesson."""
  return base.with_text(prompt, f'A lesson from your last attempt: {lesson}')
