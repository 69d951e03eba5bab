"""Fixed lists of tasks that meet every kind of an environment."""

import math
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction

# The kind of a task, then finer ones.
Kinds = tuple[Hashable, ...]


def spread(
    tasks: Sequence[int], count: int, kinds_of: Callable[[int], Kinds]
) -> tuple[int, ...]:
  """`count` of the tasks, spread over their kinds and evenly within each.

  A systematic sample of the list sorted by kind (implicit stratification): each
  kind has its share of the panel, rounded up or down, and one task at least
  where `count` allows it. Finer kinds are met in proportion. Of a list that is
  sorted by kind already, and whose kinds are large enough, it is every n-th
  task.

  Args:
    tasks: at least `count`.
    count: tasks of the panel.
    kinds_of: gives a task's kinds, the coarsest first.

  Returns:
    The tasks, in the order of the list.
  """
  by_kind: dict[Hashable, dict[Kinds, list[int]]] = {}
  for index, task in enumerate(tasks):
    kinds = kinds_of(task)
    by_kind.setdefault(kinds[0], {}).setdefault(kinds, []).append(index)
  strata = [sum(finer.values(), []) for finer in by_kind.values()]
  chosen, start = [], Fraction(0)
  for stratum, share in zip(strata, _shares(strata, count), strict=True):
    end = start + share
    chosen += [
        stratum[math.floor((point - start) / share * len(stratum))]
        for point in range(math.ceil(start), math.ceil(end))
    ]
    start = end
  return tuple(tasks[index] for index in sorted(chosen))


def _shares(strata: Sequence[Sequence[int]], count: int) -> list[Fraction]:
  """Tasks that each stratum has on average; `count` in all.

  In proportion to its size, but 1 at least; equal where there are more strata
  than tasks.
  """
  if count < len(strata):
    return [Fraction(count, len(strata))] * len(strata)
  shares = [Fraction(0)] * len(strata)
  left, size = Fraction(count), sum(map(len, strata))
  # The smallest first: what it is given beyond its part, larger ones lack.
  for index in sorted(range(len(strata)), key=lambda i: len(strata[i])):
    share = max(Fraction(1), left * len(strata[index]) / size)
    shares[index] = share
    left, size = left - share, size - len(strata[index])
  return shares
