"""One Chromium for all episodes of a server, driven by Playwright.

Playwright is asynchronous and bound to one thread; environments are called from
many. The browser's loop runs in a thread of its own, and `call` waits for it.
"""

import asyncio
import concurrent.futures
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from absl import logging
from playwright.async_api import (
    Browser as Process,
    BrowserContext,
    Error,
    Playwright,
    async_playwright,
)

from agentrl.envs.web import chromium
from agentrl.envs.web.hosts import Hosts
from agentrl.errors import EnvError
from agentrl.runtime.scratch import Scratch

T = TypeVar('T')
_LAUNCH_S = 60.0  # a cold start reads 200 MB
_CLOSE_S = 5.0
_FLAGS = (
    '--disable-gpu',
    '--disable-dev-shm-usage',
    '--disable-quic',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-domain-reliability',
    '--disable-sync',
    '--no-pings',
    '--no-first-run',
    # A frame of another site is read, and its clock kept, with its page. Other
    # episodes are other contexts, which share no process anyway.
    '--disable-site-isolation-trials',
    # A page's speed must not depend on what other pages do.
    '--disable-background-timer-throttling',
    '--disable-renderer-backgrounding',
    '--disable-backgrounding-occluded-windows',
)


class Browser:
  """Chromium, started when the first page is opened, and again after a crash.

  Args:
    hosts: what its pages may reach.
    executable: Chromium's; None: one that is found, see `chromium.find`.

  Raises:
    EnvError: Playwright or Chromium is missing.
  """

  def __init__(self, hosts: Hosts, executable: str | None = None):
    self._hosts = hosts
    self._executable = chromium.find(executable)
    self._loop = asyncio.new_event_loop()
    self._lock = asyncio.Lock()
    self._playwright: Playwright | None = None
    self._process: Process | None = None
    self._scratch: Scratch | None = None
    self._closed = False
    self._closing: set[asyncio.Task] = set()
    # A new page costs as much as ten steps: few at a time, so that the episodes
    # which play are not held up by those that begin.
    self.opening = asyncio.Semaphore(max(1, (os.cpu_count() or 2) // 2))
    self.restarts = 0
    # Bound and never listened on: connections to it are refused.
    self._refusing = socket.socket()
    self._refusing.bind(('127.0.0.1', 0))
    self._thread = threading.Thread(
        target=self._loop.run_forever, name='browser', daemon=True
    )
    self._thread.start()

  @property
  def contexts(self) -> int:
    """Number of contexts that are open."""
    process = self._process
    return 0 if process is None else len(process.contexts)

  def call(self, coroutine: Coroutine[Any, Any, T], timeout_s: float) -> T:
    """Runs a coroutine in the browser's thread and waits for its value.

    Raises:
      EnvError: it took too long, or the browser or the page went away.
    """
    if self._closed:
      coroutine.close()
      raise EnvError('The browser was closed.')
    future = asyncio.run_coroutine_threadsafe(
        asyncio.wait_for(coroutine, timeout_s), self._loop
    )
    try:
      return future.result()
    except concurrent.futures.CancelledError as error:
      raise EnvError('The browser was closed.') from error
    except TimeoutError as error:
      raise EnvError(
          f'The page did not answer within {timeout_s:g} s.'
      ) from error
    except Error as error:
      words = error.message.partition('\n')[0]
      raise EnvError(f'The page was lost: {words:.200}') from error

  async def open(self, **options: Any) -> BrowserContext:
    """A new isolated context; starts Chromium where it does not run.

    Args:
      **options: of Playwright's `new_context`.

    Raises:
      EnvError: Chromium does not start.
    """
    while True:
      async with self._lock:
        if self._process is None:
          await self._launch()
        process = self._process
      assert process is not None  # it was launched, if need be
      try:
        return await process.new_context(
            service_workers='block', accept_downloads=False, **options
        )
      except Error:
        if process.is_connected() and await _answers(process):
          raise
      async with self._lock:
        if self._process is process:
          logging.warning('Chromium ended; starting it again.')
          self.restarts += 1
          await self._end()

  def discard(self, context: BrowserContext) -> None:
    """Closes a context, without waiting for it; from any thread."""
    self.soon(self._discard, context)

  def soon(self, function: Callable[..., None], *args: Any) -> None:
    """Calls a function in the browser's thread, without waiting for it."""
    if not self._closed:
      self._loop.call_soon_threadsafe(function, *args)

  def close(self) -> None:
    """Ends Chromium and the thread."""
    if self._closed:
      return
    self._closed = True
    asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
    self._loop.call_soon_threadsafe(self._loop.stop)
    self._thread.join()
    self._loop.close()
    self._refusing.close()

  async def _launch(self) -> None:
    if self._playwright is None:
      if self._scratch is None:  # it is there where a start was given up
        self._scratch = Scratch('browser')
      with self._scratch.as_tmpdir():
        self._playwright = await async_playwright().start()
    try:
      self._process = await self._playwright.chromium.launch(
          executable_path=self._executable,
          chromium_sandbox=os.getuid() != 0,  # which root cannot have
          args=[*_FLAGS, *self._hosts.flags(self._refusing.getsockname()[1])],
          timeout=1000 * _LAUNCH_S,
      )
    except Error as error:
      words = ' '.join(error.message.split())
      raise EnvError(f'Chromium did not start: {words:.400}') from error

  def _discard(self, context: BrowserContext) -> None:
    task = self._loop.create_task(_close(context))
    self._closing.add(task)
    task.add_done_callback(self._closing.discard)

  async def _stop(self) -> None:
    for task in list(self._closing):
      task.cancel()
    await asyncio.gather(*self._closing, return_exceptions=True)
    await self._end()
    # Threads wait for what is still under way.
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
      task.cancel()

  async def _end(self) -> None:
    """Ends Chromium, and Playwright, which may have died before it."""
    process, self._process = self._process, None
    playwright, self._playwright = self._playwright, None
    ends: list[Callable[[], Awaitable[None]]] = []
    if process is not None:
      ends.append(process.close)
    if playwright is not None:
      ends.append(playwright.stop)
    for end in ends:
      try:
        await asyncio.wait_for(end(), _CLOSE_S)
      except Exception as error:  # Playwright has no class for a dead driver
        logging.info('Chromium did not close: %s', error)
    scratch, self._scratch = self._scratch, None
    if scratch is not None:
      await asyncio.to_thread(scratch.remove)


async def _answers(process: Process) -> bool:
  try:
    session = await asyncio.wait_for(
        process.new_browser_cdp_session(), _CLOSE_S
    )
    await session.detach()
  except (Error, TimeoutError):
    return False
  return True


async def _close(context: BrowserContext) -> None:
  try:
    await asyncio.wait_for(context.close(), _CLOSE_S)
  except (Error, TimeoutError) as error:  # it ended with its browser, say
    logging.info('A page did not close: %s', error)
