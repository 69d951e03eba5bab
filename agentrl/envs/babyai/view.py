"""The agent's field of view, the cells in its reach, and its actions there.

Everything is in the agent's own frame: a cell is `(right, front)`, the agent
stands at (0, 0) and faces front.
"""

import array
import collections
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

# minigrid's primitive actions.
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)

Cell = tuple[int, int]
# Directions clockwise from where the agent faces.
_STEPS: tuple[Cell, ...] = ((0, 1), (1, 0), (0, -1), (-1, 0))
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
    wall: steps to the nearest visible wall straight ahead; None without one.
    carrying: minigrid's object in hand, or None.
    size: cells along one side of what can be seen.
    free: whether the agent may stand there, by the number of the cell.
  """

  things: tuple[Thing, ...]
  wall: int | None
  carrying: Any
  size: int
  free: bytes

  @functools.cached_property
  def in_front(self) -> Thing | None:
    return next((x for x in self.things if x.cell == _FRONT), None)

  @property
  def can_move(self) -> bool:
    front = _number(_FRONT, self.size)
    assert front is not None  # a view has more than one row
    return bool(self.free[front])

  def path_to_face(self, cell: Cell) -> tuple[int, ...] | None:
    """The shortest walk that ends right before `cell`, facing it."""
    right, front = cell
    return self._shortest(
        ((right - dx, front - dy), direction)
        for direction, (dx, dy) in enumerate(_STEPS)
    )

  def path_onto(self, cell: Cell) -> tuple[int, ...] | None:
    """The shortest walk that ends on `cell`."""
    return self._shortest((cell, direction) for direction in range(4))

  def _shortest(
      self, ends: Iterable[tuple[Cell, int]]
  ) -> tuple[int, ...] | None:
    """The primitives of the shortest walk to one of `ends`."""
    lengths, moves, before = _walks(self.free, self.size)
    best = -1
    for cell, direction in ends:
      number = _number(cell, self.size)
      if number is None:
        continue
      state = 4 * number + direction
      if lengths[state] >= 0 and (best < 0 or lengths[state] < lengths[best]):
        best = state
    if best < 0:
      return None
    path = []
    while lengths[best]:
      path.append(moves[best])
      best = before[best]
    return tuple(reversed(path))


# Turning round and meeting the same room again, five looks in six have free
# cells that another one had. An entry is a kilobyte.
@functools.lru_cache(maxsize=1024)
def _walks(
    free: bytes, size: int
) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
  """Shortest walks over seen free cells, breadth first.

  By state (four a cell, one a direction): the length, -1 where none leads
  there; the last primitive; the state before that one.
  """
  after = _afters(size)
  count = len(after)
  lengths, moves, before = [-1] * count, [0] * count, [0] * count
  here = _number((0, 0), size)
  assert here is not None  # where the agent stands
  start = 4 * here
  lengths[start] = 0
  queue = [start]
  for state in queue:  # it grows
    for move, then in after[state]:
      if lengths[then] < 0 and free[then >> 2]:
        lengths[then] = lengths[state] + 1
        moves[then], before[then] = move, state
        queue.append(then)
  return array.array('h', lengths), bytes(moves), array.array('h', before)


def _number(cell: Cell, size: int) -> int | None:
  """Cells from left to right, the nearest row first; None out of sight."""
  right, front = cell
  column = right + size // 2
  if 0 <= column < size and 0 <= front < size:
    return front * size + column
  return None


@functools.cache
def _afters(size: int) -> list[list[tuple[int, int]]]:
  """State -> (primitive, next state), where the next one is within sight."""
  table = []
  for front in range(size):
    for right in range(-(size // 2), size // 2 + 1):
      here = _number((right, front), size)
      assert here is not None  # the loops stay within sight
      for direction, (dx, dy) in enumerate(_STEPS):
        ahead = _number((right + dx, front + dy), size)
        moves = [] if ahead is None else [(FORWARD, 4 * ahead + direction)]
        moves += [
            (LEFT, 4 * here + (direction - 1) % 4),
            (RIGHT, 4 * here + (direction + 1) % 4),
        ]
        table.append(moves)
  return table


def look(grid: Any) -> View:
  """The current view of the agent of a minigrid environment."""
  size = grid.agent_view_size
  half = size // 2
  free = bytearray(size * size)
  free[half] = True  # where the agent stands
  things, wall = [], None
  lit = 1 << half
  for front, row in enumerate(_window(grid, size)):
    clear = 0
    for column, item in enumerate(row):
      if item is None or item.see_behind():
        clear |= 1 << column
    lit, above = _spread(lit, clear, size)
    for column in _columns(lit):
      item = row[column]
      if item is None:
        free[front * size + column] = True
        continue
      right = column - half
      if right == front == 0:
        continue
      if item.type == 'wall':
        if right == 0 and wall is None:
          wall = front
        continue
      if item.type == 'door' and item.is_open:
        free[front * size + column] = True
      if item.type != 'floor':
        things.append((abs(right) + front, -front, right, item))
    lit = above
    if not lit:
      break

  # The nearest first; of equally near ones, the farthest row first.
  things.sort(key=lambda thing: thing[:3])
  numbers: collections.Counter[str] = collections.Counter()
  named = []
  for _, back, right, item in things:
    name = _name(item)
    numbers[name] += 1
    named.append(
        Thing(f'{name} {numbers[name]}', item.type, (right, -back), item)
    )
  return View(
      things=tuple(named),
      wall=wall,
      carrying=grid.carrying,
      size=size,
      free=bytes(free),
  )


def _window(grid: Any, size: int) -> Iterator[list[Any]]:
  """The rows before the agent, the nearest first, each from left to right.

  The agent stands in the middle of the first row. As `gen_obs_grid` cuts it
  out, but by reading each cell once instead of rotating grids. Beyond the outer
  wall, which nothing sees through, there is nothing.
  """
  half = size // 2
  x, y = map(int, grid.agent_pos)
  dx, dy = map(int, grid.dir_vec)
  cells, width, height = grid.grid.grid, grid.width, grid.height
  # The vector to the right of (dx, dy) is (-dy, dx): y grows downwards. One of
  # the two is 0, so a row runs along x or along y, and by as much in all rows.
  across, limit = (y, height) if dx else (x, width)
  sign = dx or -dy
  inside = [
      right
      for right in range(-half, half + 1)
      if 0 <= across + sign * right < limit
  ]
  before = [None] * (inside[0] + half)
  behind = [None] * (half - inside[-1])
  stride = dx * width - dy
  for front in range(size):
    i, j = x + dx * front, y + dy * front
    if not (0 <= i < width and 0 <= j < height):
      return
    start = j * width + i + inside[0] * stride
    stop = start + len(inside) * stride
    yield before + [cells[k] for k in range(start, stop, stride)] + behind


@functools.cache
def _spread(lit: int, clear: int, size: int) -> tuple[int, int]:
  """Spread of light from the lit cells of a row, by minigrid's rule.

  It spreads to the right and then to the left, and to the row above, through
  whatever is neither a wall nor a closed door. Rows are bits, the leftmost cell
  the lowest.

  Returns:
    What is lit in this row and in the one above.
  """
  above = 0
  for side, columns in ((1, range(size - 1)), (-1, range(size - 1, 0, -1))):
    for column in columns:
      if lit & clear & 1 << column:
        both = 1 << column | 1 << column + side
        lit |= both
        above |= both
  return lit, above


@functools.cache
def _columns(lit: int) -> tuple[int, ...]:
  """The columns of the bits of a row."""
  return tuple(i for i in range(lit.bit_length()) if lit >> i & 1)


def _name(item: Any) -> str:
  if item.type != 'door':
    return f'{item.color} {item.type}'
  state = 'locked' if item.is_locked else 'open' if item.is_open else 'closed'
  return f'{item.color} {state} door'


def actions(view: View) -> dict[str, tuple[int, ...]]:
  """Text action -> the primitives that it runs, in a fixed order.

  A walk that is already done is minigrid's `done`, which changes nothing: so
  that facing the goal from the start can still be said.
  """
  primitives: dict[str, tuple[int, ...]] = {
      'turn left': (LEFT,),
      'turn right': (RIGHT,),
  }
  if view.can_move:
    primitives['move forward'] = (FORWARD,)
  facing = view.in_front
  for thing in view.things:
    path = view.path_to_face(thing.cell)
    if path is None or thing.kind in ('goal', 'lava'):
      continue
    primitives[f'go to {thing.name}'] = path or (DONE,)
    if thing.kind in _CARRIED and view.carrying is None:
      primitives[f'pickup {thing.name}'] = path + (PICKUP,)
    elif thing.kind == 'door' and thing.object.is_open:
      onto = view.path_onto(thing.cell)
      if onto:
        primitives[f'go through {thing.name}'] = onto
    elif thing.kind == 'door' and _opens(thing, view.carrying):
      primitives[f'toggle and go through {thing.name}'] = path + (
          TOGGLE,
          FORWARD,
      )
  if view.carrying is not None and facing is None and view.can_move:
    primitives['drop'] = (DROP,)
  if facing is not None and (
      facing.kind == 'box'
      or (facing.kind == 'door' and _opens(facing, view.carrying))
  ):
    primitives['toggle'] = (TOGGLE,)
  return primitives


def _opens(door: Thing, carrying: Any) -> bool:
  """True if toggling `door` does something."""
  if not door.object.is_locked:
    return True
  return (
      carrying is not None
      and carrying.type == 'key'
      and carrying.color == door.object.color
  )
