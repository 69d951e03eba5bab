"""Which groups are played ahead of the learner, and which it trains on next.

Pure: no clock, no asyncio, no episodes. A group is known by its number in the
order of admission and by the version of the policy at that moment.

With B groups a batch, depth D (batches that are admitted ahead) and bound S >= D
(versions that a group may be old when it is trained on):

- Admission: at most (D + 1) B groups are admitted and not consumed, finished or
  not. A group that fails ends like any other, so its place is never lost.
- Deadline: a group admitted at version s has to be in the batch of version
  s + S at the latest.
- Readiness: for each deadline d the batch takes at least
  `quota(d) = #(unconsumed with deadline <= d) - (d - version) B` of those groups;
  it waits until so many of them are finished, and is filled up with the eldest
  finished ones.

The bound holds, and nothing is ever dropped for its age. Let F(v) be: for each
d >= v, at most (d - v + 1) B unconsumed groups have a deadline <= d. With F(v), no
quota is above B, and quotas are nested, so that one batch meets them all. After
it, #(deadline <= d) is at most (d - v) B for each d whose quota was positive, and
was so before for the others; admissions at v + 1 have the deadline v + 1 + S, by
which at most (D + 1) B <= (S + 1) B groups are unconsumed: F(v + 1). F(0) is the
admission rule. F(v) for d = v says that groups whose deadline is now fit one
batch, and their quota takes all of them. To release a finished group and to admit
another in its place, at any moment, keeps F(v) too: the new one has the deadline
v + S, and (D + 1) B unconsumed groups at most are at most (S + 1) B.

D = S = 0 is the order of a loop that collects, updates, and collects again.
Aggregate counters (Fu et al., AReaL, arXiv:2505.24298) pass their bound under
heavy tails, and dropping what is stale trains on shorter episodes than were
sampled: `experiments/2026-12-asynchrony` compares.
"""

import collections
import dataclasses
import itertools
from collections.abc import Collection, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Pipeline:
  """Groups between admission and consumption.

  Attributes:
    version: batches consumed.
    next_number: groups admitted.
    running: number of each unfinished group -> version at its admission.
    done: likewise of the finished groups that are not consumed.
  """

  version: int = 0
  next_number: int = 0
  running: Mapping[int, int] = dataclasses.field(default_factory=dict)
  done: Mapping[int, int] = dataclasses.field(default_factory=dict)

  @property
  def unconsumed(self) -> dict[int, int]:
    """Number of each group that is admitted and not consumed -> its version."""
    return {**self.running, **self.done}

  def state(self) -> dict[str, Any]:
    """JSON values for `restore`."""
    return {
        'version': self.version,
        'next_number': self.next_number,
        'running': sorted(self.running.items()),
        'done': sorted(self.done.items()),
    }


def restore(state: Mapping[str, Any]) -> Pipeline:
  """The pipeline whose `state()` this is."""
  return Pipeline(
      state['version'],
      state['next_number'],
      dict(state['running']),
      dict(state['done']),
  )


def vacancies(pipeline: Pipeline, *, depth: int, per_batch: int) -> int:
  """The number of groups that may be admitted now.

  Args:
    pipeline: at any moment.
    depth: batches ahead, D.
    per_batch: groups of a batch, B.
  """
  return (depth + 1) * per_batch - len(pipeline.unconsumed)


def admit(pipeline: Pipeline, count: int) -> Pipeline:
  """With `count` more groups running, at the present version."""
  first, end = pipeline.next_number, pipeline.next_number + count
  new = dict.fromkeys(range(first, end), pipeline.version)
  return dataclasses.replace(
      pipeline, next_number=end, running={**pipeline.running, **new}
  )


def finish(pipeline: Pipeline, number: int) -> Pipeline:
  """With a group that has ended.

  Raises:
    KeyError: it is not running.
  """
  running = dict(pipeline.running)
  done = {**pipeline.done, number: running.pop(number)}
  return dataclasses.replace(pipeline, running=running, done=done)


def release(pipeline: Pipeline, number: int) -> Pipeline:
  """Without a finished group that leaves besides the next batch's.

  Raises:
    KeyError: it is not finished.
  """
  done = dict(pipeline.done)
  del done[number]
  return dataclasses.replace(pipeline, done=done)


def ready(
    pipeline: Pipeline, *, bound: int, per_batch: int
) -> tuple[int, ...] | None:
  """The groups of the next batch, ascending; None: it has to wait.

  Args:
    pipeline: at any moment.
    bound: versions that a group may be old, S; at least the depth.
    per_batch: groups of a batch, B.
  """
  if len(pipeline.done) < per_batch:
    return None
  admitted = collections.Counter(pipeline.unconsumed.values())
  chosen: list[int] = []
  # By version at admission, and so by deadline.
  counts = itertools.accumulate(admitted[s] for s in sorted(admitted))
  for start, count in zip(sorted(admitted), counts, strict=True):
    quota = count - (start + bound - pipeline.version) * per_batch
    due = [n for n, s in sorted(pipeline.done.items()) if s <= start]
    if len(due) < quota:
      return None
    missing = max(quota - len(chosen), 0)
    chosen += [n for n in due if n not in chosen][:missing]
  rest = [n for n in sorted(pipeline.done) if n not in chosen]
  return tuple(sorted(chosen + rest[: per_batch - len(chosen)]))


def consume(pipeline: Pipeline, chosen: Collection[int]) -> Pipeline:
  """Without the groups of a batch, at the next version.

  Raises:
    KeyError: one of them is not finished.
  """
  done = dict(pipeline.done)
  for number in chosen:
    del done[number]
  return dataclasses.replace(pipeline, version=pipeline.version + 1, done=done)
