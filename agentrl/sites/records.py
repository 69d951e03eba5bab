"""The records of all sites, and the tasks that are made from them."""

import sqlite3
import threading
from collections.abc import Mapping

from agentrl.sites import table
from agentrl.sites.forge.seed import store as forge
from agentrl.sites.forum.seed import store as forum
from agentrl.sites.shop.seed import store as shop
from agentrl.sites.store import Store
from agentrl.sites.task import Task

_STORES = {'shop': shop, 'forum': forum, 'forge': forge}


def build_stores(*, injected: bool = False) -> Mapping[str, Store]:
  """The records that episodes begin with.

  Args:
    injected: whether strangers have left instructions in them.
  """
  return {
      name: Store.build(
          name,
          module.SCHEMA,
          fill=module.fill,
          **({'inject': module.inject} if injected else {}),
      )
      for name, module in _STORES.items()
  }


class Records:
  """Stores and tasks, each made when first asked for; from any thread."""

  def __init__(self):
    self._lock = threading.RLock()
    self._stores: dict[bool, Mapping[str, Store]] = {}
    self._copies: dict[bool, Mapping[str, sqlite3.Connection]] = {}
    self._tasks: dict[int, Task] = {}

  def stores(self, task_id: int) -> Mapping[str, Store]:
    """The records that a task's episodes begin with, by name."""
    injected = table.is_injected(task_id)
    with self._lock:
      if injected not in self._stores:
        self._stores[injected] = build_stores(injected=injected)
      return self._stores[injected]

  def task(self, task_id: int) -> Task:
    """A task.

    Raises:
      EnvError: there is no such task.
    """
    _, template, number = table.find(task_id)
    with self._lock:
      if task_id not in self._tasks:
        injected = table.is_injected(task_id)
        if injected not in self._copies:
          self._copies[injected] = {
              name: store.copy() for name, store in self.stores(task_id).items()
          }
        copies = self._copies[injected]
        self._tasks[task_id] = template.make(copies, number)
      return self._tasks[task_id]
