"""BabyAI: the mission, the grid as a picture, and what the policy sees."""

import re

from agentrl.envs import blocks
from agentrl.envs.blocks import Block, Moment

_GOAL = re.compile(r'^(?:goal|Your goal): (.+)$', re.MULTILINE)
_CARRIES = re.compile(r'(?:carrying|You are carrying) (?:a )?(\w+ \w+)')
_THING = r'((?:[a-z]+ ){1,2}(?:ball|box|key|door))'
_COMPACT = re.compile(
    rf'^{_THING} \d+(?: front (\d+))?(?: (left|right) (\d+))?$', re.MULTILINE
)
_FULL = re.compile(
    rf'a {_THING} \d+, (?:(\d+) steps? in front of you)?(?: and )?'
    r'(?:(\d+) steps? to your (left|right))?'
)
_REFUSED = 'You cannot do '


def view(moment: Moment) -> list[Block]:
  """Shows the grid from above, and the objects in view around the agent."""
  goal = _GOAL.search(moment.opening)
  carried = _CARRIES.search(moment.observation)
  parts = [
      blocks.facts(
          'Mission', goal=goal and goal[1], carries=carried and carried[1]
      )
  ]
  if moment.picture:
    caption = 'From above; the part in view is lit.'
    parts.append(blocks.picture(moment, caption))
  things = _things(moment.observation)
  if things:
    parts.append({'kind': 'grid', 'title': 'In view', 'things': things})
  return parts


def refuses(observation: str) -> bool:
  """True if the command before an observation could not be done."""
  return observation.startswith(_REFUSED)


def _things(observation: str) -> list[Block]:
  """Objects by steps to the right and ahead of the agent, which looks up."""
  matches = [
      (name, front, side, count)
      for name, front, side, count in _COMPACT.findall(observation)
  ] + [
      (name, front, side, count)
      for name, front, count, side in _FULL.findall(observation)
  ]
  things = []
  for name, front, side, count in matches:
    color, *state, kind = name.split()
    right = int(count or 0) * (-1 if side == 'left' else 1)
    things.append({
        'kind': kind,
        'color': color,
        'state': ' '.join(state),
        'right': right,
        'ahead': int(front or 0),
    })
  return things
