"""Tests for agentrl.engine.http.read_write_lock."""

import asyncio

from agentrl.engine.http.read_write_lock import ReadWriteLock


def test_a_writer_waits_for_readers_and_holds_new_ones_back():
  events = []

  async def read(lock, name, leave):
    async with lock.reading():
      events.append(name)
      await leave.wait()
    events.append(f'{name} left')

  async def write(lock, name):
    async with lock.writing():
      assert lock.closed
      events.append(name)
      await asyncio.sleep(0)

  async def main():
    lock, leave = ReadWriteLock(), asyncio.Event()
    tasks = []
    for call in (
        read(lock, 'r1', leave),
        read(lock, 'r2', leave),
        write(lock, 'w1'),
        read(lock, 'r3', leave),
        write(lock, 'w2'),
    ):
      tasks.append(asyncio.create_task(call))
      await asyncio.sleep(0.01)
    assert events == ['r1', 'r2'] and lock.closed
    leave.set()
    await asyncio.gather(*tasks)
    assert not lock.closed

  asyncio.run(asyncio.wait_for(main(), 60))
  assert events[4] == 'w1' and sorted(events[2:4]) == ['r1 left', 'r2 left']
  assert set(events[5:]) == {'r3', 'r3 left', 'w2'}


def test_a_failure_releases_the_lock():
  async def main():
    lock = ReadWriteLock()
    for enter in (lock.reading, lock.writing, lock.reading):
      try:
        async with enter():
          raise KeyError
      except KeyError:
        pass
    return lock.closed

  assert not asyncio.run(asyncio.wait_for(main(), 60))
