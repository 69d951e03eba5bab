"""Tests for agentrl.engine.http.submissions."""

import asyncio
import threading

import pytest

from agentrl.engine.http.read_write_lock import ReadWriteLock
from agentrl.engine.http.submissions import Submissions
from agentrl.engine.request import Request, SamplingParams
from tests.waiting import until


def test_a_reader_that_stops_holds_no_update_up(engine):
  request = Request('r', (1,), SamplingParams(max_new_tokens=240))

  async def main():
    lock = ReadWriteLock()
    results = Submissions(engine._scheduler, lock).follow([request])
    await anext(results)
    async with asyncio.timeout(300), lock.writing():
      pass  # nobody has read the end
    rest = [result async for _, result in results]
    return rest[-1].finish_reason['type']

  assert asyncio.run(main()) == 'length'


def test_a_name_stays_taken_until_the_device_is_done_with_it(engine):
  request = Request('r', (1,), SamplingParams(max_new_tokens=2))

  async def main():
    lock, busy = ReadWriteLock(), threading.Event()
    submissions = Submissions(engine._scheduler, lock)

    async def leave():
      client = asyncio.ensure_future(submissions.finish([request]))
      await asyncio.sleep(0.02)
      client.cancel()
      await asyncio.wait([client])

    async with lock.writing():
      await leave()  # it never reached the device
    engine._scheduler.call(lambda _: busy.wait())
    try:
      await leave()
      with pytest.raises(ValueError, match='Duplicate request ID detected: r'):
        await submissions.finish([request])
    finally:
      busy.set()
    await asyncio.wrap_future(engine._scheduler.call(lambda _: None))
    await until(lambda: not engine.stats()['num_running_reqs'])
    (result,) = await submissions.finish([request])
    return result.finish_reason['type']

  assert asyncio.run(asyncio.wait_for(main(), 300)) == 'length'
