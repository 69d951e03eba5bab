"""Programs of microbatches: compiled shape by shape, beside the work if told to.

XLA compiles outside of Python's lock, so that the learner goes on meanwhile with
a program of a larger shape.
"""

import concurrent.futures
import contextlib
import functools
import statistics
import time
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
from absl import logging
from jax.sharding import NamedSharding, PartitionSpec

from agentrl.batch import SharedPrefix, TokenBatch
from agentrl.data.packing import Cost, Shape
from agentrl.data.shapes import Shapes
from agentrl.parallel import compile_cache, compile_waits
from agentrl.runtime import heap, mappings
from agentrl.training import state as state_lib


@contextlib.contextmanager
def beside() -> Iterator[ThreadPoolExecutor]:
  """A thread that compiles; what waits for it at the end is dropped."""
  executor = ThreadPoolExecutor(1, 'compiler')
  try:
    yield executor
  finally:
    executor.shutdown(cancel_futures=True)


class Program:
  """A jitted function of a microbatch and of other things.

  Attributes:
    shapes: of its microbatches.
  """

  def __init__(
      self,
      function: Any,
      *,
      batch: int,
      cost: Cost,
      price: float,
      executor: ThreadPoolExecutor | None = None,
      bound: dict[str, Any] | None = None,
  ):
    """Compiles nothing yet.

    Args:
      function: jitted.
      batch: index of the microbatch among its arguments.
      cost: of a shape.
      price: of a program, see `Shapes`; with an executor until it is timed.
      executor: compiles beside the work. None: all is compiled when it is
        called, and the choice of shapes does not depend on time.
      bound: further arguments, the same in every call.
    """
    self._orders: list[Shape] = []
    self.shapes = Shapes(
        cost, price, order=self._orders.append if executor else None
    )
    self._function, self._bound = function, bound or {}
    # As of a jitted function.
    self.trace, self.lower = (
        functools.partial(method, **self._bound)
        for method in (function.trace, function.lower)
    )
    self._batch, self._executor = batch, executor
    self._settled = False
    self._notes: compile_cache.Notes | None = None
    self._compiled: dict[Hashable, Future] = {}
    self._compile_s: list[float] = []  # of each
    self._saved_s: list[float] = []  # more, had it not been compiled before
    self._cost = self._waited_s = 0.0  # since the last timing began

  def __call__(self, *args: Any) -> Any:
    """The function's result; compiled first, where this shape is new."""
    executable = self._find(args)
    self._cost += self.shapes.cost(shape_of(args[self._batch]))
    while self._orders:
      shape = self._orders.pop()
      if not self._settled and not mappings.crowded():
        self.prepare(shape, *args)
    return executable(*args, **self._bound)

  def _find(self, args: Sequence[Any]) -> Any:
    """The executable for these arguments; waits until there is one."""
    key = _signature(args)
    future = self._compiled.get(key)
    if future is not None and future.done():
      return future.result()
    start = time.perf_counter()
    if future is None or future.cancel():  # of those that wait for their turn
      future = self._compiled[key] = Future()
      future.set_result(self._compile(args))
    else:
      with compile_waits.waiting():
        concurrent.futures.wait([future])
    self._waited_s += time.perf_counter() - start
    return future.result()

  @property
  def ahead(self) -> bool:
    """True if it is compiled beside the work."""
    return self._executor is not None

  def settle(self) -> None:
    """From now on what has programs serves: no more are worth their price."""
    self._settled = True

  def prepare(self, shape: Shape, *args: Any) -> None:
    """Begins to compile for another shape, beside the work.

    Args:
      shape: of the microbatch.
      *args: of a call: arrays, or shapes with shardings.
    """
    assert self._executor is not None
    described = [state_lib.abstract(x) for x in args]
    described[self._batch] = _resized(described[self._batch], shape)
    key = _signature(described)
    if key in self._compiled:
      return
    first = not self._compiled
    if first:
      self.shapes.add(shape)  # better to wait for it than for another

    def ready(future: Future) -> None:
      if future.cancelled():
        return
      if error := future.exception():
        # Should it be needed nonetheless, it is tried again, and waited for.
        self._compiled.pop(key)
        logging.warning('No program for %s was compiled: %s', shape, error)
      else:
        self.shapes.add(shape)

    future = self._executor.submit(self._compile, described, first)
    self._compiled[key] = future
    future.add_done_callback(ready)

  @contextlib.contextmanager
  def timed(self) -> Iterator[None]:
    """Times the calls in it, to their results: what they cost sets the price.

    The price of a program is what would be run while it is compiled.
    """
    self._cost = self._waited_s = 0.0
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start - self._waited_s
    if self._executor is not None and self._compile_s and self._cost:
      compile_s = statistics.mean(self._compile_s)
      compile_s += statistics.mean(self._saved_s)
      self.shapes.price = compile_s * self._cost / seconds

  def num_compiled(self) -> int:
    """Programs compiled so far."""
    return len(self._compile_s)

  def _compile(self, args: Sequence[Any], first: bool = False) -> Any:
    """The executable; what is prepared `first` tells one program of others."""
    compile_waits.take_saved()  # by other programs
    start = time.perf_counter()
    lowered = self.lower(*args)
    if first:
      self._notes = compile_cache.Notes(lowered.as_text())
      self.shapes.kept = {
          Shape(*numbers)
          for numbers in self._notes.read()
          if len(numbers) == len(Shape._fields)  # else half of a line
      }
    executable = lowered.compile()
    heap.trim()
    self._compile_s.append(time.perf_counter() - start)
    self._saved_s.append(compile_waits.take_saved())
    shape = shape_of(args[self._batch])
    if self._notes and shape not in self.shapes.kept:
      self._notes.add(shape)
    return executable


def shape_of(batch: TokenBatch) -> Shape:
  """The shape of a microbatch."""
  prefix = () if batch.prefix is None else batch.prefix.tokens.shape
  return Shape(*batch.tokens.shape, *prefix)


def _signature(args: Sequence[Any]) -> Hashable:
  leaves, structure = jax.tree.flatten(tuple(args))
  return structure, tuple((x.shape, x.dtype) for x in leaves)


def _resized(batch: TokenBatch, shape: Shape) -> TokenBatch:
  """The description of a microbatch of another shape."""

  def like(x: Any, *size: int) -> Any:
    return jax.ShapeDtypeStruct(size, x.dtype, sharding=x.sharding)

  rows = shape.height, shape.length
  prefix = None
  if shape.prefixes:
    tokens = like(batch.tokens, shape.prefixes, shape.prefix_length)
    whole = jax.ShapeDtypeStruct(
        rows[:1],
        tokens.dtype,
        sharding=NamedSharding(tokens.sharding.mesh, PartitionSpec()),
    )
    prefix = SharedPrefix(tokens, tokens, whole)
  batch = jax.tree.map(
      lambda x: like(x, *rows) if x.ndim == 2 else x, batch.replace(prefix=None)
  )
  return batch.replace(prefix=prefix)
