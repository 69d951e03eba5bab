"""Folding: a sub-task whose turns give way to its result (arXiv:2510.11967).

The policy writes two commands where its actions stand. `branch: GOAL` opens a
sub-task, which goes on in the present segment: there it sees the task, the main
line and the goal. `return: RESULT` closes it: the next segment holds the main
line, in which the result stands in place of the sub-task's turns. Neither is
an action of the environment, so neither counts towards the horizon; the turns
of a sub-task do. A sub-task has none of its own, and an episode a limited
number, so there are at most twice as many commands.
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
from agentrl.types import BRANCH, LESSON, RETURN, Message, Turn

INSTRUCTIONS = (
    'To keep your context short, work on a part of the task on its own: instead'
    ' of an action write branch: GOAL. When the part is done or hopeless, write'
    ' return: RESULT. Its turns are then left out, and you see only its result.'
)
FUNCTIONS = (
    Function('branch', ('branch: {goal}',)),
    Function('return_result', ('return: {result}',)),
)
_COMMAND = re.compile(r'(branch|return):\s*(.*)', re.IGNORECASE | re.DOTALL)


def fold(branches: int) -> Context:
  """Sub-tasks, at most `branches` an episode."""

  def command(
      turns: Sequence[Turn], action: str, count: Count
  ) -> Command | None:
    del count
    match = _COMMAND.fullmatch(action)
    if not match:
      return None
    kind, words = match[1].lower(), match[2].strip()
    opened = [turn.kind for turn in turns].count(BRANCH)
    inside = _is_inside(turns)
    if not words:
      return Command(kind, error=f'nothing follows "{kind}:".')
    if kind == RETURN and not inside:
      return Command(kind, error='there is no sub-task to return from.')
    if kind == RETURN:
      return Command(kind)
    if inside:
      return Command(kind, error='a sub-task has no sub-tasks; return first.')
    if opened == branches:
      return Command(kind, error=f'all {branches} sub-tasks are used up.')
    return Command(
        kind,
        answer=f'Sub-task: {words}\nWhen it is done, write return: RESULT.',
    )

  return Context(_next_segment, command, INSTRUCTIONS, FUNCTIONS)


def _next_segment(view: EpisodeView) -> Continuation:
  if view.turns[-1].kind != RETURN:
    return Continuation()
  return Continuation(lambda _: main_line(view.prompt, view.turns))


def main_line(
    prompt: Sequence[Message], turns: Sequence[Turn]
) -> tuple[Message, ...]:
  """The conversation, with the result of each sub-task in place of its turns.

  Args:
    prompt: the messages before the first completion.
    turns: that followed; a sub-task without a result is left as it is.
  """
  messages = tuple(prompt)
  turns = [turn for turn in turns if turn.kind != LESSON]  # in the prompt
  while turns:
    first, *rest = turns
    returned = _position(rest, RETURN)
    if first.request:
      messages = base.with_text(messages, first.request)
    if first.kind == BRANCH and returned is not None:
      text = _result(rest[returned], rest[:returned])
      rest = rest[returned + 1 :]
    else:
      text = first.observation
    messages += (Message('assistant', first.completion), Message('user', text))
    turns = rest
  return messages


def _result(returned: Turn, inside: Sequence[Turn]) -> str:
  """The observation that the main line has of a sub-task."""
  match = _COMMAND.fullmatch(returned.action)
  assert match is not None  # `command` has seen that it is one
  text = f'Result of the sub-task: {match[2].strip()}'
  # The environment stands where the sub-task has left it.
  acts = types.acts(inside)
  return f'{text}\n\n{acts[-1].observation}' if acts else text


def _is_inside(turns: Sequence[Turn]) -> bool:
  """True between the beginning and the end of a sub-task."""
  kinds = [turn.kind for turn in turns]
  return kinds.count(BRANCH) > kinds.count(RETURN)


def _position(turns: Sequence[Turn], kind: str) -> int | None:
  return next((i for i, turn in enumerate(turns) if turn.kind == kind), None)
