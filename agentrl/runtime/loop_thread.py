"""An event loop in a thread of its own, for callers in other threads."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar('T')
_JOIN_S = 5.0


class LoopThread:
  """A loop that runs until `close`, as `loop`."""

  def __init__(self, name: str):
    self.loop = asyncio.new_event_loop()
    self._thread = threading.Thread(
        target=self.loop.run_forever, name=name, daemon=True
    )
    self._thread.start()

  def submit(
      self, coroutine: Coroutine[Any, Any, T]
  ) -> concurrent.futures.Future[T]:
    """The future of a coroutine, which the loop runs."""
    return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

  def close(self) -> None:
    """Stops the loop, and waits for its thread."""
    self.loop.call_soon_threadsafe(self.loop.stop)
    self._thread.join(_JOIN_S)
