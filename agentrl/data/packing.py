"""Packing of segments into rows of a few fixed shapes, with little padding.

Every length and height of a piece is a program to compile, so there are few of
them. Between neighbours of a ladder at most a third is waste.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Lengths of packed rows.
LENGTHS = tuple(sorted({base << k for base in (64, 96) for k in range(12)}))

Numbers = Sequence[int] | np.ndarray  # one of each member


class Piece(NamedTuple):
  """The rows of a microbatch.

  Attributes:
    rows: the members of each packed row.
    prefixes: for each packed row, the index of the prefix that it continues.
    shape: `(height, length)` of the rows, padding included.
    prefix_shape: of the prefixes; a length of 0 without them.
  """

  rows: list[list[int]]
  prefixes: list[int]
  shape: tuple[int, int]
  prefix_shape: tuple[int, int]

  @property
  def size(self) -> int:
    """Tokens to compute, padding included."""
    return int(np.prod(self.shape) + np.prod(self.prefix_shape))


def bucket_length(length: int) -> int:
  """The smallest of `LENGTHS` that holds `length` tokens."""
  for candidate in LENGTHS:
    if length <= candidate:
      return candidate
  raise ValueError(f'{length} tokens exceed the longest row, {LENGTHS[-1]}.')


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


def plan(
    needs: Numbers,
    groups: Numbers,
    *,
    max_tokens: int,
    multiple: int,
    prefix_length: int = 0,
    units: Numbers | None = None,
) -> list[Piece]:
  """Pieces of packed rows: first fit, long members first.

  The rows of a group lie side by side, so that few pieces need its prefix. All
  pieces but the last have one shape, the one that leaves least to compute.

  Args:
    needs: tokens of each member; at least one member.
    groups: of each member; members of one group alone share a row.
    max_tokens: largest size of a piece. A piece of `multiple` rows and prefixes
      may exceed it: neither can be cut.
    multiple: the heights of a piece are multiples of this.
    prefix_length: of each group's prefix, which every piece that continues it
      computes; 0 without prefixes.
    units: of each member; members of one unit are in one piece, whatever its
      size, and those of two share no row. None: no member needs another.
  """
  length = bucket_length(max(needs))
  prefix_length = bucket_length(prefix_length) if prefix_length else 0
  bundles = _bundle(needs, groups, units, length)
  largest = max(len(rows) for _, rows in bundles)
  largest = _heights(largest, multiple)[-1]
  best: list[Piece] = []
  size = float('inf')
  for most_prefixes in _heights(len(set(groups)), multiple):
    free = max_tokens - most_prefixes * prefix_length
    if best and free < length * multiple:
      break  # no room for more prefixes
    height = max(most_rows(free, length, multiple), largest)
    pieces = _cut(
        bundles,
        most=(height, most_prefixes),
        lengths=(length, prefix_length),
        multiple=multiple,
    )
    if (total := sum(piece.size for piece in pieces)) < size:
      best, size = pieces, total
  return best


def most_rows(max_tokens: int, length: int, multiple: int) -> int:
  """Most rows of `length` tokens in a piece; arguments as for `plan`."""
  return max(max_tokens // length // multiple, 1) * multiple


# The group of some rows that must lie in one piece, and their members.
_Bundle = tuple[int, list[list[int]]]


def _bundle(
    needs: Numbers,
    groups: Numbers,
    units: Numbers | None,
    length: int,
) -> list[_Bundle]:
  """Rows of `length` tokens, by groups; those of a unit in one bundle."""
  packed: dict[int, dict[int, list[list[int]]]] = {}
  room: dict[tuple[int, int], list[int]] = {}
  for member in np.argsort(-np.asarray(needs), kind='stable').tolist():
    need, group = int(needs[member]), int(groups[member])
    unit = 0 if units is None else int(units[member])
    rows = packed.setdefault(group, {}).setdefault(unit, [])
    free = room.setdefault((group, unit), [])
    index = next((i for i, n in enumerate(free) if n >= need), len(rows))
    if index == len(rows):
      rows.append([])
      free.append(length)
    rows[index].append(member)
    free[index] -= need
  return [
      (group, bundle)
      for group, of_units in packed.items()
      for rows in of_units.values()
      for bundle in ([rows] if units is not None else [[row] for row in rows])
  ]


def _cut(
    bundles: Sequence[_Bundle],
    *,
    most: tuple[int, int],
    lengths: tuple[int, int],
    multiple: int,
) -> list[Piece]:
  """Pieces of at most `most` rows and prefixes; all but the last are alike."""
  pieces: list[Piece] = []
  members: list[list[int]] = []
  prefixes: list[int] = []
  names: dict[int, int] = {}

  def close(heights):
    shapes = zip(heights, lengths, strict=True)
    pieces.append(Piece(list(members), list(prefixes), *shapes))
    for x in (members, prefixes, names):
      x.clear()

  for group, rows in bundles:
    if len(members) + len(rows) > most[0] or len(names | {group: 0}) > most[1]:
      close(most)
    members += rows
    prefixes += [names.setdefault(group, len(names))] * len(rows)
  close(
      min(_heights(len(used), multiple)[-1], limit)
      for used, limit in zip((members, names), most, strict=True)
  )
  return pieces


def _heights(count: int, multiple: int) -> list[int]:
  """`multiple` times 1, 2, 3, 4, 6, 8, 12, ...: up to the first that suffices."""
  heights = [multiple]
  for step in sorted(base << k for base in (2, 3) for k in range(24)):
    if heights[-1] >= count:
      break
    heights.append(step * multiple)
  return heights
