"""The choice of a compiled shape for a dispatch.

Requests come in any number and length; a program exists for few shapes, and
each takes seconds to compile. So a dispatch may be served by a larger program
than it needs, as one rents skis: once the time wasted that way would have paid
for a program that fits, it is compiled, beside the work if there is someone to
do it. Whatever comes, no more than twice the best possible time is lost.
"""

import collections
import functools
import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

# Rough time to compile a program; with many layers it is a few seconds.
COMPILE_S = 2.0
# A dispatch costs each row this many positions' worth beyond its cache.
_ROW_COST = 256
# A dispatch that fills so much of the longest program's positions: those that
# follow will need more.
_NEARLY_FULL = 0.75
# The share of a stand-in's time that the program it replaces would take.
_STAND_IN = 0.75
# Rows that ordinary use decodes at once: a caller or two; a full small server.
_USUAL_ROWS = (4, 16)
# Programs of a runner.
DECODE, PREFILL, SCORE, COPY = 'decode', 'prefill', 'score', 'copy'


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
      self,
      rows: Sequence[int],
      lengths: Sequence[int],
      *,
      room: int = 4,
      order: Callable[[tuple[int, int]], None] | None = None,
  ):
    """Starts with nothing compiled.

    Args:
      rows: ascending numbers of rows that programs may have.
      lengths: ascending numbers of cache positions.
      room: times as many rows as wanted that the first program may have; 1
        where a row costs its share however many there are.
      order: called with a shape that is worth its program, while a larger one
        serves; who has compiled it calls `add`. None: it is compiled when it
        is chosen.
    """
    self._rows, self._lengths, self._room = tuple(rows), tuple(lengths), room
    self._order = order
    self._ordered: set[tuple[int, int]] = set()
    self._compiled: set[tuple[int, int]] = set()
    self._wasted_s: dict[tuple[int, int], float] = collections.defaultdict(
        float
    )

  def add(self, shape: tuple[int, int]) -> None:
    """Notes that a program was compiled without having been chosen."""
    self._compiled.add(shape)

  def stand_in(
      self, other: 'Shapes', rows: int, length: int, patience_s: float
  ) -> tuple[int, int] | None:
    """A shape of `other` programs to use where these have none, or None.

    None too once the time wasted that way, counted by `waste`, is more than
    `patience_s`.
    """
    wanted = self._wanted(rows, length)
    larger = [s for s in other._compiled if _holds(s, wanted)]
    if any(_holds(s, wanted) for s in self._compiled) or not larger:
      return None
    if self._wasted_s[wanted] >= patience_s and not self._orders(wanted):
      return None
    return min(larger, key=_cost)

  def choose(
      self, rows: int, length: int, patience_s: float = COMPILE_S
  ) -> tuple[tuple[int, int], bool]:
    """The shape for a dispatch of so many rows and positions.

    Args:
      rows: of the dispatch.
      length: its positions.
      patience_s: time to waste before a program that fits is compiled.

    Returns:
      The shape, and True if it is larger than needed: then pass the time of the
      dispatch to `waste`.
    """
    wanted = self._wanted(rows, length)
    self._look_ahead(wanted[0], length)
    if wanted in self._compiled:
      return wanted, False
    larger = [s for s in self._compiled if _holds(s, wanted)]
    if larger and (self._wasted_s[wanted] < patience_s or self._orders(wanted)):
      return min(larger, key=_cost), True
    # The first of its kind is made roomy: what follows is often larger.
    paid = larger or self._wasted_s[wanted] >= patience_s
    shape = wanted if paid else self._roomy(wanted)
    self._compiled.add(shape)
    return shape, False

  def _orders(self, shape: tuple[int, int]) -> bool:
    """Orders a program, once; False if nobody takes orders."""
    if self._order is None:
      return False
    if shape not in self._ordered:
      self._ordered.add(shape)
      self._order(shape)
    return True

  def _look_ahead(self, rows: int, length: int) -> None:
    """Orders the next length before sequences have grown to it."""
    longest = max((n for r, n in self._compiled if r >= rows), default=0)
    longer = [n for n in self._lengths if n > longest]
    if longest and longer and _NEARLY_FULL * longest < length <= longest:
      self._orders((rows, longer[0]))

  def waste(
      self,
      rows: int,
      length: int,
      used: tuple[int, int],
      seconds: float,
      *,
      share: float = 1.0,
  ) -> None:
    """Notes that a dispatch which wanted less took `seconds` with `used`.

    Args:
      rows: of the dispatch.
      length: its positions.
      used: the shape of its program.
      seconds: what it took.
      share: of that time, what a program without the unused features would
        have taken in the same shape.
    """
    wanted = self._wanted(rows, length)
    needed = share * _cost(wanted) / _cost(used)
    self._wasted_s[wanted] += seconds * (1 - needed)

  def _wanted(self, rows: int, length: int) -> tuple[int, int]:
    return bucket(rows, self._rows), bucket(length, self._lengths)

  def _roomy(self, shape: tuple[int, int]) -> tuple[int, int]:
    """Up to `room` times the rows and twice the length."""
    rows, length = shape
    return (
        max(r for r in self._rows if r <= self._room * rows),
        max(n for n in self._lengths if n <= 2 * length),
    )


class Choice(NamedTuple):
  """The program for a dispatch."""

  kind: Any
  shape: tuple[int, int]
  # To be called with the seconds of the dispatch; None: the program fits.
  waste: Callable[[float], None] | None


class Kinds:
  """The shapes of several kinds of a program.

  Attributes:
    patience_s: time to waste before a program that fits is compiled.
  """

  def __init__(
      self,
      make: Callable[[Any], Shapes],
      stand_in: Callable[[Any], Any] = lambda kind: kind,
  ):
    """Starts with nothing compiled.

    Args:
      make: the shapes of a kind.
      stand_in: gives the kind that can do what a kind does, and more.
    """
    self.patience_s = COMPILE_S
    self._make, self._stand_in = make, stand_in
    self._shapes: dict[Hashable, Shapes] = {}

  def __getitem__(self, kind: Hashable) -> Shapes:
    if kind not in self._shapes:
      self._shapes[kind] = self._make(kind)
    return self._shapes[kind]

  def choose(self, kind: Hashable, rows: int, length: int) -> Choice:
    """The program for a dispatch of a kind; see `Shapes.choose`.

    For a kind without programs, one that can do more stands in if it has some:
    rarely used features need no programs of their own.
    """
    shapes, more = self[kind], self._stand_in(kind)
    if more != kind and more in self._shapes:
      need = rows, length
      shape = shapes.stand_in(self[more], *need, self.patience_s)
      if shape is not None:
        waste = functools.partial(shapes.waste, *need, shape, share=_STAND_IN)
        return Choice(more, shape, waste)
    shape, larger = shapes.choose(rows, length, self.patience_s)
    waste = functools.partial(shapes.waste, rows, length, shape)
    return Choice(kind, shape, waste if larger else None)


def usual_programs(
    decode_rows: Sequence[int],
    prefill_rows: Mapping[int, Sequence[int]],
    length: int,
    *,
    deterministic: bool,
) -> Iterator[tuple[str, Any, tuple[int, int]]]:
  """The programs that serve ordinary requests with any feature.

  A dispatch of up to 16 rows finds one. Programs that can do everything stand
  in for those with some features, but for a deterministic runner: it has one
  for each feature, and none for combinations.

  Args:
    decode_rows: ascending numbers of rows that decode.
    prefill_rows: chunk length -> ascending numbers of rows.
    length: positions.
    deterministic: see `model_runner.ModelRunner`.

  Yields:
    Which program, its kind and its shape.
  """
  several = [n for n in decode_rows if n in _USUAL_ROWS]
  most = decode_rows[-1]
  if not several or several[-1] < most < _USUAL_ROWS[-1]:
    several.append(most)
  variants: list[tuple[bool, ...]] = [(False,) * 3, (True,) * 3]
  if deterministic:
    variants[1:] = [tuple(i == j for i in range(3)) for j in range(3)]
  for rows, variant in itertools.product(several, variants):
    yield DECODE, variant, (rows, length)
  for chunk, sizes in prefill_rows.items():
    needed = bucket(min(several[-1], sizes[-1]), sizes)
    for rows in sizes[: sizes.index(needed) + 1]:
      yield PREFILL, chunk, (rows, length)
    for tops in (False, True) if deterministic else (True,):
      yield SCORE, (chunk, tops), (1, length)
  for rows in dict.fromkeys((decode_rows[0], several[-1])):
    yield COPY, None, (rows, length)


def _holds(shape: tuple[int, int], wanted: tuple[int, int]) -> bool:
  return shape[0] >= wanted[0] and shape[1] >= wanted[1]


def _cost(shape: tuple[int, int]) -> int:
  rows, length = shape
  return rows * (_ROW_COST + length)
