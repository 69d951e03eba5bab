"""The device's side of the engine: parameters, cache arrays, padding.

Requests come in any number and length; programs are compiled for few shapes.
The runner pads on NumPy, moves each batch over in one call and fetches results
in one call.
"""

import collections
import functools
import math
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from agentrl.engine import adjustment, decode, sampling
from agentrl.engine.shapes import Shapes, bucket
from agentrl.errors import EngineError
from agentrl.models import transformer
from agentrl.models.transformer import Transformer

# Bucket sizes: each is a program to compile (one to five seconds), and waste
# where it is not met.
DECODE_ROWS = (1, 4, 16, 32, 64)
# Chunk length -> numbers of rows. About a thousand tokens fill two cores; with
# more, attention scores leave a CPU's cache and each token costs half again.
PREFILL_ROWS = {16: (1, 4, 16), 64: (1, 4, 16), 256: (1, 4)}
CHUNKS = tuple(PREFILL_ROWS)
LENGTHS = (
    128,
    256,
    384,
    512,
    768,
    1024,
    1536,
    2048,
    3072,
    4096,
    8192,
    16384,
    32768,
)
# What a deterministic runner uses instead, a row at a time.
_FIXED_CHUNK = 64
STOP_IDS = 8  # stop ids of a row that end it on the device; see `decode`
# What one more dispatch costs, in tokens of each row.
_DISPATCH_TOKENS = 8


@functools.lru_cache(maxsize=4096)
def _plan(size: int) -> tuple[int, int]:
  """Cost of the cheapest chunks that cover `size` tokens, and the first."""
  if size <= 0:
    return 0, 0
  best = None
  for chunk in CHUNKS:
    cost = chunk + _DISPATCH_TOKENS + _plan(size - chunk)[0]
    if best is None or cost <= best[0]:
      best = (cost, chunk)
  return best


class Runner:
  """Parameters and cache on the device, and the programs that use them.

  Not thread-safe: the scheduler's thread owns it.

  Attributes:
    max_len: positions of a slot.
    alignment: what every position is a multiple of at which a prefill may begin.
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
        are then made in the same order whoever else is served, so an entry of
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
    self._decode_shapes = collections.defaultdict(  # by `variant`
        lambda: Shapes(self._decode_rows, self._lengths)
    )
    self._prefill_shapes = {
        chunk: Shapes(rows, self._lengths, room=1)
        for chunk, rows in self._prefill_rows.items()
    }
    self.params = jax.device_put(params)
    self.reset()

  def reset(self) -> None:
    """Makes an empty cache: a failed dispatch has consumed the old one."""
    self._cache = None
    self._scratch = {}
    self._cache = self._empty(self._slots, self.max_len)

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
      raise EngineError(
          'New parameters do not fit the engine:'
          f' {_first_difference(old, new)}.',
          retryable=False,
      )
    self.params = jax.device_put(params)

  def num_compiled(self) -> int:
    """Programs compiled so far."""
    return self._programs.num_compiled()

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
    """Where a piece ends that begins at `start` of a prefill up to `end`."""
    return min(start + chunk - start % self.alignment, end)

  def most_rows(self, chunk: int) -> int:
    """How many rows a prefill of that chunk length takes."""
    return self._prefill_rows[chunk][-1]

  def wait(self) -> None:
    """Returns when all that was dispatched is done."""
    jax.block_until_ready(self._cache)

  def copy(self, pairs: Sequence[tuple[int, int, int]]) -> None:
    """Copies the first n positions of slot to slot: `(source, target, n)`."""
    length = bucket(max(n for _, _, n in pairs), self._lengths)
    rows = bucket(len(pairs), self._decode_rows)
    sources = np.zeros(rows, np.int32)
    targets = np.full(rows, self._slots, np.int32)
    for i, (source, target, _) in enumerate(pairs):
      sources[i], targets[i] = source, target
    self._cache = self._programs.copy(
        self._cache, sources, targets, length=length
    )

  def prefill(
      self, pieces: Sequence[tuple[int, int, Sequence[int]]], chunk: int
  ) -> None:
    """Puts tokens into slots: `(slot, start, at most chunk tokens)` each."""
    shapes = self._prefill_shapes[chunk]
    need = len(pieces), max(start + len(ids) for _, start, ids in pieces)
    shape, larger = shapes.choose(*need)
    arrays = self._chunk(pieces, chunk, shape[0])
    work = self._use_scratch(shape)
    start = time.perf_counter()
    self._cache, self._scratch[shape] = self._programs.prefill(
        self.params, self._cache, work, arrays
    )
    if larger:
      self.wait()
      shapes.waste(*need, shape, time.perf_counter() - start)

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
    shape = 1, bucket(start + len(tokens) - 1, self._lengths)
    arrays = self._chunk([(slot, start, tokens[:-1])], chunk, shape[0])
    targets = np.zeros((1, chunk), np.int32)
    targets[0, : len(tokens) - 1] = tokens[1:]
    work = self._use_scratch(shape)
    self._cache, self._scratch[shape], *results = self._programs.score(
        self.params, self._cache, work, arrays, targets, tops=tops
    )
    scores, likeliest = jax.tree.map(
        lambda x: x[0, : len(tokens) - 1], jax.device_get(results)
    )
    return scores.tolist(), likeliest

  def _chunk(self, pieces, chunk, rows):
    slots = np.full(rows, self._slots, np.int32)
    tokens = np.zeros((rows, chunk), np.int32)
    starts = np.zeros(rows, np.int32)
    counts = np.zeros(rows, np.int32)
    for i, (slot, start, ids) in enumerate(pieces):
      slots[i], starts[i], counts[i] = slot, start, len(ids)
      tokens[i, : len(ids)] = ids
    return decode.Chunk(slots, tokens, starts, counts)

  def variant(self, row: dict[str, Any]) -> tuple[bool, bool, bool]:
    """What a row of `decode` asks of its program.

    Returns:
      Whether it truncates the distribution, adjusts logits, and wants the
      likeliest tokens.
    """
    truncated = (
        row['top_p'] < 1
        or row['top_k'] < self._module.config.vocab_size
        or row['min_p'] > 0
    )
    return truncated, row['adjustment'] is not None, row['top_logprobs'] > 0

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
        of which the first STOP_IDS end a row on the device), temperature,
        top_p, top_k, min_p, adjustment (an `adjustment.Wish` or None),
        top_logprobs.
      steps: at most decode.MAX_STEPS.
      floor: stop when fewer rows than this still sample.

    Returns:
      `[B, MAX_STEPS]` ids, `[B, MAX_STEPS]` log-probabilities, `[B]` counts,
      for the rows given; and, if one of them has top_logprobs, the likeliest
      tokens: `[MAX_STEPS, B, K]` log-probabilities and ids.
    """
    variant = tuple(map(any, zip(*map(self.variant, rows), strict=True)))
    truncated, adjusted, tops = variant
    shapes = self._decode_shapes[variant]
    size = max(row['position'] + min(steps, row['budget']) for row in rows)
    shape, larger = shapes.choose(len(rows), size)
    batch = shape[0]
    column = lambda name, kind, rest: np.array(
        [row[name] for row in rows] + [rest] * (batch - len(rows)), kind
    )
    stop_ids = np.full((batch, STOP_IDS), -1, np.int32)
    for i, row in enumerate(rows):
      first = row['stop_ids'][:STOP_IDS]
      stop_ids[i, : len(first)] = first
    vocab = self._module.config.vocab_size
    settings = sampling.Settings(
        temperature=column('temperature', np.float32, 1.0),
        top_p=column('top_p', np.float32, 1.0),
        top_k=np.minimum(column('top_k', np.int64, vocab), vocab).astype(
            np.int32
        ),
        min_p=column('min_p', np.float32, 0.0),
    )
    positions = column('position', np.int32, 0)
    arrays = decode.Rows(
        slots=column('slot', np.int32, self._slots),
        tokens=column('token', np.int32, 0),
        positions=positions,
        budgets=column('budget', np.int32, 0),
        uniforms=sampling.uniforms(
            column('seed', np.uint64, 0),
            positions[:, None] + np.arange(1, decode.MAX_STEPS + 1),
        ),
        stop_ids=stop_ids,
        settings=settings,
        adjustment=(
            adjustment.collect(
                [row['adjustment'] for row in rows], batch, vocab
            )
            if adjusted
            else None
        ),
    )
    work = self._use_scratch(shape)
    start = time.perf_counter()
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
    ids, logprobs, counts, likeliest = jax.device_get(results)
    if larger:
      seconds = time.perf_counter() - start
      shapes.waste(len(rows), size, shape, seconds)
    real = slice(len(rows))
    return ids[real], logprobs[real], counts[real], likeliest


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
