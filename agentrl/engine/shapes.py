"""Which compiled shape serves a dispatch.

Requests come in any number and length; a program exists for few shapes, and
each takes seconds to compile. So a dispatch may be served by a larger program
than it needs, as one rents skis: once the time wasted that way would have paid
for a program that fits, it is compiled. Whatever comes, no more than twice the
best possible time is lost.
"""

import collections
from collections.abc import Sequence

# What a program takes to compile, roughly; on many layers it is a few seconds.
_COMPILE_S = 2.0
# A dispatch costs each row this many positions' worth beyond its cache.
_ROW_COST = 256


def bucket(size: int, sizes: Sequence[int]) -> int:
  """The smallest of the ascending `sizes` that holds `size`."""
  for candidate in sizes:
    if candidate >= size:
      return candidate
  raise ValueError(f'{size} is over the largest bucket of {tuple(sizes)}.')


class Shapes:
  """The (rows, length) shapes of one kind of program.

  Not thread-safe.
  """

  def __init__(
      self, rows: Sequence[int], lengths: Sequence[int], *, room: int = 4
  ):
    """Starts with nothing compiled.

    Args:
      rows: ascending numbers of rows that programs may have.
      lengths: ascending numbers of cache positions.
      room: times as many rows as wanted that the first program may have; 1
        where a row costs its share however many there are.
    """
    self._rows, self._lengths, self._room = tuple(rows), tuple(lengths), room
    self._compiled: set[tuple[int, int]] = set()
    self._wasted_s: collections.Counter = collections.Counter()

  def choose(self, rows: int, length: int) -> tuple[tuple[int, int], bool]:
    """The shape for a dispatch of so many rows and positions.

    Returns:
      The shape, and whether it is larger than wanted: then `waste` is to be
      told how long the dispatch took.
    """
    wanted = self._wanted(rows, length)
    if wanted in self._compiled:
      return wanted, False
    larger = [s for s in self._compiled if _holds(s, wanted)]
    if larger and self._wasted_s[wanted] < _COMPILE_S:
      return min(larger, key=_cost), True
    # The first of its kind is made roomy: what follows is often larger.
    shape = wanted if larger else self._roomy(wanted)
    self._compiled.add(shape)
    return shape, False

  def waste(
      self, rows: int, length: int, used: tuple[int, int], seconds: float
  ) -> None:
    """Notes that a dispatch which wanted less took `seconds` with `used`."""
    wanted = self._wanted(rows, length)
    self._wasted_s[wanted] += seconds * (1 - _cost(wanted) / _cost(used))

  def _wanted(self, rows: int, length: int) -> tuple[int, int]:
    return bucket(rows, self._rows), bucket(length, self._lengths)

  def _roomy(self, shape: tuple[int, int]) -> tuple[int, int]:
    """Up to `room` times the rows and twice the length."""
    rows, length = shape
    return (
        max(r for r in self._rows if r <= self._room * rows),
        max(n for n in self._lengths if n <= 2 * length),
    )


def _holds(shape: tuple[int, int], wanted: tuple[int, int]) -> bool:
  return shape[0] >= wanted[0] and shape[1] >= wanted[1]


def _cost(shape: tuple[int, int]) -> int:
  rows, length = shape
  return rows * (_ROW_COST + length)
