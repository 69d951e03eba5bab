"""The engine's thread: everything that touches device or cache happens here.

Requests come in through a queue and control (abort, pause, new weights) as
functions that the thread runs between two dispatches. So a weight swap lands
between two decode steps by construction, and only the inbox needs a lock.
"""

import collections
import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from absl import logging

from agentrl.engine.batcher import Batcher
from agentrl.engine.request import Request, Result
from agentrl.engine.sequence import Sequence
from agentrl.errors import EngineError
from agentrl.text.tokenizer import Tokenizer

# How a pause treats running requests: end them; put them back into the queue;
# freeze them as they are.
PAUSE_MODES = ('abort', 'retract', 'in_place')
# A first dispatch compiles, which may take this long for a large model.
_JOIN_S = 60.0
# A wave of requests comes through HTTP one after the other, some milliseconds
# apart at most. An idle engine waits for the next one so long, and so long in all.
_GATHER_S, _MAX_GATHER_S = 0.002, 0.02


class Scheduler:
  """Runs a `Batcher` in a thread. Public methods are thread-safe."""

  def __init__(
      self,
      batcher: Batcher,
      *,
      max_queued: int,
      eos_ids: tuple[int, ...],
      tokenizer: Tokenizer | None,
      seed: int,
      observe: Callable[[Result], None] = lambda result: None,
  ):
    """Makes the thread; `start` starts it.

    Args:
      batcher: belongs to the thread from now on.
      max_queued: requests that may wait; more are refused.
      eos_ids: ids that end every request that does not ignore them.
      tokenizer: for stop strings and the text of results; None gives neither.
      seed: of the seeds drawn for requests that bring none.
      observe: is given every result; must not raise.
    """
    self._batcher = batcher
    self._observe = observe
    self._max_queued = max_queued
    self._eos_ids = eos_ids
    self._tokenizer = tokenizer
    self._rng = np.random.default_rng(seed)
    self._wake = threading.Condition()
    # These six are guarded by `_wake`.
    self._arrivals: collections.deque[Sequence] = collections.deque()
    self._commands: collections.deque[
        tuple[Callable[[], Any], concurrent.futures.Future]
    ] = collections.deque()
    self._paused = False
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
    """Whether requests are accepted and served at once."""
    alive = self._closed is None and self._thread.is_alive()
    return alive and not self._warming

  @property
  def paused(self) -> bool:
    return self._paused

  @property
  def weight_version(self) -> str:
    return self._batcher.weight_version

  def stats(self) -> dict[str, Any]:
    """Load figures, read between or during dispatches: about right."""
    stats = self._batcher.stats()
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
      listener: is given what there is after each dispatch that does not end the
        request, in the thread; must not block or raise.

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
      sequence.future.add_done_callback(self._ended)
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
    waiting = len(self._arrivals) + self._batcher.num_waiting
    if waiting + count > self._max_queued:
      raise EngineError(
          f'{waiting} requests wait, and max_queued is {self._max_queued};'
          ' try again later.'
      )

  def call(self, function: Callable[[], Any]) -> concurrent.futures.Future:
    """Runs `function` in the thread, between two dispatches.

    Raises:
      EngineError: the engine has stopped.
    """
    future = concurrent.futures.Future()
    with self._wake:
      self._check_open()
      self._commands.append((function, future))
      self._wake.notify()
    return future

  def _check_open(self) -> None:
    if self._closed is not None or self._stopping:
      raise EngineError(
          f'The engine has stopped: {self._closed or "it is shutting down"}.'
      )

  def _ended(self, future: concurrent.futures.Future[Result]) -> None:
    if not future.cancelled():
      self._observe(future.result())

  def warm_up(self) -> concurrent.futures.Future[None]:
    """Compiles what requests of usual sizes need.

    The engine is not healthy until it has ended; requests wait. A stop ends it
    early.
    """

    def run() -> None:
      try:
        self._batcher.warm_up(lambda: self._stopping)
      finally:
        self._warming = False

    self._warming = True
    return self.call(run)

  def abort(self, rid: str | None) -> concurrent.futures.Future[int]:
    """Aborts requests whose id begins with `rid`, all for None; counts them."""
    return self.call(lambda: self._batcher.abort(rid))

  def abandon(
      self, requests: Iterable[Request]
  ) -> concurrent.futures.Future[int]:
    """Aborts these very requests; counts those that had not ended."""
    return self.call(lambda: self._batcher.abandon(requests))

  def pause(self, mode: str) -> concurrent.futures.Future[None]:
    """Stops decoding; see PAUSE_MODES. New requests wait for `resume`."""
    if mode not in PAUSE_MODES:
      raise ValueError(
          f'Unknown pause mode {mode!r}; known: {", ".join(PAUSE_MODES)}.'
      )

    def run() -> None:
      self._paused = True
      if mode == 'abort':
        self._batcher.abort(None)
      elif mode == 'retract':
        self._batcher.retract()

    return self.call(run)

  def resume(self) -> concurrent.futures.Future[None]:
    """Ends a pause."""

    def run() -> None:
      self._paused = False

    return self.call(run)

  def flush(self) -> concurrent.futures.Future[bool]:
    """Empties the prefix cache; False, and nothing done, if requests exist."""

    def run() -> bool:
      if self._batcher.num_running or self._batcher.num_waiting:
        return False
      self._batcher.flush()
      return True

    return self.call(run)

  def update_params(
      self, params: Any, version: str, *, flush: bool
  ) -> concurrent.futures.Future[int]:
    """Swaps the weights.

    Running requests go on with the new ones over the entries that the old
    ones computed; `Result.spans` tells which gave what.

    Args:
      params: engine layout; the engine keeps the reference, so no one else may
        donate these buffers.
      version: reported as `weight_version` from now on.
      flush: no later request may share an entry that old weights computed.

    Returns:
      A future of the number of requests that were running. It fails with
      EngineError, and the old weights stay, if the parameters do not fit.
    """
    return self.call(lambda: self._batcher.swap(params, version, flush=flush))

  def load_adapter(
      self, name: str, path: str, params: Any
  ) -> concurrent.futures.Future[None]:
    """Serves requests of an adapter's name with these weights."""
    return self.call(lambda: self._batcher.adapters.add(name, path, params))

  def unload_adapter(self, name: str) -> concurrent.futures.Future[bool]:
    """See `Batcher.unload_adapter`."""
    return self.call(lambda: self._batcher.unload_adapter(name))

  @property
  def adapters(self) -> dict[str, str]:
    """Paths of the loaded adapters by name."""
    return dict(self._batcher.adapters.paths)

  @property
  def base_params(self) -> Any:
    """The weights in use, without an adapter."""
    return self._batcher.adapters.base

  def set_version(
      self, version: str, *, abort_all: bool
  ) -> concurrent.futures.Future[None]:
    """Names the weights anew; what was sampled keeps the old name."""

    def run() -> None:
      if abort_all:
        self._batcher.abort(None)
      self._batcher.weight_version = version

    return self.call(run)

  def _run(self) -> None:
    while True:
      with self._wake:
        self._wake.wait_for(
            lambda: self._arrivals or self._interrupted() or self._has_work()
        )
        if self._stopping:
          break
        if not self._batcher.num_running:
          self._gather_wave()
        self._receive()
        commands = list(self._commands)
        self._commands.clear()
      for function, future in commands:
        _settle(function, future)
      if not self._has_work():
        continue
      try:
        self._batcher.step(self._interrupted, self._receive)
      except Exception as error:  # whatever it was, somebody waits for a reply
        logging.exception('A dispatch failed; its requests fail with it.')
        try:
          self._batcher.recover(f'The engine failed: {error!r}')
        except Exception as again:  # out of memory, or the device is gone
          logging.exception('The cache cannot be rebuilt; the engine ends.')
          with self._wake:
            self._closed = f'{error!r}, then {again!r}'
          break
    self._close()

  def _gather_wave(self) -> None:
    """Waits until arrivals pause; with `_wake` held.

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
        self._batcher.add(self._arrivals.popleft())

  def _interrupted(self) -> bool:
    """Whether somebody wants the thread before it goes on."""
    return bool(self._stopping or self._commands)

  def _has_work(self) -> bool:
    waits = self._batcher.num_running or self._batcher.num_waiting
    return bool(waits) and not self._paused

  def _close(self) -> None:
    """Answers what is unfinished, so that nobody waits for ever."""
    with self._wake:
      self._closed = self._closed or 'it was told to'
      self._receive()
      commands = list(self._commands)
      self._commands.clear()
    message = f'The engine has stopped: {self._closed}.'
    self._batcher.close(message)
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
  except Exception as error:  # handed to whoever asked
    future.set_exception(error)
