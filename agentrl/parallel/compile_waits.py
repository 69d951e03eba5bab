"""The time for which a thread has waited for its programs to be compiled.

And what a cache of compiled programs has saved it.
"""

import contextlib
import functools
import threading
import time
from collections.abc import Iterator
from typing import Any

import jax

# What JAX times: tracing, lowering, and compiling or reading what was compiled
# before. Traces lie inside each other.
_EVENTS = frozenset(
    f'/jax/core/compile/{name}_duration'
    for name in ('jaxpr_trace', 'jaxpr_to_mlir_module', 'backend_compile')
)
_SAVED = '/jax/compilation_cache/compile_time_saved_sec'


class _Waits(threading.local):
  """The waits of a thread: spans of which none encloses another."""

  def __init__(self):
    self.spans: list[tuple[float, float]] = []
    self.saved_s = 0.0

  def add(self, start: float, stop: float) -> None:
    while self.spans and self.spans[-1][0] >= start:
      self.spans.pop()
    self.spans.append((start, stop))


_waits = _Waits()


@functools.cache
def listen() -> None:
  """Begins to note what every thread compiles."""

  def note(event: str, duration_secs: float, **details: Any) -> None:
    del details
    if event in _EVENTS:
      stop = time.perf_counter()
      _waits.add(stop - duration_secs, stop)
    elif event == _SAVED:
      _waits.saved_s += max(duration_secs, 0.0)

  jax.monitoring.register_event_duration_secs_listener(note)


@contextlib.contextmanager
def waiting() -> Iterator[None]:
  """Counts a wait for another thread that compiles."""
  start = time.perf_counter()
  try:
    yield
  finally:
    _waits.add(start, time.perf_counter())


def take() -> float:
  """Seconds that this thread has waited since it asked last.

  Not to be called while it traces.
  """
  spans, _waits.spans = _waits.spans, []
  return sum(stop - start for start, stop in spans)


def take_saved() -> float:
  """Seconds that this thread would have compiled more since it asked last.

  What it needed was compiled before, and read.
  """
  saved_s, _waits.saved_s = _waits.saved_s, 0.0
  return saved_s
