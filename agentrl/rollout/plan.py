"""Plans: texts that the policy writes before it acts, in its own transcript.

A plan is a turn in words, to which the environment has no answer. It stays in
the transcript like any other completion, and segments that leave turns out
repeat the last one in their opening. Plans do not count towards the horizon.
"""

from collections.abc import Sequence

from agentrl import types
from agentrl.rollout.contexts.base import Request
from agentrl.rollout.options import PlanOptions
from agentrl.types import ACT, LESSON, PLAN, SUMMARY, Turn

START = (
    'Before you act, plan in a few words which steps lead to the goal. Do not'
    ' act yet.'
)
REVISE = 'Before you go on, revise your plan in a few words. Do not act yet.'
ACT_NOW = 'Now act.'


def due(options: PlanOptions, turns: Sequence[Turn]) -> Request | None:
  """The plan that is written now; None: the policy goes on.

  Args:
    options: when.
    turns: so far.
  """
  if options.kind == 'none':
    return None
  # A summary stands between an action and the plan that follows it.
  kinds = [turn.kind for turn in turns if turn.kind != SUMMARY]
  last = kinds[-1] if kinds else None
  if last in (None, LESSON):
    request = START
  elif last == ACT and _is_due_again(options, types.acts(turns)):
    request = REVISE
  else:  # after a command the policy has yet to act
    return None
  return Request(PLAN, request, options.tokens, options.learn, ACT_NOW)


def _is_due_again(options: PlanOptions, acts: Sequence[Turn]) -> bool:
  if options.kind == 'failure':
    return failed(acts)
  return options.kind == 'every' and len(acts) % options.every == 0


def failed(acts: Sequence[Turn]) -> bool:
  """True after an action that led nowhere.

  That is one that could not be read, that cost reward, or that was answered
  with the same observation as the action before it.

  Args:
    acts: so far, at least one.
  """
  last = acts[-1]
  return (
      last.parse_error is not None
      or last.reward < 0
      or (len(acts) > 1 and last.observation == acts[-2].observation)
  )
