"""Fixed lists of tasks that meet every kind of an environment."""

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction

# The kind of a task, then finer ones.
Kinds = tuple[Hashable, ...]


def spread(
    tasks: Sequence[int], count: int, kinds_of: Callable[[int], Kinds]
) -> tuple[int, ...]:
  """`count` of the tasks, spread over their kinds and evenly within each.

  They are the first ones of an order that the list and its kinds fix, so the
  panel of a smaller count is a part of that of a larger one. At every count each
  kind has its share of the panel, rounded up or down, and one task at least
  where `count` allows it; finer kinds have theirs of the kind's. Of a list of
  one kind, a power of two is every n-th task.

  Args:
    tasks: at least `count`.
    count: tasks of the panel.
    kinds_of: gives a task's kinds, the coarsest first.

  Returns:
    The tasks, in the order of the list.
  """
  order = _order(range(len(tasks)), list(map(kinds_of, tasks)), depth=0)
  return tuple(tasks[i] for i in sorted(itertools.islice(order, count)))


def _order(
    indexes: Sequence[int],
    kinds: Sequence[Kinds],
    depth: int,
    shift: Fraction = Fraction(0),
) -> Iterator[int]:
  """Yields indexes of tasks: each prefix is spread over the kinds from `depth`.

  Args:
    indexes: of tasks that agree in their kinds above `depth`.
    kinds: of all tasks.
    depth: which of a task's kinds is next.
    shift: where in the list to begin, as a share of it. Each kind has another:
      else lists that run through the same worlds or seeds would all meet the
      same few.
  """
  if not indexes or depth == len(kinds[indexes[0]]):
    yield from (indexes[place] for place in _evenly(len(indexes), shift))
    return
  strata: dict[Hashable, list[int]] = {}
  for index in indexes:
    strata.setdefault(kinds[index][depth], []).append(index)
  orders = [
      _order(members, kinds, depth + 1, shift + Fraction(k, len(strata)))
      for k, members in enumerate(strata.values())
  ]
  for stratum in _turns([len(members) for members in strata.values()]):
    yield next(orders[stratum])


def _evenly(size: int, shift: Fraction = Fraction(0)) -> Sequence[int]:
  """The places of a list in van der Corput's order: first, half, quarters, ...

  Each prefix is spread over the whole list; the first 2^k places are every
  (size / 2^k)-th. All are moved on by a share of the list, around its end.
  """
  bits = (size - 1).bit_length() if size else 0
  moved = math.floor(shift * (size << bits))
  reverse = lambda k: int(f'{k:0{bits}b}'[::-1], 2) if bits else 0
  # Where size is no power of two, some places come twice.
  return tuple(
      dict.fromkeys(
          ((reverse(k) * size + moved) >> bits) % size
          for k in range((1 << bits) if size else 0)
      )
  )


def _turns(sizes: Sequence[int]) -> Iterator[int]:
  """Yields which stratum the next task is of.

  One each at first; then by the quota method of apportionment (Balinski and
  Young, American Mathematical Monthly 82, 1975): of the strata that have less
  than their share, that with the most tasks for each one taken. So no stratum
  ever loses a task to a larger panel, and none is a whole task off its share.
  """
  taken = [1] * len(sizes)
  rank = {stratum: k for k, stratum in enumerate(_evenly(len(sizes)))}
  yield from rank
  for count in range(len(sizes) + 1, sum(sizes) + 1):
    tasks, of = _rate(sizes, count)
    due = [i for i, size in enumerate(sizes) if taken[i] * of < size * tasks]
    chosen = max(
        due, key=lambda i: (Fraction(sizes[i], taken[i] + 1), -rank[i])
    )
    taken[chosen] += 1
    yield chosen


def _rate(sizes: Sequence[int], count: int) -> tuple[int, int]:
  """How many tasks of how many make the shares; `count` tasks in all.

  A stratum's share is its size times that, but 1 at least: what the smallest
  are given beyond their part, larger ones lack.
  """
  tasks, of = count, sum(sizes)
  for size in sorted(sizes):
    if size * tasks >= of:
      break
    tasks, of = tasks - 1, of - size
  return tasks, of
