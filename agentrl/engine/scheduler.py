"""The engine's thread: all work on device and cache happens in it.

Requests come in through a queue and control (abort, pause, new weights) as
functions that the thread runs between two dispatches. So a weight swap lands
between two decode steps by construction, and only the inbox needs a lock.
"""

import collections
import concurrent.futures
import functools
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from absl import logging

from agentrl.engine.core import EngineCore
from agentrl.engine.request import Request, Result
from agentrl.engine.sequence import Sequence
from agentrl.errors import EngineError
from agentrl.text.tokenizer import Tokenizer

T = TypeVar('T')

# A first dispatch compiles, which may take this long for a large model.
_JOIN_S = 60.0
# A wave of requests comes through HTTP one after the other, some milliseconds
# apart at most. Seconds that an idle engine waits for the next one, and in all.
_GATHER_S, _MAX_GATHER_S = 0.002, 0.02


class Scheduler:
  """Runs an `EngineCore` in a thread. Public methods are thread-safe.

  Attributes:
    core: its methods run in the thread, through `call`; its attributes may
      be read from others.
  """

  def __init__(
      self,
      core: EngineCore,
      *,
      max_queued: int,
      eos_ids: tuple[int, ...],
      tokenizer: Tokenizer | None,
      seed: int,
      observe: Callable[[Result], None] = lambda result: None,
  ):
    """Makes the thread; `start` starts it.

    Args:
      core: owned by the thread from now on.
      max_queued: requests that may wait; more are refused.
      eos_ids: ids that end every request that does not ignore them.
      tokenizer: for stop strings and the text of results; None gives neither.
      seed: of the seeds drawn for requests without one.
      observe: called with every result; must not raise.
    """
    self.core = core
    self._observe = observe
    self._max_queued = max_queued
    self._eos_ids = eos_ids
    self._tokenizer = tokenizer
    self._rng = np.random.default_rng(seed)
    self._wake = threading.Condition()
    # These five are guarded by `_wake`.
    self._arrivals: collections.deque[Sequence] = collections.deque()
    self._commands: collections.deque[
        tuple[Callable[[], Any], concurrent.futures.Future]
    ] = collections.deque()
    self._stopping = False
    self._warming = False
    self._closed: str | None = None  # why nothing is accepted any more
    self._thread = threading.Thread(
        target=self._run, name='engine-scheduler', daemon=True
    )

  def start(self) -> None:
    """Starts the thread."""
    self._thread.start()

  def stop(self) -> None:
    """Ends the thread; unfinished requests end as aborted with status 503."""
    with self._wake:
      self._stopping = True
      self._wake.notify()
    if self._thread.ident is None:  # never started
      self._close()
      return
    self._thread.join(_JOIN_S)
    if self._thread.is_alive():
      logging.error(
          'A dispatch of the engine did not end within %g s; leaving it.',
          _JOIN_S,
      )

  @property
  def healthy(self) -> bool:
    """True if requests are accepted and served at once."""
    alive = self._closed is None and self._thread.is_alive()
    return alive and not self._warming

  def stats(self) -> dict[str, Any]:
    """Load figures, read between or during dispatches: about right."""
    stats = self.core.batcher.stats()
    stats['num_waiting_reqs'] += len(self._arrivals)
    return stats

  def submit(
      self,
      request: Request,
      listener: Callable[[Result], None] | None = None,
  ) -> concurrent.futures.Future[Result]:
    """Queues a request.

    Args:
      request: checked by the caller.
      listener: called in the thread with the result so far, after each dispatch
        that does not end the request; must not block or raise.

    Returns:
      A future of its result. Aborted and failed requests have a result too;
      their `finish_reason` says so.

    Raises:
      EngineError: the queue is full, or the engine has stopped.
    """
    with self._wake:
      self._check_open()
      self._check_room(1)
      seed = request.params.sampling_seed
      if seed is None:
        seed = int(self._rng.integers(2**32))
      sequence = Sequence(
          request,
          seed=seed,
          eos_ids=self._eos_ids,
          tokenizer=self._tokenizer,
          listener=listener,
      )
      sequence.future.add_done_callback(
          lambda done: done.cancelled() or self._observe(done.result())
      )
      self._arrivals.append(sequence)
      self._wake.notify()
    return sequence.future

  def check_room(self, count: int) -> None:
    """Raises unless so many requests may be submitted at once.

    Raises:
      ValueError: they never fit.
      EngineError: the queue is too full, or the engine has stopped.
    """
    if count > self._max_queued:
      raise ValueError(
          f'{count} requests at once, and max_queued is {self._max_queued};'
          ' send fewer at a time.'
      )
    with self._wake:
      self._check_open()
      self._check_room(count)

  def _check_room(self, count: int) -> None:
    waiting = len(self._arrivals) + len(self.core.sequences.waiting)
    if waiting + count > self._max_queued:
      raise EngineError(
          f'{waiting} requests wait, and max_queued is {self._max_queued};'
          ' try again later.'
      )

  def call(
      self, function: Callable[..., T], *args: Any, **kwargs: Any
  ) -> concurrent.futures.Future[T]:
    """Runs `function(core, ...)` in the thread, between two dispatches.

    Raises:
      EngineError: the engine has stopped.
    """
    future: concurrent.futures.Future[T] = concurrent.futures.Future()
    with self._wake:
      self._check_open()
      run = functools.partial(function, self.core, *args, **kwargs)
      self._commands.append((run, future))
      self._wake.notify()
    return future

  def _check_open(self) -> None:
    if self._closed is not None or self._stopping:
      raise EngineError(
          f'The engine has stopped: {self._closed or "it is shutting down"}.'
      )

  def warm_up(self) -> concurrent.futures.Future[None]:
    """Compiles what requests of usual sizes need.

    The engine is not healthy until it has ended; requests wait. A stop ends it
    early.
    """

    def run(core: EngineCore) -> None:
      try:
        core.model_runner.warm_up(lambda: self._stopping)
      finally:
        self._warming = False

    self._warming = True
    return self.call(run)

  def _run(self) -> None:
    while True:
      with self._wake:
        self._wake.wait_for(
            lambda: self._arrivals or self._interrupted() or self.core.has_work
        )
        if self._stopping:
          break
        if not self.core.sequences.running:
          self._gather_wave()
        self._receive()
        commands = list(self._commands)
        self._commands.clear()
      for function, future in commands:
        _settle(function, future)
      if not self.core.has_work:
        continue
      try:
        self.core.batcher.step(self._interrupted, self._receive)
      except Exception as error:  # whatever it was, clients wait for replies
        logging.exception('A dispatch failed; its requests fail with it.')
        try:
          self.core.recover(f'The engine failed: {error!r}')
        except Exception as again:  # out of memory, or the device is gone
          logging.exception('The cache cannot be rebuilt; the engine ends.')
          with self._wake:
            self._closed = f'{error!r}, then {again!r}'
          break
    self._close()

  def _gather_wave(self) -> None:
    """Waits until arrivals pause, with `_wake` held.

    The first of a wave would be filled alone, and cost as much as all of them.
    """
    deadline = time.monotonic() + _MAX_GATHER_S
    before = 0
    while (
        before < len(self._arrivals)
        and not self._interrupted()
        and time.monotonic() < deadline
    ):
      before = len(self._arrivals)
      self._wake.wait(_GATHER_S)

  def _receive(self) -> None:
    with self._wake:
      while self._arrivals:
        self.core.sequences.add(self._arrivals.popleft())

  def _interrupted(self) -> bool:
    """True if the thread has to stop or to run a command before it goes on."""
    return bool(self._stopping or self._commands)

  def _close(self) -> None:
    """Answers unfinished requests and commands, so that no caller hangs."""
    with self._wake:
      self._closed = self._closed or 'it was told to'
      self._receive()
      commands = list(self._commands)
      self._commands.clear()
    message = f'The engine has stopped: {self._closed}.'
    self.core.close(message)
    for _, future in commands:
      if future.set_running_or_notify_cancel():
        future.set_exception(EngineError(message))


def _settle(
    function: Callable[[], Any], future: concurrent.futures.Future
) -> None:
  if not future.set_running_or_notify_cancel():
    return
  try:
    future.set_result(function())
  except Exception as error:  # raised where the future is awaited
    future.set_exception(error)
