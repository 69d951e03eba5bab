"""Iterator over tasks, resumable in the middle of an epoch."""

import json
import random
import zlib
from collections.abc import Mapping, Sequence

from agentrl.errors import DataError


class TaskIterator:
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

  def next_tasks(self, count: int) -> list[tuple[int, int]]:
    """Gives the next `count` tasks as (ordinal, task id).

    The ordinal counts tasks since the start of the run, over all epochs, so it
    is different for two visits to one task.
    """
    tasks = []
    for _ in range(count):
      if self._cursor == len(self._order):
        self._epoch += 1
        self._cursor = 0
        self._order = self._order_of(self._epoch)
      ordinal = self._epoch * len(self._order) + self._cursor
      tasks.append((ordinal, self._order[self._cursor]))
      self._cursor += 1
    return tasks

  def state(self) -> dict[str, int]:
    """The state for `restore`, in plain integers."""
    state = {
        'epoch': self._epoch,
        'cursor': self._cursor,
        'tasks_crc': self._tasks_crc(),
    }
    if self._data_version != 1:  # checkpoints of the first one are older
      state['data_version'] = self._data_version
    return state

  def restore(self, state: Mapping[str, int]) -> None:
    """Goes to where `state()` was taken.

    Raises:
      DataError: the state was taken with other tasks or another seed, for which
        its cursor means nothing.
    """
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
