"""Experts of the mail client's pages.

The objective is a sentence of a template, or of one that people wrote. It is
read as they meant it, but a few templates of the training split swap sender and
recipient ("Send NAME the message from DEST."); their problems are lost.
"""

import re

from agentrl.envs.web.situation import (
    Situation,
    Stuck,
    click,
    fill,
)

# A name, and a double one where the second is no owner: 'Send Ada Eve's email'.
_NAME = r"([A-Z][\w-]+ [A-Z][\w-]+(?!\w|-|'s)|[A-Z][\w-]+)"
# Where the recipient stands; the first that matches counts.
_RECIPIENT = (
    rf'\bto {_NAME}',
    rf"\bin {_NAME}'s inbox",
    rf'^{_NAME} (?:needs|must|wants|is)\b',
    rf"\b(?i:forward|send|give|let|email|put|sure|want) {_NAME}\b(?!'s)",
)
_DELETE = (
    r"\b([Dd]elete|[Rr]emove|[Tt]rash|rid of|away|out of|recycling|don't want)"
)
_STAR = r'\b([Ff]lag|[Ll]abel|[Mm]ark|star|Star the|import\w*|imiport\w*)\b'


def _mail(at: Situation) -> str:
  if at.has('clickable', 'send-reply'):
    fields = [(at.one('textbox'), _message(at))]
    return fill(fields, at.one('clickable', 'send-reply'))
  if at.has('clickable', 'send-forward'):
    fields = [(at.one('textbox'), _recipient(at))]
    return fill(fields, at.one('clickable', 'send-forward'))
  task = _task(at)
  if at.has('clickable', 'close-email'):
    return click(at.one('StaticText', task))
  thread = at.text(_sender(at))
  if task in ('trash', 'star'):
    return click(at.text(task, thread))
  return click(thread)


def _task(at: Situation) -> str:
  """The name of the element that does what is asked for."""
  if '"' in at.objective:
    return 'Reply'
  if re.search(_DELETE, at.objective):
    return 'trash'
  return 'star' if re.search(_STAR, at.objective) else 'Forward'


def _message(at: Situation) -> str:
  return at.find('"+([^"]+)"')[0]


def _recipient(at: Situation) -> str:
  for pattern in _RECIPIENT:
    match = re.search(pattern, at.objective)
    if match:
      return match[1]
  raise Stuck(f'{at.objective!r} has no recipient.')


def _sender(at: Situation) -> str:
  """Whose mail of the inbox is meant."""
  objective = re.sub('".*"', '', at.objective)
  objective = objective.replace('NAME', '')  # a template that has it twice
  senders = [
      at.nodes[k - 3].name
      for k, node in enumerate(at.nodes)
      if node.name == 'trash'
  ]
  # Some wrote 'Adas email' and 'AnswerAda'; a longer name may begin like it.
  named = [
      name
      for name in sorted(senders, key=len, reverse=True)
      if re.search(rf'(?:\b|Answer){name}(?:s|\b)(?!\w|-)', objective)
  ]
  if _task(at) == 'Forward':
    recipient = _recipient(at)
    named = [name for name in named if name != recipient] or named
  if not named:
    raise Stuck(f'the inbox has nobody of {at.objective!r}.')
  return named[0]


EXPERTS = dict.fromkeys(
    (
        'email-inbox',
        'email-inbox-delete',
        'email-inbox-forward',
        'email-inbox-forward-nl',
        'email-inbox-forward-nl-turk',
        'email-inbox-important',
        'email-inbox-nl-turk',
        'email-inbox-noscroll',
        'email-inbox-reply',
        'email-inbox-star-reply',
    ),
    _mail,
)
