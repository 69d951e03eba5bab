"""What the agent sees, where it can walk, and what it can do there.

Everything is in the agent's own frame: a cell is `(right, front)`, the agent
stands at (0, 0) and faces front.
"""

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

# minigrid's primitive actions.
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)

Cell = tuple[int, int]
# Directions clockwise from where the agent faces.
_STEPS: tuple[Cell, ...] = ((0, 1), (1, 0), (0, -1), (-1, 0))
_MOVES = (FORWARD, LEFT, RIGHT)
_CARRIED = ('key', 'ball', 'box')
_FRONT: Cell = (0, 1)


@dataclasses.dataclass(frozen=True)
class Thing:
  """A visible object. `name` has its running number: 'red ball 1'."""

  name: str
  kind: str  # 'key' | 'ball' | 'box' | 'door' | 'goal' | 'lava'
  cell: Cell
  object: Any  # minigrid's own


@dataclasses.dataclass(frozen=True)
class View:
  """One look at the grid.

  Attributes:
    things: visible objects, nearest first; the numbers in their names count
      equal names in that order.
    paths: `(cell, direction)` -> primitives that bring the agent there.
    wall: steps to the nearest visible wall straight ahead; None without one.
    carrying: minigrid's object in hand, or None.
  """

  things: tuple[Thing, ...]
  paths: Mapping[tuple[Cell, int], tuple[int, ...]]
  wall: int | None
  carrying: Any

  @property
  def in_front(self) -> Thing | None:
    return next((x for x in self.things if x.cell == _FRONT), None)

  @property
  def can_move(self) -> bool:
    return (_FRONT, 0) in self.paths

  def path_to_face(self, cell: Cell) -> tuple[int, ...] | None:
    """The shortest walk that ends right before `cell`, facing it."""
    right, front = cell
    found = [
        self.paths[(right - dx, front - dy), direction]
        for direction, (dx, dy) in enumerate(_STEPS)
        if ((right - dx, front - dy), direction) in self.paths
    ]
    return min(found, key=len, default=None)

  def path_onto(self, cell: Cell) -> tuple[int, ...] | None:
    """The shortest walk that ends on `cell`."""
    found = [self.paths[cell, d] for d in range(4) if (cell, d) in self.paths]
    return min(found, key=len, default=None)


def look(grid: Any) -> View:
  """What the agent of a minigrid environment sees now."""
  rows = _window(grid)
  lit = _lit(rows)
  half, last = len(rows) // 2, len(rows) - 1
  things, free, walls = [], {(0, 0)}, []
  for row, items in enumerate(rows):  # the farthest first
    front = last - row
    for column, item in enumerate(items):
      right = column - half
      if not lit[row][column] or (right, front) == (0, 0):
        continue
      if item is None or (item.type == 'door' and item.is_open):
        free.add((right, front))
      if item is None:
        continue
      if item.type == 'wall':
        if right == 0:
          walls.append(front)
      elif item.type != 'floor':
        things.append((abs(right) + front, (right, front), item))

  things.sort(key=lambda thing: thing[0])
  numbers: collections.Counter[str] = collections.Counter()
  named = []
  for _, cell, item in things:
    name = _name(item)
    numbers[name] += 1
    named.append(Thing(f'{name} {numbers[name]}', item.type, cell, item))
  return View(
      things=tuple(named),
      paths=_walk(free),
      wall=min(walls, default=None),
      carrying=grid.carrying,
  )


def _window(grid: Any) -> list[list[Any]]:
  """The square before the agent, the farthest row first, left to right.

  The agent stands in the middle of the last row. As `gen_obs_grid` cuts it out,
  but by reading each cell once instead of rotating grids, at a fifth of the
  time. Beyond the outer wall, which nothing sees through, there is nothing.
  """
  size = grid.agent_view_size
  x, y = map(int, grid.agent_pos)
  dx, dy = map(int, grid.dir_vec)
  cells, width, height = grid.grid.grid, grid.width, grid.height
  rows = []
  for front in range(size - 1, -1, -1):
    row = []
    for right in range(-(size // 2), size // 2 + 1):
      # The vector to the right of (dx, dy) is (-dy, dx): y grows downwards.
      i, j = x + dx * front - dy * right, y + dy * front + dx * right
      inside = 0 <= i < width and 0 <= j < height
      row.append(cells[j * width + i] if inside else None)
    rows.append(row)
  return rows


def _lit(rows: list[list[Any]]) -> list[list[bool]]:
  """Which cells the agent sees, by minigrid's rule.

  Light spreads from the agent row by row, to the right and then to the left,
  through whatever is neither a wall nor a closed door.
  """
  size = len(rows)
  clear = [[item is None or item.see_behind() for item in row] for row in rows]
  lit = [[False] * size for _ in rows]
  lit[-1][size // 2] = True
  for row in range(size - 1, -1, -1):
    for side, columns in ((1, range(size - 1)), (-1, range(size - 1, 0, -1))):
      for column in columns:
        if lit[row][column] and clear[row][column]:
          lit[row][column + side] = True
          if row:
            lit[row - 1][column] = lit[row - 1][column + side] = True
  return lit


def _name(item: Any) -> str:
  if item.type != 'door':
    return f'{item.color} {item.type}'
  state = 'locked' if item.is_locked else 'open' if item.is_open else 'closed'
  return f'{item.color} {state} door'


def _walk(free: set[Cell]) -> dict[tuple[Cell, int], tuple[int, ...]]:
  """Shortest primitive paths over seen free cells, breadth first."""
  start = ((0, 0), 0)
  paths: dict[tuple[Cell, int], tuple[int, ...]] = {start: ()}
  queue = collections.deque([start])
  while queue:
    state = queue.popleft()
    (right, front), direction = state
    dx, dy = _STEPS[direction]
    ahead = ((right + dx, front + dy), direction)
    nexts = (
        ahead,
        ((right, front), (direction - 1) % 4),
        ((right, front), (direction + 1) % 4),
    )
    for move, after in zip(_MOVES, nexts, strict=True):
      if after not in paths and after[0] in free:
        paths[after] = paths[state] + (move,)
        queue.append(after)
  return paths


def actions(view: View) -> dict[str, tuple[int, ...]]:
  """Text action -> the primitives that it runs, in a fixed order.

  A walk that is already done is minigrid's `done`, which changes nothing: so
  that facing the goal from the start can still be said.
  """
  found: dict[str, tuple[int, ...]] = {
      'turn left': (LEFT,),
      'turn right': (RIGHT,),
  }
  if view.can_move:
    found['move forward'] = (FORWARD,)
  facing = view.in_front
  for thing in view.things:
    path = view.path_to_face(thing.cell)
    if path is None or thing.kind in ('goal', 'lava'):
      continue
    found[f'go to {thing.name}'] = path or (DONE,)
    if thing.kind in _CARRIED and view.carrying is None:
      found[f'pickup {thing.name}'] = path + (PICKUP,)
    elif thing.kind == 'door' and thing.object.is_open:
      onto = view.path_onto(thing.cell)
      if onto:
        found[f'go through {thing.name}'] = onto
    elif thing.kind == 'door' and _opens(thing, view.carrying):
      found[f'toggle and go through {thing.name}'] = path + (TOGGLE, FORWARD)
  if view.carrying is not None and facing is None and view.can_move:
    found['drop'] = (DROP,)
  if facing is not None and (
      facing.kind == 'box'
      or (facing.kind == 'door' and _opens(facing, view.carrying))
  ):
    found['toggle'] = (TOGGLE,)
  return found


def _opens(door: Thing, carrying: Any) -> bool:
  """Whether toggling `door` does something."""
  if not door.object.is_locked:
    return True
  return (
      carrying is not None
      and carrying.type == 'key'
      and carrying.color == door.object.color
  )
