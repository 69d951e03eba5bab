"""Packing of segments into rows of a few fixed shapes, with little padding.

Every shape of a piece is a program to compile, so there are few of them.
Between neighbours of a ladder at most a third is waste.
"""

import collections
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np

# Lengths of packed rows.
LENGTHS = tuple(sorted({base << k for base in (64, 96) for k in range(12)}))

Numbers = Sequence[int] | np.ndarray  # one of each member


class Shape(NamedTuple):
  """The size of a piece."""

  height: int  # rows
  length: int  # tokens of a row
  prefixes: int = 0
  prefix_length: int = 0

  @property
  def tokens(self) -> int:
    """To compute, padding included."""
    return self.height * self.length + self.prefixes * self.prefix_length

  def holds(self, other: 'Shape') -> bool:
    """True if what fits into `other` fits into this, by the same program."""
    return bool(self.prefixes) == bool(other.prefixes) and all(
        mine >= its for mine, its in zip(self, other, strict=True)
    )


Cost = Callable[[Shape], float]


def cost(shape: Shape, *, per_key: float = 0.0) -> float:
  """The work of a piece, in tokens of short rows.

  Args:
    shape: of the piece.
    per_key: what it costs a token to attend to a key, as a part of all else
      that it costs.
  """
  height, length, prefixes, prefix_length = shape
  rows = height * length * (1 + per_key * (length / 2 + prefix_length))
  return rows + prefixes * prefix_length * (1 + per_key * prefix_length / 2)


class Piece(NamedTuple):
  """The rows of a microbatch.

  Attributes:
    rows: the members of each packed row.
    prefixes: for each packed row, the index of the prefix that it continues.
    shape: padding included.
  """

  rows: list[list[int]]
  prefixes: list[int]
  shape: Shape


class _FirstFit:
  """Rows of one length, of which it finds the first that has room.

  A binary tree over them knows the most room below each of its nodes: a search
  takes as many steps as it has levels, not as there are rows.
  """

  def __init__(self, count: int, length: int):
    """Starts with empty rows.

    Args:
      count: of rows.
      length: tokens of each.
    """
    self._leaves = 1 << (count - 1).bit_length()
    self._room = [length] * (2 * self._leaves)  # node n is above 2n and 2n + 1

  def place(self, need: int) -> int:
    """The first row with room for `need` tokens, which are then taken."""
    node, room = 1, self._room
    while node < self._leaves:
      node *= 2
      node += room[node] < need
    row = node - self._leaves
    room[node] -= need
    while node > 1:
      node //= 2
      room[node] = max(room[2 * node], room[2 * node + 1])
    return row


# The group of some rows that must lie in one piece, and their members.
_Bundle = tuple[int, list[list[int]]]


def bucket_length(length: int) -> int:
  """The smallest of `LENGTHS` that holds `length` tokens."""
  for candidate in LENGTHS:
    if length <= candidate:
      return candidate
  raise ValueError(f'{length} tokens exceed the longest row, {LENGTHS[-1]}.')


def bucket_count(count: int) -> int:
  """The smallest of 1, 2, 3, 4, 6, 8, 12, ... that is at least `count`."""
  return _heights(count, 1)[-1]


def common_prefix(
    tokens: np.ndarray, lengths: np.ndarray, sampled: np.ndarray
) -> int:
  """The number of first tokens that all rows can share.

  At most those before the first sampled token of any row: sampled tokens are
  trained on and stay with their row. No row is shared to its end.

  Args:
    tokens: `[N, T]`.
    lengths: `[N]`, of the rows.
    sampled: `[N, T]` bool.
  """
  first = np.where(sampled.any(axis=1), sampled.argmax(axis=1), lengths - 1)
  limit = max(int(first.min()), 0)
  same = (tokens[:, :limit] == tokens[0, :limit]).all(axis=0)
  return limit if same.all() else int(same.argmin())


class Members(NamedTuple):
  """Segments to be packed, or sets of them.

  Attributes:
    needs: tokens of each; there is at least one.
    groups: of each; members of one group alone share a row.
    prefix_length: of each group's prefix, which every piece that continues it
      computes; 0 without prefixes.
    units: of each; members of one unit are in one piece, whatever its size, and
      those of two share no row. None: no member needs another.
  """

  needs: Numbers
  groups: Numbers
  prefix_length: int = 0
  units: Numbers | None = None

  def rows(self, length: int) -> list[_Bundle]:
    """Rows of `length` tokens, by groups; those of a unit in one bundle.

    First fit, long members first.
    """
    needs, groups = np.asarray(self.needs), np.asarray(self.groups).tolist()
    units = [0] * len(needs) if self.units is None else list(self.units)
    # More rows than members of a unit are never begun.
    fits = {
        unit: _FirstFit(count, length)
        for unit, count in collections.Counter(
            zip(groups, units, strict=True)
        ).items()
    }
    packed: dict[int, dict[int, list[list[int]]]] = {}
    for member in np.argsort(-needs, kind='stable').tolist():
      group, unit = groups[member], units[member]
      rows = packed.setdefault(group, {}).setdefault(unit, [])
      index = fits[group, unit].place(int(needs[member]))
      if index == len(rows):
        rows.append([])
      rows[index].append(member)
    return [
        (group, bundle)
        for group, of_units in packed.items()
        for rows in of_units.values()
        for bundle in (
            [rows] if self.units is not None else [[row] for row in rows]
        )
    ]


def plan(
    members: Members, *, max_tokens: int, multiple: int, cost: Cost = cost
) -> list[Piece]:
  """The cheapest pieces of packed rows.

  The rows of a group lie side by side, so that few pieces need its prefix. All
  pieces but the last have one shape.

  Args:
    members: to pack.
    max_tokens: largest size of a piece. A piece of `multiple` rows and prefixes
      may exceed it: neither can be cut.
    multiple: the heights of a piece are multiples of this.
    cost: of a shape.
  """
  length = bucket_length(max(members.needs))
  prefix_length = members.prefix_length and bucket_length(members.prefix_length)
  bundles = members.rows(length)
  count = sum(len(rows) for _, rows in bundles)
  largest = _heights(max(len(rows) for _, rows in bundles), multiple)[-1]
  names = len(set(members.groups)) if prefix_length else 1
  ways: list[list[Piece]] = []
  for most_prefixes in _heights(names, multiple):
    free = max_tokens - most_prefixes * prefix_length
    if ways and free < length * multiple:
      break  # no room for more prefixes
    height = max(most_rows(free, length, multiple), largest)
    most = Shape(height, length, *_of(most_prefixes, prefix_length))
    ways.append(_cut(bundles, most, multiple))
    # As many pieces, of one height.
    equal = _heights(-(-count // -(-count // height)), multiple)[-1]
    if largest <= equal < height:
      ways.append(_cut(bundles, most._replace(height=equal), multiple))
  return min(ways, key=lambda way: total(way, cost))


def plan_within(
    members: Members, known: Collection[Shape], *, cost: Cost = cost
) -> list[Piece] | None:
  """The cheapest pieces of known shapes alone; None if they cannot hold all."""
  longest = Shape(1, max(members.needs), *_of(1, members.prefix_length))
  largest = [shape for shape in known if shape.holds(longest)]
  ways = []
  for length in {shape.length for shape in largest}:
    bundles = members.rows(length)
    highest = max(len(rows) for _, rows in bundles)
    for most in largest:
      if most.length == length and most.height >= highest:
        pieces = _cut(bundles, most, 1)
        ways.append([_within(piece, largest, cost) for piece in pieces])
  return min(ways, key=lambda way: total(way, cost), default=None)


def total(pieces: Sequence[Piece], cost: Cost = cost) -> float:
  """The cost of all pieces."""
  return sum(cost(piece.shape) for piece in pieces)


def most_rows(max_tokens: int, length: int, multiple: int) -> int:
  """Most rows of `length` tokens in a piece; arguments as for `plan`.

  Of the ladder of heights: odd ones, another for each length, would be more
  programs.
  """
  return _heights(max_tokens // length, multiple, floor=True)[-1]


def _of(prefixes: int, prefix_length: int) -> tuple[int, int]:
  return (prefixes, prefix_length) if prefix_length else (0, 0)


def _within(piece: Piece, known: Sequence[Shape], cost: Cost) -> Piece:
  """The piece in the cheapest of the shapes that hold it."""
  shape = min((shape for shape in known if shape.holds(piece.shape)), key=cost)
  return piece._replace(shape=shape)


def _cut(bundles: Sequence[_Bundle], most: Shape, multiple: int) -> list[Piece]:
  """Pieces of at most this shape; all but the last have it."""
  pieces: list[Piece] = []
  members: list[list[int]] = []
  prefixes: list[int] = []
  names: dict[int, int] = {}

  def close(shape):
    pieces.append(Piece(list(members), list(prefixes), shape))
    for x in (members, prefixes, names):
      x.clear()

  for group, rows in bundles:
    full = len(members) + len(rows) > most.height
    if most.prefixes:
      full |= len(names) + (group not in names) > most.prefixes
    if full:
      close(most)
    members += rows
    prefixes += [names.setdefault(group, len(names))] * len(rows)
  least = lambda used, limit: min(_heights(len(used), multiple)[-1], limit)
  close(
      most._replace(
          height=least(members, most.height),
          prefixes=least(names, most.prefixes),
      )
  )
  return pieces


def _heights(count: int, multiple: int, *, floor: bool = False) -> list[int]:
  """`multiple` times 1, 2, 3, 4, 6, 8, 12, ...

  Up to the first that suffices for `count`; with `floor` to the last that does
  not exceed it.
  """
  heights = [multiple]
  for step in sorted(base << k for base in (2, 3) for k in range(24)):
    height = step * multiple
    if heights[-1] >= count or (floor and height > count):
      break
    heights.append(height)
  return heights
