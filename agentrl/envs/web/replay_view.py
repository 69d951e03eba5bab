"""MiniWoB++ and WebArena: objective, screenshots, the acted element."""

import re

from agentrl.envs import blocks
from agentrl.envs.blocks import Block, Moment

_OBJECTIVE = re.compile(r'^OBJECTIVE: (.+)$', re.MULTILINE)
_URL = re.compile(r'^URL: (.+)$', re.MULTILINE)
_NUMBER = re.compile(r'^\s*(?:```)?\s*(?:click|type|hover) \[(\d+)\]')
# What `commands.Refused` says, in the notes above a page.
_REFUSED = re.compile(
    r'^(?:Element \[\d+\] (?:is|cannot be) |There is no (?:element|tab|page to'
    r' go) |'
    r'.* (?:is no command; the commands are |cannot be read; the form is ))',
    re.MULTILINE,
)


def view(moment: Moment) -> list[Block]:
  """Shows what the last action named, and pictures before and after it."""
  objective = _OBJECTIVE.search(moment.opening)
  addresses = _URL.findall(moment.observation)
  element = _element(moment)
  parts = [
      blocks.facts(
          'Page',
          objective=objective and objective[1],
          address=addresses[-1] if addresses else None,
          action=moment.action or None,
          element=element,
      )
  ]
  if moment.picture:
    if moment.box:
      parts.append(
          blocks.picture_of_action(moment, 'Before the action: its element')
      )
    parts.append(blocks.picture(moment, 'The page now'))
  return parts


def acted_on(action: str) -> int | None:
  """The number of the element that a command names, or None."""
  match = _NUMBER.match(action)
  return int(match[1]) if match else None


def refuses(observation: str) -> bool:
  """True if the command before an observation could not be done."""
  return bool(_REFUSED.search(observation))


def _element(moment: Moment) -> str | None:
  """The line of the page before the last action that it names."""
  number = acted_on(moment.action)
  if number is None:
    return None
  before = moment.observations[-2]
  line = re.search(rf'^\s*(\[{number}\] .+)$', before, re.MULTILINE)
  return line[1] if line else f'[{number}], which the page did not have'
