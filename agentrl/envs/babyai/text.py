"""The words of BabyAI: a view as an observation, and actions as they are read.

`full` is for language models, `compact` for policies of a few million
parameters: the same facts in a tenth of the tokens, without the list of
actions.
"""

import json
import re
from collections.abc import Iterable

from agentrl.envs.babyai.view import Cell, View

STYLES = ('full', 'compact')


def normalise(action: str) -> str:
  """`Pick up  the Red ball 1` as the table has it: `pickup red ball 1`."""
  text = ' '.join(action.lower().split()).rstrip('.')
  text = re.sub(r'^pick up\b', 'pickup', text)
  return re.sub(r'\bthe ', '', text)


def describe(view: View, style: str) -> str:
  """The view in words."""
  return _compact(view) if style == 'compact' else _full(view)


def goal(mission: str, style: str) -> str:
  """The line that opens the first observation."""
  if style == 'compact':
    return f'goal: {mission}\n'
  return f'Your goal: {mission}\n'


def action_list(actions: Iterable[str]) -> str:
  """The line that closes every full observation."""
  return f'\nAvailable actions: {json.dumps(list(actions))}'


def _full(view: View) -> str:
  parts = []
  if view.things:
    things = '; '.join(
        f'a {thing.name}, {_offset(thing.cell)}' for thing in view.things
    )
    parts.append(f'You see: {things}.')
  else:
    parts.append('You see no objects.')
  if view.wall is not None:
    parts.append(f'A wall is {_steps(view.wall)} in front of you.')
  facing = view.in_front
  if facing is not None:
    parts.append(f'You are facing the {facing.name}.')
  if view.carrying is None:
    parts.append('You are not carrying anything.')
  else:
    parts.append(
        f'You are carrying a {view.carrying.color} {view.carrying.type}.'
    )
  return ' '.join(parts)


def _compact(view: View) -> str:
  lines = [f'{x.name} {_short_offset(x.cell)}' for x in view.things]
  if view.wall is not None:
    lines.append(f'wall front {view.wall}')
  if view.carrying is not None:
    lines.append(f'carrying {view.carrying.color} {view.carrying.type}')
  return '\n'.join(lines) or 'nothing'


def _steps(count: int) -> str:
  return '1 step' if count == 1 else f'{count} steps'


def _offset(cell: Cell) -> str:
  right, front = cell
  side = f'{_steps(abs(right))} to your {"right" if right > 0 else "left"}'
  ahead = f'{_steps(front)} in front of you'
  if not right:
    return ahead
  return f'{ahead} and {side}' if front else side


def _short_offset(cell: Cell) -> str:
  right, front = cell
  side = f'{"right" if right > 0 else "left"} {abs(right)}'
  parts = [f'front {front}'] if front else []
  return ' '.join(parts + ([side] if right else []))
