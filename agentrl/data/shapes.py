"""The choice of shapes for the pieces of a minibatch.

A program is compiled for each shape of a piece, which takes as long as thousands
of tokens. So a minibatch may be cut into pieces of shapes that there are, larger
than it needs, as one rents skis: once what was computed in vain would have paid
for a program that fits, it is compiled. Whatever comes, no more than twice the
best possible time is lost.
"""

import collections
import threading
from collections.abc import Callable, Iterable, Sequence, Set
from typing import NamedTuple

from agentrl.data import packing
from agentrl.data.packing import Cost, Members, Piece, Shape

# Prefixes are shared where at most this part of the work is left: sharing costs
# a copy of their keys and values for every row, and programs.
_WORTH_SHARING = 0.9
# The price of a program that an earlier process has compiled, as a part of a new
# one's: it is traced and lowered all the same, and read.
_KEPT = 0.25
# What is computed in vain before a program is compiled, as a part of its price:
# one beside the work costs less than one that is waited for.
_PATIENCE = 0.5


class Shapes:
  """The shapes of a program's pieces: those it has, and those it should have.

  Without a price, shapes are chosen by what is packed alone; else by what was
  packed before, too.

  Attributes:
    cost: of a shape, in tokens of short rows.
    price: of a program, in the same unit.
    kept: shapes whose programs an earlier process has compiled.
  """

  def __init__(
      self,
      cost: Cost = packing.cost,
      price: float = 0.0,
      *,
      order: Callable[[Shape], None] | None = None,
  ):
    """Starts without a shape.

    Args:
      cost: of a shape.
      price: of a program.
      order: called with a shape that has paid for its program; who has it
        compiled calls `add`. None: from then on there is one.
    """
    self.cost, self.price = cost, price
    self.kept: Set[Shape] = frozenset()
    self._order = order or self.add
    self._known: set[Shape] = set()
    self._ordered: set[Shape] = set()
    self._wasted: dict[Shape, float] = collections.defaultdict(float)
    # What is compiled beside the work is added by another thread.
    self._lock = threading.Lock()

  def add(self, shape: Shape) -> None:
    """Notes that there is a program for a shape, or soon will be."""
    with self._lock:
      self._known.add(shape)

  def pack(
      self, ways: Sequence[Members], *, max_tokens: int, multiple: int
  ) -> tuple[int, list[Piece]]:
    """The way to pack a minibatch, and its pieces.

    Args:
      ways: to see its members; the first without prefixes.
      max_tokens: largest size of a piece, see `packing.plan`.
      multiple: of the heights of a piece.
    """
    best = self._best(
        packing.plan(
            way, max_tokens=max_tokens, multiple=multiple, cost=self.cost
        )
        for way in ways
    )
    assert best is not None
    if self.price:
      with self._lock:
        known = frozenset(self._known)
      if missing := {piece.shape for piece in best.pieces} - known:
        best = self._served(best, missing, ways, known)
    return best.way, best.pieces

  def _served(
      self,
      best: '_Plan',
      missing: Set[Shape],
      ways: Sequence[Members],
      known: Set[Shape],
  ) -> '_Plan':
    """The best plan, or one of known shapes if that is cheaper for now."""
    served = self._best(
        packing.plan_within(way, known, cost=self.cost) for way in ways
    )
    lost = served.total - best.total if served else float('inf')
    if served is None or lost > sum(map(self._price_of, missing)):
      for shape in missing:  # to wait for them is cheaper
        self.add(shape)
      return best
    for shape in sorted(missing - self._ordered):
      self._wasted[shape] += lost / len(missing)
      if self._wasted[shape] > _PATIENCE * self._price_of(shape):
        self._ordered.add(shape)
        self._order(shape)
    return served

  def _price_of(self, shape: Shape) -> float:
    return self.price * (_KEPT if shape in self.kept else 1.0)

  def _best(self, plans: Iterable[list[Piece] | None]) -> '_Plan | None':
    """The cheapest; the first of them shares no prefixes."""
    found = []
    for way, pieces in enumerate(plans):
      if pieces is not None:
        total = packing.total(pieces, self.cost)
        found.append(
            _Plan(total / _WORTH_SHARING if way else total, way, pieces)
        )
    return min(found, key=lambda plan: plan.total, default=None)


class _Plan(NamedTuple):
  total: float
  way: int
  pieces: list[Piece]


# Shapes are chosen by what is packed alone.
ANY = Shapes()
