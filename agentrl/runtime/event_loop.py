"""The event loop of a run: one HTTP session, and the stop signal."""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import aiohttp
from absl import logging

from agentrl.runtime import connections

T = TypeVar('T')
# For the connector of a session, below the 5 s after which an SGLang server hangs
# up: a request on a connection that it closed meanwhile would fail.
KEEP_ALIVE_S = 4.0
# Until a signal that was lost is there again: by then what lost it is over.
_AGAIN_S = 0.05


class Interrupted(Exception):
  """The user asked to stop (Ctrl-C, SIGTERM, a closed terminal).

  Its text is the signal's name, where this process got it.
  """


class EventLoop:
  """The event loop of a run, with one HTTP session and the stop signal.

  Between its calls the loop stands still, and with it the tasks that an earlier
  one has left: rollouts and updates take turns, unless an update is made
  `beside` them. The first signal cancels what `run` is doing, or is noticed at
  its next call; a second one ends the process the hard way.
  """

  def __init__(self) -> None:
    self.interrupted = False
    self.asked = ''  # the name of the first signal
    self._runner = asyncio.Runner()
    self._task: asyncio.Task | None = None
    self._thread = ThreadPoolExecutor(1, thread_name_prefix='beside')
    self._old_handlers = {
        number: signal.signal(number, self._on_signal)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        # nohup has this one ignored, and it stays so. SIGINT is ignored in what
        # a shell starts in the background, where a user still sends it by kill.
        if number != signal.SIGHUP
        or signal.getsignal(number) is not signal.SIG_IGN
    }
    self._old_hook, sys.unraisablehook = sys.unraisablehook, self._on_lost
    self.session: aiohttp.ClientSession = self.run(self._open())

  def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end.

    Raises:
      Interrupted: a signal came, now or before.
    """
    try:
      self.check()
    except Interrupted:
      coroutine.close()
      raise
    try:
      return self._runner.run(self._watch(coroutine))
    except asyncio.CancelledError:
      if self.interrupted:
        raise Interrupted(self.asked) from None
      raise
    finally:
      self._task = None

  def start(self, coroutine: Coroutine[Any, Any, T]) -> 'asyncio.Task[T]':
    """A task that goes on whenever the loop runs."""
    return self._runner.get_loop().create_task(coroutine)

  def beside(self, work: Callable[[], T]) -> T:
    """The result of `work`, done in a thread while the loop's tasks go on.

    It is always the same thread. A signal does not end the work: it is noticed
    at the next call of `run`.
    """

    async def wait() -> T:
      loop = asyncio.get_running_loop()
      return await loop.run_in_executor(self._thread, work)

    return self._runner.run(wait())

  def cancel(self, tasks: Iterable[asyncio.Task]) -> None:
    """Ends tasks that earlier calls have left, also after a signal."""
    tasks = [task for task in tasks if task.cancel()]
    if tasks:
      self._runner.run(_ended(tasks))

  def check(self) -> None:
    """Raises Interrupted if a signal came."""
    if self.interrupted:
      raise Interrupted(self.asked)

  def close(self) -> None:
    for number, handler in self._old_handlers.items():
      signal.signal(number, handler)
    sys.unraisablehook = self._old_hook
    self._runner.run(self.session.close())
    self._runner.close()
    self._thread.shutdown()

  def __enter__(self) -> 'EventLoop':
    return self

  def __exit__(self, *exc_info) -> None:
    self.close()

  async def _open(self) -> aiohttp.ClientSession:
    connector = connections.connector(
        limit=0,  # rollout.concurrency decides how many requests run
        keepalive_timeout=KEEP_ALIVE_S,
    )
    return aiohttp.ClientSession(connector=connector)

  async def _watch(self, coroutine: Coroutine[Any, Any, T]) -> T:
    self._task = asyncio.current_task()
    return await coroutine

  def _on_signal(self, number, frame) -> None:
    del frame
    name = signal.Signals(number).name
    if self.interrupted:
      if number == signal.SIGHUP:  # kernel and shell each send one
        return
      raise KeyboardInterrupt(f'{name}, after {self.asked or "a signal"}')
    self.interrupted, self.asked = True, name
    logging.warning('Stopping after %s; once more ends it at once.', name)
    task = self._task
    if task is not None:
      task.get_loop().call_soon_threadsafe(task.cancel)

  def _on_lost(self, lost: 'sys.UnraisableHookArgs') -> None:
    """Sends a second signal again that nothing could be told of.

    Python drops what is raised in a destructor or in the callback of a weak
    reference, and a run that frees its arrays spends its time in these.
    """
    if not isinstance(lost.exc_value, KeyboardInterrupt):
      self._old_hook(lost)
      return
    name = str(lost.exc_value).partition(',')[0]
    number = signal.Signals.__members__.get(name, signal.SIGINT)
    # To the thread that runs the handlers: it may be waiting for something.
    to = threading.main_thread().ident
    threading.Timer(_AGAIN_S, signal.pthread_kill, [to, number]).start()


async def _ended(tasks: Sequence[asyncio.Task]) -> None:
  """Returns once all have ended, whatever they raise."""
  await asyncio.gather(*tasks, return_exceptions=True)
