"""Orders of tasks, resumable in the middle of an epoch."""

import bisect
import itertools
import json
import random
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentrl.errors import DataError

# The metric that decides when a stage of tasks ends.
SUCCESS = 'rollout/success'
# The stage that the tasks of a collection were drawn in, the first of several.
STAGE = 'rollout/task_stage'


class Tasks(Protocol):
  """An order of tasks."""

  def next_tasks(self, count: int) -> list[tuple[int, int]]:
    """Gives the next `count` tasks as (ordinal, task id).

    The ordinal counts tasks since the start of the run, over all epochs, so it
    is different for two visits to one task.
    """

  def see(self, stats: Mapping[str, float]) -> None:
    """Takes the metrics of the last step that trained on its tasks."""

  def metrics(self, ordinals: Sequence[int]) -> dict[str, float]:
    """Metrics of these tasks' place in the order, such as their stage."""

  def state(self) -> dict[str, Any]:
    """The state for `restore`; JSON values."""

  def restore(self, state: Mapping[str, Any]) -> None:
    """Goes to where `state()` was taken.

    Raises:
      DataError: the state was taken with other tasks or another seed, for which
        its cursor means nothing.
    """


class TaskIterator(Tasks):
  """Walks through a fixed list of tasks, shuffled anew in every epoch.

  The order is a function of (task list, seed) alone. The state is two numbers,
  so a checkpoint stores it and a resumed run goes on as if nothing had
  happened.
  """

  def __init__(
      self, task_ids: Sequence[int], *, seed: int, data_version: int = 1
  ):
    """Starts at the first task of the first epoch.

    Args:
      task_ids: the tasks, distinct.
      seed: of the order.
      data_version: which meaning the ids have, see `EnvSpec.data_version`.

    Raises:
      DataError: no task, or one of them twice.
    """
    if not task_ids:
      raise DataError('The task list is empty.')
    if len(set(task_ids)) != len(task_ids):
      raise DataError(
          f'The task list names {len(task_ids) - len(set(task_ids))} of its'
          f' {len(task_ids)} tasks twice.'
      )
    self._task_ids = tuple(task_ids)
    self._seed = seed
    self._data_version = data_version
    self._epoch = 0
    self._cursor = 0
    self._order = self._order_of(0)

  def next_tasks(self, count):
    tasks = []
    for _ in range(count):
      if self._cursor == len(self._order):
        self._epoch += 1
        self._cursor = 0
        self._order = self._order_of(self._epoch)
      tasks.append((self.drawn, self._order[self._cursor]))
      self._cursor += 1
    return tasks

  def see(self, stats):
    del stats

  def metrics(self, ordinals):
    del ordinals
    return {}

  @property
  def drawn(self) -> int:
    """Tasks since the start of the run."""
    return self._epoch * len(self._order) + self._cursor

  def state(self):
    state = {
        'epoch': self._epoch,
        'cursor': self._cursor,
        'tasks_crc': self._tasks_crc(),
    }
    if self._data_version != 1:  # checkpoints of the first one are older
      state['data_version'] = self._data_version
    return state

  def restore(self, state):
    if 'tasks_crc' not in state:
      raise DataError(
          'The checkpoint was written with another tasks.order than this config'
          ' has; restore it or start in a new workdir.'
      )
    taken = state.get('data_version', 1)
    if taken != self._data_version:
      raise DataError(
          f'The checkpoint was written with data_version {taken} of its'
          f' environment, which now has {self._data_version}: the same ids mean'
          ' other tasks. Start in a new workdir, or continue with the agentrl'
          ' that wrote it.'
      )
    if state['tasks_crc'] != self._tasks_crc():
      raise DataError(
          'The checkpoint was written with another task list or seed than'
          ' this config has; restore them or start in a new workdir.'
      )
    self._epoch = state['epoch']
    self._cursor = state['cursor']
    self._order = self._order_of(self._epoch)

  def _order_of(self, epoch: int) -> tuple[int, ...]:
    order = list(self._task_ids)
    # Seeded by text: hashed with SHA-512, the same on every Python and machine.
    random.Random(f'{self._seed}/{epoch}').shuffle(order)
    return tuple(order)

  def _tasks_crc(self) -> int:
    # True stands for shuffling, which checkpoints of older runs name.
    settings = [self._task_ids, self._seed, True]
    return zlib.crc32(json.dumps(settings).encode())


class StagedTasks(Tasks):
  """Stages of tasks: the next one's join once those before are mastered.

  In stage k the tasks of the first k stages are walked through together, so that
  what was learnt is not forgotten. Each stage has a shuffled order of its own.
  """

  def __init__(
      self,
      stages: Sequence[Sequence[int]],
      *,
      seed: int,
      threshold: float,
      window: int,
      data_version: int = 1,
  ):
    """Starts in the first stage.

    Args:
      stages: the tasks that each adds, distinct.
      seed: of the order.
      threshold: a stage ends once the mean success of its last steps reaches it.
      window: steps of that mean.
      data_version: see `TaskIterator`.

    Raises:
      DataError: a stage adds no task, or one that is there.
    """
    self._iterators = []
    tasks: list[int] = []
    for stage in stages:
      if not stage:
        raise DataError('A stage adds no task.')
      tasks = [*tasks, *stage]
      self._iterators.append(
          TaskIterator(tasks, seed=seed, data_version=data_version)
      )
    self._threshold, self._window = threshold, window
    self._stage, self._drawn = 0, 0
    self._seen: list[float] = []

  def next_tasks(self, count):
    drawn = self._iterators[self._stage].next_tasks(count)
    first, self._drawn = self._drawn, self._drawn + count
    return [(first + i, task_id) for i, (_, task_id) in enumerate(drawn)]

  def see(self, stats):
    success = stats.get(SUCCESS)
    # A run that plays ahead trains on tasks of the stage before for a while.
    if success is None or stats.get(STAGE, self._stage) != self._stage:
      return
    seen = self._seen = [*self._seen, success][-self._window :]
    if len(seen) == self._window and sum(seen) >= self._threshold * len(seen):
      last = len(self._iterators) - 1
      self._stage, self._seen = min(self._stage + 1, last), []

  def metrics(self, ordinals):
    # Tasks drawn in the first stage, in the first two, and so on.
    ends = list(itertools.accumulate(x.drawn for x in self._iterators))
    stages = [bisect.bisect_right(ends, ordinal) for ordinal in ordinals]
    # Ordinals of another run's record lie beyond what this one has drawn.
    return {STAGE: float(min([*stages, self._stage]))}

  def state(self):
    return {
        'stage': self._stage,
        'drawn': self._drawn,
        'seen': list(self._seen),
        'stages': [iterator.state() for iterator in self._iterators],
    }

  def restore(self, state):
    stages = state.get('stages')
    if stages is None or len(stages) != len(self._iterators):
      raise DataError(
          'The checkpoint was written with another tasks.order or other'
          ' tasks.stages than this config has; restore them or start in a new'
          ' workdir.'
      )
    for iterator, one in zip(self._iterators, stages, strict=True):
      iterator.restore(one)
    self._stage, self._drawn = state['stage'], state['drawn']
    self._seen = list(state['seen'])
