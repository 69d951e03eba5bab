"""Notes: a scratch pad that the policy edits, beside the last observations.

Two commands stand where actions do: `note: TEXT` adds a line, `rewrite: TEXT`
replaces all. The notes open each segment that follows. An edit is no action of
the environment and does not count towards the horizon; the next turn after one
must be an action, so that an episode ends.
"""

import re
from collections.abc import Sequence

from agentrl import types
from agentrl.envs.functions import Function
from agentrl.rollout.contexts import base
from agentrl.rollout.contexts.base import (
    Command,
    Context,
    Continuation,
    Count,
    EpisodeView,
)
from agentrl.types import NOTE, Turn

INSTRUCTIONS = (
    'You will see only your last turns. Keep notes of what you must not forget:'
    ' instead of an action write note: TEXT to add a line, or rewrite: TEXT to'
    ' replace all your notes.'
)
FUNCTIONS = (
    Function('note', ('note: {text}',)),
    Function('rewrite', ('rewrite: {text}',)),
)
NOTED = 'Noted. Now act.'
_COMMAND = re.compile(r'(note|rewrite):\s*(.*)', re.IGNORECASE | re.DOTALL)


def notes(size: int, tokens: int) -> Context:
  """Notes of at most `tokens`, and a window of `size` observations."""

  def next_segment(view: EpisodeView) -> Continuation:
    acts = types.acts(view.turns)
    if view.turns[-1].kind == NOTE or len(acts) <= size:
      return Continuation()
    text = base.LEFT_OUT
    if pad := read(view.turns):
      text = f'{text} Your notes:\n{pad}'
    return Continuation(
        lambda _: (*base.head(view, text), *base.shown(acts[-size:]))
    )

  def command(
      turns: Sequence[Turn], action: str, count: Count
  ) -> Command | None:
    if not _COMMAND.fullmatch(action):
      return None
    if turns and turns[-1].kind == NOTE:
      return Command(NOTE, error='act before you edit your notes again.')
    used = count(_edit(read(turns), action))
    assert used is not None  # refused where no tokens are counted
    if used > tokens:
      return Command(
          NOTE,
          error=(
              f'your notes would have {used} tokens, and may have {tokens};'
              ' write rewrite: with fewer words.'
          ),
      )
    return Command(NOTE, answer=NOTED)

  return Context(next_segment, command, INSTRUCTIONS, FUNCTIONS)


def read(turns: Sequence[Turn]) -> str:
  """The notes after these turns."""
  pad = ''
  for turn in turns:
    if turn.kind == NOTE:
      pad = _edit(pad, turn.action)
  return pad


def _edit(pad: str, action: str) -> str:
  match = _COMMAND.fullmatch(action)
  assert match is not None  # `command` has seen that it is one
  kind, text = match[1].lower(), match[2].strip()
  return f'{pad}\n{text}'.strip() if kind == 'note' else text
