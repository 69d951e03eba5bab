"""The choice of shapes for the pieces of a minibatch.

A program is compiled for each shape of a piece, which takes as long as many
tokens. So a minibatch may be cut into pieces of shapes that there are, larger
than it needs, as one rents skis: once what was computed in vain would have paid
for a program that fits, it is compiled, beside the work. Whatever comes, no more
than twice the best possible time is lost.
"""

import collections
import threading
from collections.abc import Callable, Iterable, Sequence

from agentrl.data import packing
from agentrl.data.packing import Cost, Members, Piece, Shape

# Prefixes are shared where at most this part of the work is left: sharing costs
# a copy of their keys and values for every row, and programs.
_WORTH_SHARING = 0.9
# What is computed in vain before a program is compiled, as a part of its price:
# one beside the work costs less than one that is waited for.
_PATIENCE = 0.5


class Shapes:
  """The shapes of a program's pieces: those it has, and those it should have.

  Without a price shapes are chosen by what is packed alone.

  Attributes:
    cost: of a shape, in tokens of short rows.
    price: of a program, in the same unit.
  """

  def __init__(self, cost: Cost = packing.cost, price: float = 0.0):
    """Starts without a shape."""
    self.cost, self.price = cost, price
    self._known: set[Shape] = set()
    self._wasted: dict[Shape, float] = collections.defaultdict(float)
    # What is compiled beside the work is added by another thread.
    self._lock = threading.Lock()

  def add(self, shape: Shape) -> None:
    """Notes that there is, or soon will be, a program for a shape."""
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
    if not self.price:
      return best[1:]
    with self._lock:
      known = frozenset(self._known)
    missing = {piece.shape for piece in best[2]} - known
    if not missing:
      return best[1:]
    served = self._best(
        packing.plan_within(way, known, cost=self.cost) for way in ways
    )
    if served is None:
      return best[1:]
    lost = served[0] - best[0]
    if lost > self.price * len(missing):
      return best[1:]  # to wait is cheaper
    for shape in missing:
      self._wasted[shape] += lost / len(missing)
    return served[1:]

  def wanted(self) -> list[Shape]:
    """The shapes whose programs would have paid for themselves, once each."""
    limit = _PATIENCE * self.price
    found = [s for s, wasted in self._wasted.items() if wasted > limit]
    for shape in found:
      self._wasted[shape] = float('-inf')
    return found

  def _best(
      self, plans: Iterable[list[Piece] | None]
  ) -> tuple[float, int, list[Piece]] | None:
    """The cheapest plan, its cost and index; the first shares no prefixes."""
    found = []
    for index, pieces in enumerate(plans):
      if pieces is not None:
        total = packing.total(pieces, self.cost)
        found.append((total / _WORTH_SHARING if index else total, index, pieces))
    return min(found, key=lambda plan: plan[0], default=None)


# Shapes are chosen by what is packed alone.
ANY = Shapes()
