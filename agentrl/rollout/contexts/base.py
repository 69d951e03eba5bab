"""The interface of context policies, and the words that they share."""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentrl import types
from agentrl.envs.functions import Functions
from agentrl.types import PLAN, Message, Turn

LEFT_OUT = 'Earlier turns are left out.'


class EpisodeView(NamedTuple):
  """An episode between two turns.

  Attributes:
    prompt: the messages before the first completion; with the lesson of an
      earlier attempt, where there is one.
    turns: so far, the last of them answered.
    used: tokens of the present segment with that answer; None: not known.
  """

  prompt: Sequence[Message]
  turns: Sequence[Turn]
  used: int | None


class Request(NamedTuple):
  """A text that the policy is asked for, and that is no action.

  Attributes:
    kind: of the turn.
    words: which ask for it.
    tokens: at most; the text is cut there, which is no error.
    learn: whether they are trained on.
    answer: shown after it in the same segment; '': a new segment begins.
  """

  kind: str
  words: str
  tokens: int
  learn: bool
  answer: str = ''


class Continuation(NamedTuple):
  """The step after a turn.

  Attributes:
    opening: the messages that the next segment begins with, from the text that
      was asked for, or ''; None: the present segment goes on.
    request: the text that the policy writes first; None: none.
  """

  opening: Callable[[str], tuple[Message, ...]] | None = None
  request: Request | None = None


class Command(NamedTuple):
  """An action that is for the context policy and not for the environment.

  Attributes:
    kind: of the turn.
    answer: the observation; '': the next segment shows what follows.
    error: why it is refused, a sentence for the policy; None: it is not. A
      refused command is answered like a completion without an action, and
      counts towards the horizon as that does.
  """

  kind: str
  answer: str = ''
  error: str | None = None


# The tokens of a text; None where they are not known.
Count = Callable[[str], int | None]


def _no_command(
    turns: Sequence[Turn], action: str, count: Count
) -> Command | None:
  del turns, action, count
  return None


class Context(NamedTuple):
  """A context policy, of pure functions.

  Attributes:
    next_segment: the step after the last turn.
    command: reads an action after the turns so far; None: it is for the
      environment.
    instructions: explain the commands to the policy, after those of the
      environment.
    functions: the commands, for formats in which actions are called.
  """

  next_segment: Callable[[EpisodeView], Continuation]
  command: Callable[[Sequence[Turn], str, Count], Command | None] = _no_command
  instructions: str = ''
  functions: Functions = ()


def head(view: EpisodeView, text: str) -> tuple[Message, ...]:
  """The prompt with the last plan, if there is one, and `text`."""
  plans = [turn.completion for turn in view.turns if turn.kind == PLAN]
  prompt = view.prompt
  if plans:
    prompt = with_text(prompt, f'Your plan: {plans[-1]}')
  return with_text(prompt, text)


def shown(turns: Sequence[Turn]) -> tuple[Message, ...]:
  """Completions, each with its observation."""
  return tuple(
      message
      for turn in turns
      for message in (
          Message('assistant', turn.completion),
          Message('user', turn.observation),
      )
  )


def recount(turns: Sequence[Turn]) -> str:
  """A text by a policy without words of its own, an expert: its actions.

  One that it repeats is counted: summaries are cut at their end, where the
  latest stand.
  """
  actions = (turn.action for turn in types.acts(turns))
  runs = (
      (action, len(list(run))) for action, run in itertools.groupby(actions)
  )
  words = [f'{action} x{n}' if n > 1 else action for action, n in runs]
  return '; '.join(words) or 'Nothing yet.'


def with_text(prompt: Sequence[Message], text: str) -> tuple[Message, ...]:
  """The prompt, whose last message goes on with `text`.

  In that message, since templates want roles to alternate; at its end, so that
  all segments of a task begin with the same tokens.
  """
  *first, last = prompt
  return (*first, Message(last.role, f'{last.content}\n\n{text}'))
