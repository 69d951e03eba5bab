"""The model runner: parameters, cache arrays, padding, dispatches.

Requests come in any number and length; programs are compiled for few shapes.
The runner pads on NumPy, moves each batch over in one call and fetches results
in one call.
"""

import contextlib
import functools
import math
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from absl import logging

from agentrl.engine import decode, padding
from agentrl.engine.shapes import (
    COPY,
    DECODE,
    PREFILL,
    SCORE,
    Choice,
    Kinds,
    Shapes,
    bucket,
    usual_programs,
)
from agentrl.errors import EngineRefusal
from agentrl.models import transformer
from agentrl.models.transformer import KVCache, Transformer
from agentrl.runtime import heap, mappings

# Bucket sizes: each is a program to compile (one to five seconds), and waste
# where it is not met.
DECODE_ROWS = (1, 4, 16, 32, 64)
# Chunk length -> numbers of rows. About a thousand tokens fill two cores; with
# more, attention scores leave a CPU's cache and each token costs half again.
PREFILL_ROWS = {16: (1, 4, 16), 64: (1, 4, 16), 256: (1, 4)}
CHUNKS = tuple(PREFILL_ROWS)
LENGTHS = (
    128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 32768
)  # fmt: skip
# The chunk length of a deterministic runner, which fills a row at a time.
_FIXED_CHUNK = 64
# Positions that `warm_up` compiles for.
_USUAL_LENGTH = 1024
# Cost of one more dispatch, in tokens of each row.
_DISPATCH_TOKENS = 8


@functools.lru_cache(maxsize=4096)
def _plan(size: int) -> tuple[int, int]:
  """Cost of the cheapest chunks that cover `size` tokens, and the first."""
  if size <= 0:
    return 0, 0
  best: tuple[int, int] | None = None
  for chunk in CHUNKS:
    cost = chunk + _DISPATCH_TOKENS + _plan(size - chunk)[0]
    if best is None or cost <= best[0]:
      best = (cost, chunk)
  assert best is not None  # there are CHUNKS
  return best


class ModelRunner:
  """Parameters and cache on the device, and the programs that use them.

  Not thread-safe: the scheduler's thread owns it.

  Attributes:
    max_len: positions of a slot.
    alignment: prefills begin at multiples of this position.
    deterministic: see `__init__`.
  """

  def __init__(
      self,
      module: Transformer,
      params: Any,
      *,
      slots: int,
      max_len: int,
      max_rows: int,
      deterministic: bool = False,
  ):
    """Allocates the cache.

    Args:
      module: the decoder, in the engine's layout.
      params: its parameters.
      slots: rows of the cache.
      max_len: positions of a slot.
      max_rows: most rows that decode at once.
      deterministic: one shape of each program, the largest; prompts are filled
        a row at a time, in chunks that begin at multiples of `alignment`. Sums
        are then made in the same order whatever else is served, so an entry of
        the cache depends on the tokens up to it alone, bit for bit, and a
        sampled token on its sequence.
    """
    self._module = module
    self._programs = decode.compile_for(module)
    self._slots = slots
    self.max_len = max_len
    self.deterministic = deterministic
    self._lengths = [n for n in LENGTHS if n < max_len] + [max_len]
    self._decode_rows = [n for n in DECODE_ROWS if n < max_rows] + [max_rows]
    self._prefill_rows = PREFILL_ROWS
    self.alignment = 1
    if deterministic:
      self._lengths, self._decode_rows = [max_len], [max_rows]
      self._prefill_rows = {_FIXED_CHUNK: (1,)}
      self.alignment = _FIXED_CHUNK
    # By `variant`. A program with all features serves those that want some,
    # but its last bits are others.
    make = lambda name, rows, **room: lambda kind: Shapes(
        rows(kind), self._lengths, order=self._orders(name, kind), **room
    )
    self._kinds = {
        DECODE: Kinds(
            make(DECODE, lambda variant: self._decode_rows),
            lambda variant: variant if deterministic else (True, True, True),
        ),
        PREFILL: Kinds(  # by chunk length
            make(PREFILL, lambda chunk: self._prefill_rows[chunk], room=1)
        ),
        SCORE: Kinds(  # by chunk length, and with the likeliest tokens
            make(SCORE, lambda kind: (1,)),
            lambda kind: kind if deterministic else (kind[0], True),
        ),
        COPY: Kinds(  # there is one
            make(COPY, lambda kind: self._decode_rows, room=1)
        ),
    }
    # What it has compiled: the program's name, its kind and its shape.
    self._finished: queue.SimpleQueue[tuple[str, Any, tuple[int, int]]]
    self._finished = queue.SimpleQueue()
    self._compiler = ThreadPoolExecutor(1, 'engine-compiler')
    self.params = jax.device_put(params)
    self.reset()

  def reset(self) -> None:
    """Makes an empty cache: a failed dispatch has consumed the old one."""
    self._cache = None
    self._scratch: dict[tuple[int, int], KVCache] = {}
    self._cache = self._empty(self._slots, self.max_len)

  def free(self) -> None:
    """Drops parameters and cache; the runner is of no more use."""
    self._compiler.shutdown(wait=False, cancel_futures=True)
    self.params = self._cache = None
    self._scratch = {}

  def _empty(self, rows: int, length: int):
    return transformer.init_cache(
        self._module.config, rows, length, self._module.dtype
    )

  def set_params(self, params: Any) -> None:
    """Replaces the parameters.

    Raises:
      EngineError: the new tree differs in structure, shapes or types, which
        would compile everything anew or not run at all.
    """
    describe = functools.partial(
        jax.tree.map, lambda x: (x.shape, str(x.dtype))
    )
    old, new = describe(self.params), describe(params)
    if old != new:
      raise EngineRefusal(
          'New parameters do not fit the engine:'
          f' {_first_difference(old, new)}.'
      )
    self.params = jax.device_put(params)

  def num_compiled(self) -> int:
    """Programs compiled so far."""
    return self._programs.num_compiled()

  def warm_up(self, interrupted: Callable[[], bool] = lambda: False) -> None:
    """Compiles what requests of usual sizes need, whatever they ask for.

    Where that is larger than a dispatch needs, a better program is compiled
    after as much waste as the slowest of these took.

    Args:
      interrupted: asked after each program; True ends it early.
    """
    slowest = 0.0
    for name, kind, shape in usual_programs(
        self._decode_rows,
        self._prefill_rows,
        bucket(min(_USUAL_LENGTH, self.max_len), self._lengths),
        deterministic=self.deterministic,
    ):
      start = time.perf_counter()
      self._run(name, shape, *self._nothing(name, kind, shape))
      self.wait()
      slowest = max(slowest, time.perf_counter() - start)
      self._kinds[name][kind].add(shape)
      if interrupted():
        break
    for kinds in self._kinds.values():
      kinds.patience_s = max(kinds.patience_s, slowest)
    self._scratch = {}

  def _use_scratch(self, shape: tuple[int, int]):
    """Working memory of (rows, positions)."""
    work = self._scratch.pop(shape, None)
    if work is None:
      # With scratch of other shapes it is half of the cache, or itself alone.
      limit = self._slots * self.max_len // 2
      while self._scratch and limit < shape[0] * shape[1] + sum(
          rows * length for rows, length in self._scratch
      ):
        del self._scratch[next(iter(self._scratch))]
      work = self._empty(*shape)
    return work

  def first_chunk(self, size: int, most: float = math.inf) -> int:
    """The chunk length with which to begin a prefill of `size` tokens.

    Args:
      size: tokens, at least one.
      most: tokens to take now; a chunk is longer only if all are.
    """
    if self.deterministic:
      return _FIXED_CHUNK
    chunk = _plan(min(size, 2 * CHUNKS[-1]))[1]
    return max((c for c in CHUNKS if c <= min(chunk, most)), default=CHUNKS[0])

  def chunk_end(self, start: int, end: int, chunk: int) -> int:
    """The end of the prefill piece that begins at `start`, at most `end`."""
    return min(start + chunk - start % self.alignment, end)

  def most_rows(self, chunk: int) -> int:
    """Most rows of a prefill of that chunk length."""
    return self._prefill_rows[chunk][-1]

  def wait(self) -> None:
    """Returns when all that was dispatched is done."""
    jax.block_until_ready(self._cache)

  def _orders(
      self, name: str, kind: Any
  ) -> Callable[[tuple[int, int]], None] | None:
    """Has programs compiled that larger ones stand in for meanwhile.

    None for a deterministic runner, which has no larger ones. Where the process
    has hardly room for more programs, the larger ones go on to stand in.
    """
    if self.deterministic:
      return None

    def order(shape: tuple[int, int]) -> None:
      if mappings.crowded():
        logging.warning(
            'No program for %s is compiled: this process has most of the memory'
            ' mappings that vm.max_map_count allows. A larger program serves;'
            ' raise that limit for longer runs.',
            shape,
        )
        return
      lower = self._lowering(name, shape, *self._nothing(name, kind, shape))

      def compiled() -> None:
        lower().compile()
        heap.trim()

      future = self._compiler.submit(compiled)

      def ready(future: Future) -> None:
        if future.cancelled():
          return
        if error := future.exception():
          logging.warning('No program for %s was compiled: %s', shape, error)
        else:
          self._finished.put((name, kind, shape))

      future.add_done_callback(ready)

    return order

  def _lowering(
      self, name: str, shape: tuple[int, int], arrays: Any, static: Any
  ) -> Callable[[], Any]:
    """Lowers a program as `_run` calls it: then that finds it compiled."""
    held: list[Any] = [_describe(self._cache)]
    if name != COPY:
      work = jax.eval_shape(functools.partial(self._empty, *shape))
      held = [_describe(self.params), *held, work]
    program = getattr(self._programs, name)
    return lambda: program.lower(*held, *arrays, **static)

  def _run(
      self, name: str, shape: tuple[int, int], arrays: Any, static: Any
  ) -> list:
    """Runs a program; returns its results but for the caches."""
    program = getattr(self._programs, name)
    if name == COPY:
      self._cache = program(self._cache, *arrays, **static)
      return []
    work = self._use_scratch(shape)
    self._cache, self._scratch[shape], *results = program(
        self.params, self._cache, work, *arrays, **static
    )
    return results

  def _choose(self, name: str, kind: Any, rows: int, length: int) -> Choice:
    while not self._finished.empty():
      finished, its_kind, shape = self._finished.get()
      self._kinds[finished][its_kind].add(shape)
    return self._kinds[name].choose(kind, rows, length)

  @contextlib.contextmanager
  def _timed(self, choice: Choice) -> Iterator[None]:
    """Notes the time of a dispatch whose program is larger than needed."""
    start = time.perf_counter()
    yield
    if choice.waste:
      self.wait()
      choice.waste(time.perf_counter() - start)

  def _nothing(
      self, name: str, kind: Any, shape: tuple[int, int]
  ) -> tuple[Any, Any]:
    """Inputs of a program of this shape, with nothing to do."""
    inputs: dict[str, Callable[..., tuple[Any, Any]]] = {
        DECODE: functools.partial(self._decode_inputs, steps=0, floor=1),
        PREFILL: self._prefill_inputs,
        SCORE: self._score_inputs,
        COPY: self._copy_inputs,
    }
    return inputs[name]([], kind, shape)

  def copy(self, pairs: Sequence[tuple[int, int, int]]) -> None:
    """Copies the first n positions of slot to slot: `(source, target, n)`."""
    size = max(n for _, _, n in pairs)
    choice = self._choose(COPY, None, len(pairs), size)
    with self._timed(choice):
      inputs = self._copy_inputs(pairs, None, choice.shape)
      self._run(COPY, choice.shape, *inputs)

  def _copy_inputs(self, pairs, kind, shape):
    del kind
    rows, length = shape
    arrays = padding.copies(pairs, rows, unused=self._slots)
    return arrays, dict(length=length)

  def prefill(
      self, pieces: Sequence[tuple[int, int, Sequence[int]]], chunk: int
  ) -> None:
    """Puts tokens into slots: `(slot, start, at most chunk tokens)` each."""
    size = max(start + len(ids) for _, start, ids in pieces)
    choice = self._choose(PREFILL, chunk, len(pieces), size)
    with self._timed(choice):
      inputs = self._prefill_inputs(pieces, chunk, choice.shape)
      self._run(PREFILL, choice.shape, *inputs)

  def _prefill_inputs(self, pieces, chunk, shape):
    return [padding.chunk(pieces, chunk, shape[0], unused=self._slots)], {}

  def score(
      self,
      slot: int,
      start: int,
      tokens: Sequence[int],
      chunk: int,
      *,
      tops: bool,
  ) -> tuple[list[float], tuple[np.ndarray, np.ndarray] | None]:
    """As `prefill` of one slot, with the last token only as a target.

    Returns:
      The log-probabilities of `tokens[1:]` at temperature 1 and, for `tops`,
      the likeliest tokens there: `[T, K]` log-probabilities and ids.
    """
    size = len(tokens) - 1
    choice = self._choose(SCORE, (chunk, tops), 1, start + size)
    with self._timed(choice):
      inputs = self._score_inputs(
          [(slot, start, tokens[:-1])], choice.kind, choice.shape, tokens[1:]
      )
      results = self._run(SCORE, choice.shape, *inputs)
      if not tops:  # a stand-in computes them nonetheless
        results[1] = None
      scores, likeliest = jax.tree.map(
          lambda x: x[0, :size], jax.device_get(results)
      )
    return scores.tolist(), likeliest

  def _score_inputs(self, pieces, kind, shape, following: Sequence[int] = ()):
    chunk, tops = kind
    targets = np.zeros((1, chunk), np.int32)
    targets[0, : len(following)] = following
    (arrays,), _ = self._prefill_inputs(pieces, chunk, shape)
    return [arrays, targets], dict(tops=tops)

  def variant(self, row: dict[str, Any]) -> tuple[bool, bool, bool]:
    """The features that a row of `decode` needs of its program.

    Returns:
      True for each that it needs: truncation of the distribution, logit
      processors, the likeliest tokens.
    """
    truncated = (
        row['top_p'] < 1
        or row['top_k'] < self._module.config.vocab_size
        or row['min_p'] > 0
    )
    return truncated, row['logit_params'] is not None, row['top_logprobs'] > 0

  def decode(
      self, rows: Sequence[dict[str, Any]], *, steps: int, floor: int
  ) -> tuple[
      np.ndarray,
      np.ndarray,
      np.ndarray,
      tuple[np.ndarray, np.ndarray] | None,
  ]:
    """Samples up to `steps` tokens a row.

    Args:
      rows: for each: slot, token, position, budget, seed, stop_ids (any number,
        of which the first padding.STOP_IDS end a row on the device),
        temperature, top_p, top_k, min_p, logit_params (a
        `logit_processors.LogitParams` or None), top_logprobs.
      steps: at most decode.MAX_STEPS.
      floor: stop when fewer rows than this still sample.

    Returns:
      `[B, MAX_STEPS]` ids, `[B, MAX_STEPS]` log-probabilities, `[B]` counts,
      for the rows given; and, if one of them has top_logprobs, the likeliest
      tokens: `[MAX_STEPS, B, K]` log-probabilities and ids.
    """
    variant = tuple(map(any, zip(*map(self.variant, rows), strict=True)))
    size = max(row['position'] + min(steps, row['budget']) for row in rows)
    choice = self._choose(DECODE, variant, len(rows), size)
    with self._timed(choice):
      inputs = self._decode_inputs(
          rows, choice.kind, choice.shape, steps=steps, floor=floor
      )
      results = self._run(DECODE, choice.shape, *inputs)
      if not variant[2]:  # a stand-in computes them nonetheless
        results[3] = None
      ids, logprobs, counts, likeliest = jax.device_get(results)
    real = slice(len(rows))
    return ids[real], logprobs[real], counts[real], likeliest

  def _decode_inputs(self, rows, variant, shape, *, steps: int, floor: int):
    truncated, adjusted, tops = variant
    arrays = padding.decode_rows(
        rows,
        shape[0],
        self._module.config.vocab_size,
        adjusted=adjusted,
        unused=self._slots,
    )
    return (
        [arrays, np.int32(steps), np.int32(floor)],
        dict(truncated=truncated, tops=tops),
    )


def _describe(tree: Any) -> Any:
  """Shapes and types, and the devices of arrays that are bound to some."""
  return jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(
          x.shape, x.dtype, sharding=x.sharding if x.committed else None
      ),
      tree,
  )


def _first_difference(old: Any, new: Any) -> str:
  flat = lambda tree: {
      jax.tree_util.keystr(path): leaf
      for path, leaf in jax.tree_util.tree_leaves_with_path(
          tree, is_leaf=lambda x: isinstance(x, tuple)
      )
  }
  old, new = flat(old), flat(new)
  for name in sorted(old.keys() | new.keys()):
    if old.get(name) != new.get(name):
      return f'{name} was {old.get(name)} and is {new.get(name)}'
  return 'the trees are built differently'
