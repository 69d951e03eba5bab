"""A read-write lock for the weights."""

import asyncio
import contextlib


class ReadWriteLock:
  """Many readers or one writer; a waiting writer holds new readers back.

  Generations read, an update of the weights writes: SGLang's lock.
  """

  def __init__(self):
    self._readers = 0
    self._writing = False
    self._changed = asyncio.Condition()

  @property
  def closed(self) -> bool:
    """True while a writer waits or writes."""
    return self._writing

  @contextlib.asynccontextmanager
  async def reading(self):
    async with self._changed:
      await self._changed.wait_for(lambda: not self._writing)
      self._readers += 1
    try:
      yield
    finally:
      async with self._changed:
        self._readers -= 1
        self._changed.notify_all()

  @contextlib.asynccontextmanager
  async def writing(self):
    async with self._changed:
      await self._changed.wait_for(lambda: not self._writing)
      self._writing = True
    try:
      async with self._changed:
        await self._changed.wait_for(lambda: not self._readers)
      yield
    finally:
      async with self._changed:
        self._writing = False
        self._changed.notify_all()
