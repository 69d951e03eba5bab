"""SciWorld: task, score, room and the objects in it."""

import re

from agentrl.envs import blocks
from agentrl.envs.blocks import Block, Moment

_TASK = re.compile(r'^Your task is to .+$', re.MULTILINE)
_ROOM = re.compile(
    r'This (?:room is called the|outside location is called the) (.+?)\.'
)
_MOVED = re.compile(r'You move to the (.+?)\.')
_HOLDS = re.compile(r'In your inventory, you see:\n((?:\t.*\n?)*)')
_REFUSED = 'No known action matches that input.'


def view(moment: Moment) -> list[Block]:
  """Shows what the last look around the present room has shown."""
  task = _TASK.search(moment.opening)
  room, seen, when = '', '', 0
  inventory = None
  seen_at = list(enumerate(moment.observations))
  if moment.probed:
    seen_at.append((moment.done, moment.probed))
  for turn, observation in seen_at:
    if moved := _MOVED.search(observation):
      room, seen = moved[1], ''
    if named := _ROOM.search(observation):
      room, seen, when = named[1], observation[named.start() :], turn
    if held := _HOLDS.search(observation):
      inventory = held[1]
  progress = moment.past[-1].progress if moment.past else None
  parts = [
      blocks.facts('Task', task=task and task[0]),
      blocks.bar(
          'Score',
          progress or 0.0,
          'not reported'
          if progress is None
          else f'{100 * progress:.0f} of 100',
      ),
      blocks.facts('Room', room=room, seen_at_turn=when if seen else None),
  ]
  if seen:
    parts.append(
        blocks.items(
            'Objects',
            (blocks.item(x, _mark(x, moment.action)) for x in _lines(seen)),
        )
    )
  elif room:
    parts.append(blocks.items('Objects', (), 'not looked around yet'))
  if inventory is not None:
    lines = [line.strip() for line in inventory.splitlines() if line.strip()]
    parts.append(
        blocks.items('Inventory, when last listed', map(blocks.item, lines))
    )
  return parts


def refuses(observation: str) -> bool:
  """True if the command before an observation could not be done."""
  return observation == _REFUSED


def _lines(seen: str) -> list[str]:
  """The indented lines of a look around, doors among them."""
  return [
      line.strip()
      for line in seen.splitlines()
      if line.startswith('\t') and line.strip()
  ]


def _mark(thing: str, action: str) -> str | None:
  """Marks a thing that the last action names."""
  name = re.sub(r'^(?:an?|the) ', '', thing.lower()).split(',')[0]
  name = re.sub(r' \(.*$', '', name).removeprefix('substance called ')
  return blocks.NOW if name and name in action.lower() else None
