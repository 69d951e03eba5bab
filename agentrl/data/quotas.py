"""Whole numbers of tasks in the proportion of weights, step after step.

A member of a mixture has the share `total * weight / sum of weights` of each
step. It gets the whole part of its share; the tasks that are then left over go,
one each, to the members with the largest remainders (Hamilton's method), where
what a member was owed or had too much of in the steps before counts as part of
its remainder. So

- the quotas of a step add up to `total`, and each is its share, rounded down or
  up;
- over the steps a member's tasks stay within one of its shares where there are
  at most four members, and within two where there are ten: in the long run the
  proportion is exact;
- the quotas of a step are a function of weights, total and step: nothing is
  drawn, and a resume needs no state.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction


class Quotas:
  """The tasks of each member at each step."""

  def __init__(self, weights: Sequence[float], total: int):
    """Starts at step 0.

    Args:
      weights: at least 0, of the members; not all of them 0.
      total: tasks of a step.
    """
    self._weights, self._total = tuple(weights), total
    self._step, self._next = 0, _steps(weights, total)

  def at(self, step: int) -> tuple[int, ...]:
    """The quotas of a step, in the order of the weights."""
    if step < self._step:
      self._step, self._next = 0, _steps(self._weights, self._total)
    while self._step < step:  # after a resume: integers alone
      next(self._next)
      self._step += 1
    self._step += 1
    return next(self._next)


def _steps(weights: Sequence[float], total: int) -> Iterator[tuple[int, ...]]:
  exact = [Fraction(weight) for weight in weights]
  scale = math.lcm(*(weight.denominator for weight in exact))
  # In units of 1 / whole: integers, which never drift.
  parts = [int(weight * scale) for weight in exact]
  whole = sum(parts)
  floors, rests = zip(*(divmod(total * x, whole) for x in parts), strict=True)
  left = sum(rests) // whole
  owed = [0] * len(parts)
  while True:
    owed = [before + rest for before, rest in zip(owed, rests, strict=True)]
    order = sorted(range(len(owed)), key=lambda i: (-owed[i], i))
    extra = set([i for i in order if rests[i]][:left])
    owed = [x - whole * (i in extra) for i, x in enumerate(owed)]
    yield tuple(floor + (i in extra) for i, floor in enumerate(floors))
