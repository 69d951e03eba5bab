"""Submission of the requests of an HTTP call."""

import asyncio
import concurrent.futures
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

from agentrl.engine.core import EngineCore
from agentrl.engine.http.read_write_lock import ReadWriteLock
from agentrl.engine.request import Request, Result
from agentrl.engine.scheduler import Scheduler
from agentrl.errors import EngineError


class Submissions:
  """Runs requests under the read lock of the weights.

  When the client disconnects, its requests are aborted: nobody reads the rest,
  so they must not go on using the device.
  """

  def __init__(self, scheduler: Scheduler, weights_lock: ReadWriteLock):
    self._scheduler = scheduler
    self._weights_lock = weights_lock
    self._releases: set[asyncio.Task] = set()  # or they would be collected
    self._live: set[str] = set()  # ids of requests that have not ended

  async def finish(self, requests: Sequence[Request]) -> list[Result]:
    """The results, in order.

    Raises:
      ValueError: an id is that of a request that has not ended, or there are
        more than ever fit into the queue.
      EngineError: the queue is full, or the engine has stopped.
    """
    with self._claimed(requests) as submit:
      async with self._weights_lock.reading():
        self._scheduler.check_room(len(requests))
        futures = []
        try:
          for item in requests:
            futures.append(submit(item))
          # Shielded, so that a request whose client leaves ends as aborted.
          return await asyncio.gather(
              *(asyncio.shield(asyncio.wrap_future(f)) for f in futures)
          )
        except BaseException:
          self._abandon(requests[: len(futures)])
          raise

  async def follow(
      self, requests: Sequence[Request]
  ) -> AsyncGenerator[tuple[int, Result], None]:
    """Yields the results as they grow, each with the index of its request.

    The last of a request has a finish reason. A slow reader gets fewer,
    longer steps and never a backlog. Close the generator when it is not read to
    its end (`contextlib.aclosing`).

    Raises:
      ValueError: an id is that of a request that has not ended, or there are
        more than ever fit into the queue.
      EngineError: the queue is full, or the engine has stopped.
    """
    with self._claimed(requests) as submit:
      loop = asyncio.get_running_loop()
      newest: dict[int, Result] = {}
      news = asyncio.Event()

      def tell(index: int, result: Result) -> None:
        newest[index] = result
        news.set()

      def listen(index: int):
        def listener(result: Result) -> None:  # in the scheduler's thread
          with contextlib.suppress(RuntimeError):  # the loop has closed
            loop.call_soon_threadsafe(tell, index, result)

        return listener

      def add(index: int, item: Request) -> concurrent.futures.Future[Result]:
        listener = listen(index)
        future = submit(item, listener)
        future.add_done_callback(lambda done: listener(done.result()))
        return future

      held = contextlib.AsyncExitStack()
      await held.enter_async_context(self._weights_lock.reading())
      futures, running = [], len(requests)
      try:
        try:
          self._scheduler.check_room(running)
          for index, item in enumerate(requests):
            futures.append(add(index, item))
        finally:
          self._release_after(futures, held)
        while running:
          await news.wait()
          news.clear()
          for index in sorted(newest):
            result = newest.pop(index)
            running -= result.finish_reason is not None
            yield index, result
      finally:
        if running:
          self._abandon(requests[: len(futures)])

  @contextlib.contextmanager
  def _claimed(
      self, requests: Sequence[Request]
  ) -> Iterator[Callable[..., concurrent.futures.Future[Result]]]:
    """Yields `Scheduler.submit` for requests of unique ids.

    An abort names requests by id, so one id must not mean two. Ids are taken
    until their requests have ended on the device, whether or not their client
    still waits; those of requests that were never submitted, until here.
    """
    rids = set()
    for item in requests:
      if item.rid in self._live or item.rid in rids:
        raise ValueError(
            f'Duplicate request ID detected: {item.rid}; give each request an'
            ' rid of its own, or none.'
        )
      rids.add(item.rid)
    self._live |= rids

    def submit(item: Request, *args) -> concurrent.futures.Future[Result]:
      future = self._scheduler.submit(item, *args)
      rids.discard(item.rid)
      # In the scheduler's thread; one step of a set is atomic.
      future.add_done_callback(lambda _: self._live.discard(item.rid))
      return future

    try:
      yield submit
    finally:
      self._live -= rids

  def _release_after(self, futures, held: contextlib.AsyncExitStack) -> None:
    """Releases the lock when the device is done, however slowly a client reads.

    A client that stops reading must not hold the next weights up.
    """

    async def release() -> None:
      await asyncio.gather(*map(asyncio.wrap_future, futures))
      await held.aclose()

    task = asyncio.create_task(release())
    self._releases.add(task)
    task.add_done_callback(self._releases.discard)

  def _abandon(self, requests: Sequence[Request]) -> None:
    with contextlib.suppress(EngineError):  # it has stopped: all are aborted
      self._scheduler.call(EngineCore.abandon, requests)
