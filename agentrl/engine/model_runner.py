"""The model runner: parameters, cache arrays, padding, dispatches.

Requests come in any number and length; programs are compiled for few shapes.
The runner pads on NumPy, moves each batch over in one call and fetches results
in one call.
"""

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

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
    self._decode_kinds = Kinds(
        lambda variant: Shapes(self._decode_rows, self._lengths),
        lambda variant: variant if deterministic else (True, True, True),
    )
    self._prefill_kinds = Kinds(  # by chunk length
        lambda chunk: Shapes(self._prefill_rows[chunk], self._lengths, room=1)
    )
    self._score_kinds = Kinds(  # by chunk length, and with the likeliest tokens
        lambda kind: Shapes((1,), self._lengths),
        lambda kind: kind if deterministic else (kind[0], True),
    )
    self._copy_kinds = Kinds(  # there is one
        lambda kind: Shapes(self._decode_rows, self._lengths, room=1)
    )
    self.params = jax.device_put(params)
    self.reset()

  def reset(self) -> None:
    """Makes an empty cache: a failed dispatch has consumed the old one."""
    self._cache = None
    self._scratch: dict[tuple[int, int], KVCache] = {}
    self._cache = self._empty(self._slots, self.max_len)

  def free(self) -> None:
    """Drops parameters and cache; the runner is of no more use."""
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
    decode = lambda kind, shape: self._decode([], shape, kind, steps=0, floor=1)
    score = lambda kind, shape: self._score([], shape, kind)
    runs: dict[str, tuple[Kinds, Callable[[Any, tuple[int, int]], Any]]] = {
        DECODE: (self._decode_kinds, decode),
        PREFILL: (self._prefill_kinds, functools.partial(self._prefill, [])),
        SCORE: (self._score_kinds, score),
        COPY: (self._copy_kinds, lambda kind, shape: self._copy([], shape)),
    }
    slowest = 0.0
    for name, kind, shape in usual_programs(
        self._decode_rows,
        self._prefill_rows,
        bucket(min(_USUAL_LENGTH, self.max_len), self._lengths),
        deterministic=self.deterministic,
    ):
      kinds, run = runs[name]
      start = time.perf_counter()
      run(kind, shape)
      self.wait()
      slowest = max(slowest, time.perf_counter() - start)
      kinds[kind].add(shape)
      if interrupted():
        break
    for kinds, _ in runs.values():
      kinds.patience_s = max(kinds.patience_s, slowest)
    self._scratch = {}

  def _use_scratch(self, shape: tuple[int, int]):
    """Working memory of (rows, positions)."""
    work = self._scratch.pop(shape, None)
    if work is None:
      # Scratch of other shapes never outgrows the cache itself.
      limit = self._slots * self.max_len
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

  @contextlib.contextmanager
  def _timed(self, choice: Choice) -> Iterator[None]:
    """Notes the time of a dispatch whose program is larger than needed."""
    start = time.perf_counter()
    yield
    if choice.waste:
      self.wait()
      choice.waste(time.perf_counter() - start)

  def copy(self, pairs: Sequence[tuple[int, int, int]]) -> None:
    """Copies the first n positions of slot to slot: `(source, target, n)`."""
    size = max(n for _, _, n in pairs)
    choice = self._copy_kinds.choose(None, len(pairs), size)
    with self._timed(choice):
      self._copy(pairs, choice.shape)

  def _copy(self, pairs, shape: tuple[int, int]) -> None:
    rows, length = shape
    sources, targets = padding.copies(pairs, rows, unused=self._slots)
    self._cache = self._programs.copy(
        self._cache, sources, targets, length=length
    )

  def prefill(
      self, pieces: Sequence[tuple[int, int, Sequence[int]]], chunk: int
  ) -> None:
    """Puts tokens into slots: `(slot, start, at most chunk tokens)` each."""
    size = max(start + len(ids) for _, start, ids in pieces)
    choice = self._prefill_kinds.choose(chunk, len(pieces), size)
    with self._timed(choice):
      self._prefill(pieces, chunk, choice.shape)

  def _prefill(self, pieces, chunk: int, shape: tuple[int, int]) -> None:
    arrays = padding.chunk(pieces, chunk, shape[0], unused=self._slots)
    work = self._use_scratch(shape)
    self._cache, self._scratch[shape] = self._programs.prefill(
        self.params, self._cache, work, arrays
    )

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
    choice = self._score_kinds.choose((chunk, tops), 1, start + size)
    with self._timed(choice):
      results = self._score(
          [(slot, start, tokens[:-1])], choice.shape, choice.kind, tokens[1:]
      )
      if not tops:  # a stand-in computes them nonetheless
        results[1] = None
      scores, likeliest = jax.tree.map(
          lambda x: x[0, :size], jax.device_get(results)
      )
    return scores.tolist(), likeliest

  def _score(self, pieces, shape, kind, following: Sequence[int] = ()) -> list:
    chunk, tops = kind
    arrays = padding.chunk(pieces, chunk, shape[0], unused=self._slots)
    targets = np.zeros((1, chunk), np.int32)
    targets[0, : len(following)] = following
    work = self._use_scratch(shape)
    self._cache, self._scratch[shape], *results = self._programs.score(
        self.params, self._cache, work, arrays, targets, tops=tops
    )
    return results

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
    choice = self._decode_kinds.choose(variant, len(rows), size)
    with self._timed(choice):
      results = self._decode(
          rows, choice.shape, choice.kind, steps=steps, floor=floor
      )
      if not variant[2]:  # a stand-in computes them nonetheless
        results[3] = None
      ids, logprobs, counts, likeliest = jax.device_get(results)
    real = slice(len(rows))
    return ids[real], logprobs[real], counts[real], likeliest

  def _decode(self, rows, shape, variant, *, steps: int, floor: int) -> list:
    """One padded decode dispatch of a program; returns device arrays."""
    truncated, adjusted, tops = variant
    arrays = padding.decode_rows(
        rows,
        shape[0],
        self._module.config.vocab_size,
        adjusted=adjusted,
        unused=self._slots,
    )
    work = self._use_scratch(shape)
    self._cache, self._scratch[shape], *results = self._programs.decode(
        self.params,
        self._cache,
        work,
        arrays,
        np.int32(steps),
        np.int32(floor),
        truncated=truncated,
        tops=tops,
    )
    return results


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
