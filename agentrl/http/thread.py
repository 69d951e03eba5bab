"""A thread that serves an application."""

import asyncio
import concurrent.futures
import threading

from absl import logging
from aiohttp import web

# Binding a port takes milliseconds; ending the open connections a little more.
_SERVER_S = 30.0
_SHUTDOWN_S = 2.0


class HttpThread:
  """Serves an application in a thread of its own; is started once."""

  def __init__(self, app: web.Application):
    self._app = app
    self._loop: asyncio.AbstractEventLoop | None = None
    self._thread: threading.Thread | None = None

  def start(self, host: str, port: int) -> int:
    """Listens; returns the port, a free one for 0.

    Raises:
      OSError: the port cannot be bound.
      OverflowError: the port is out of range.
    """
    bound: concurrent.futures.Future[int] = concurrent.futures.Future()
    thread = self._thread = threading.Thread(
        target=self._serve,
        args=(host, port, bound),
        name='http',
        daemon=True,
    )
    thread.start()
    try:
      return bound.result(_SERVER_S)
    except (OSError, OverflowError):
      thread.join(_SERVER_S)
      raise

  def stop(self) -> None:
    """Ends open connections and the thread."""
    thread, loop = self._thread, self._loop
    assert thread is not None and loop is not None  # it was started
    if thread.is_alive():
      loop.call_soon_threadsafe(loop.stop)
    thread.join(_SERVER_S)
    if thread.is_alive():
      logging.error('An HTTP thread did not end; leaving it.')

  def _serve(
      self, host: str, port: int, bound: concurrent.futures.Future[int]
  ) -> None:
    # A client that goes away cancels its handler, which aborts its requests.
    served = web.AppRunner(
        self._app,
        handler_cancellation=True,
        shutdown_timeout=_SHUTDOWN_S,
        access_log=None,
        auto_decompress=False,  # as SGLang, which looks at no encoding
    )

    async def listen() -> int:
      await served.setup()
      site = web.TCPSite(served, host, port, backlog=1024)
      await site.start()
      return served.addresses[0][1]

    # Its end also cancels what outlives the server: aiohttp reads on what a
    # client sends of a body that was refused, for up to ten seconds.
    with asyncio.Runner() as runner:
      loop = self._loop = runner.get_loop()
      try:
        try:
          bound.set_result(runner.run(listen()))
        except (OSError, OverflowError) as error:  # in use, or no port at all
          bound.set_exception(error)
        else:
          loop.run_forever()
      finally:
        runner.run(served.cleanup())
