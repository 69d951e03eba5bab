"""The engine's device functions: prefill, scoring, decoding, copying slots.

The cache holds one row a slot; a dispatch works on a few slots and on no more
positions than they use. So each function copies its slots' rows into a compact
working cache `[B, kv_heads, length, head_dim]`, runs on that, and writes the
new entries back; layers that read another layer's entries have none. What other
layers remember (`models.recurrent`) has no positions: it is copied whole, and
tokens that pad a chunk, or a row that is done, leave it as it is. Slots that wait
for their next turn cost nothing, active ones may lie anywhere, and the number of
compiled programs is bounded by the buckets of B and length.

The working cache is donated scratch memory: its content does not matter, but
memory that the operating system has yet to map is five times slower to fill.

Rows that pad a batch name the slot after the last and have nothing to do: they
read junk and their writes are dropped.
"""

import functools
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, cast

import jax
import jax.numpy as jnp

from agentrl.engine import logit_processors, sampling
from agentrl.engine.logit_processors import LogitArrays
from agentrl.engine.request import MAX_TOP_LOGPROBS
from agentrl.engine.sampling import Array
from agentrl.models.recurrent import Recurrent
from agentrl.models.transformer import KVCache, Transformer

# Most tokens that one dispatch of `decode` samples for a row.
MAX_STEPS = 32


class Chunk(NamedTuple, Generic[Array]):
  """A piece of each row's prompt, to be put into the cache."""

  slots: Array  # [B] int32
  tokens: Array  # [B, T] int32
  starts: Array  # [B] int32, position of the first of them
  counts: Array  # [B] int32, how many of the T are real


class Rows(NamedTuple, Generic[Array]):
  """Rows that sample: the last token of each is known and not yet cached."""

  slots: Array  # [B] int32
  tokens: Array  # [B] int32
  positions: Array  # [B] int32, of those tokens
  budgets: Array  # [B] int32, tokens to sample at most; 0 for padding
  uniforms: Array  # [B, MAX_STEPS] float32: sampling.uniforms
  stop_ids: Array  # [B, N] int32, filled up with -1
  settings: sampling.Settings[Array]
  # None, and then another program, where no row needs any.
  logit_arrays: LogitArrays[Array] | None = None


class DecodePrograms(NamedTuple):
  """Jitted functions of one module; all donate the cache and the scratch."""

  prefill: Any
  score: Any
  decode: Any
  copy: Any

  def num_compiled(self) -> int:
    """Programs compiled so far: grows with buckets, not with requests."""
    return sum(program._cache_size() for program in self)


@functools.lru_cache(maxsize=8)
def compile_for(module: Transformer) -> DecodePrograms:
  """The jitted functions of `module`; equal modules share compiled programs."""
  # keep_unused: the scratch's content is not used, its memory is.
  jit = functools.partial(
      jax.jit, donate_argnames=('cache', 'scratch'), keep_unused=True
  )
  return DecodePrograms(
      prefill=jit(functools.partial(_prefill, module)),
      score=jit(functools.partial(_score, module), static_argnames='tops'),
      decode=jit(
          functools.partial(_decode, module),
          static_argnames=('truncated', 'tops'),
      ),
      copy=jax.jit(_copy, static_argnames='length', donate_argnames='cache'),
  )


def _prefill(
    module: Transformer,
    params,
    cache: KVCache,
    scratch: KVCache,
    chunk: Chunk[jax.Array],
) -> tuple[KVCache, KVCache]:
  """Puts a chunk into the cache; gives the cache and the scratch."""
  _, cache, scratch = _extend(module, params, cache, scratch, chunk)
  return cache, scratch


def _score(
    module: Transformer,
    params,
    cache: KVCache,
    scratch: KVCache,
    chunk: Chunk[jax.Array],
    targets: jax.Array,
    *,
    tops: bool,
) -> tuple[KVCache, KVCache, jax.Array, tuple[jax.Array, jax.Array] | None]:
  """As `_prefill`, and scores what follows each token.

  Args:
    module: the decoder.
    params: engine layout.
    cache: all slots.
    scratch: working cache; its shape sets the number of positions.
    chunk: `[B, T]` tokens.
    targets: `[B, T]` int32, the token after each of the chunk.
    tops: static; whether to give the likeliest tokens too.

  Returns:
    Cache, scratch, `[B, T]` float32 log-probabilities of the targets at
    temperature 1, and `sampling.likeliest` of each position or None.
  """
  hidden, cache, scratch = _extend(module, params, cache, scratch, chunk)
  # `apply` is annotated for callers who ask for changed variables, too.
  logits = cast(
      jax.Array, module.apply({'params': params}, hidden, method='unembed')
  )
  logprobs = jax.nn.log_softmax(logits, axis=-1)
  scores = jnp.take_along_axis(logprobs, targets[..., None], axis=-1)
  likeliest = sampling.likeliest(logprobs) if tops else None
  return cache, scratch, scores[..., 0], likeliest


def _extend(module, params, cache, scratch, chunk):
  length = _length(scratch)
  work = _gather(cache, chunk.slots, length)
  index = jnp.arange(chunk.tokens.shape[1])
  real = index < chunk.counts[:, None]
  # Position `length` is outside the working cache, where writes are dropped.
  positions = jnp.where(real, chunk.starts[:, None] + index, length)
  hidden, work, _ = module.apply(
      {'params': params},
      chunk.tokens,
      positions,
      real.astype(jnp.int32),
      cache=work,
  )
  return hidden, _write_back(cache, work, chunk.slots, positions), work


def _decode(
    module: Transformer,
    params,
    cache: KVCache,
    scratch: KVCache,
    rows: Rows[jax.Array],
    steps: jax.Array,
    floor: jax.Array,
    *,
    truncated: bool,
    tops: bool,
) -> tuple[KVCache, KVCache, jax.Array, jax.Array, jax.Array, Any]:
  """Samples up to `steps` tokens a row.

  A row ends early at one of its stop ids (which it keeps) or when its budget is
  used up; the loop ends early with fewer than `floor` rows left.

  Args:
    module: the decoder.
    params: engine layout.
    cache: all slots.
    scratch: working cache; its shape sets the number of positions.
    rows: B rows.
    steps: scalar int32, at most MAX_STEPS. Not static: one program serves all.
    floor: scalar int32, at least 1.
    truncated: static; whether any row uses top_p, top_k or min_p.
    tops: static; whether any row wants the likeliest tokens.

  Returns:
    Cache, scratch, `[B, MAX_STEPS]` int32 ids, `[B, MAX_STEPS]` float32
    log-probabilities, `[B]` int32: how many of them are real, and
    `sampling.top_logprobs` as `[MAX_STEPS, B, K]` arrays, or None.
  """
  length = _length(scratch)
  batch = rows.slots.shape[0]
  ahead = rows.positions[:, None] + jnp.arange(MAX_STEPS)

  def more(state):
    step, done = state[0], state[1]
    return (step < steps) & (jnp.sum(~done) >= floor)

  def body(state):
    step, done, work, tokens, counts, ids, logprobs, seen, likeliest = state
    # Rows that are done go on into their own part of the working cache, of
    # which nothing past their count is written back.
    positions = rows.positions + step
    hidden, work, _ = module.apply(
        {'params': params},
        tokens[:, None],
        positions[:, None],
        (~done)[:, None].astype(jnp.int32),
        cache=work,
    )
    logits = module.apply({'params': params}, hidden[:, 0], method='unembed')
    if seen is not None:
      logits = logit_processors.apply(logits, rows.logit_arrays, seen, step)
    chosen, logprob = sampling.choose(
        logits, rows.uniforms[:, step], rows.settings, truncated=truncated
    )
    counts = counts + ~done
    stopped = jnp.any(chosen[:, None] == rows.stop_ids, axis=-1)
    done = done | stopped | (counts >= rows.budgets)
    ids, logprobs = ids.at[:, step].set(chosen), logprobs.at[:, step].set(
        logprob
    )
    if seen is not None:
      seen = logit_processors.count(seen, chosen)
    if tops:
      likeliest = jax.tree.map(
          lambda all_steps, x: all_steps.at[step].set(x),
          likeliest,
          sampling.top_logprobs(logits, rows.settings),
      )
    return (
        step + 1, done, work, chosen, counts, ids, logprobs, seen, likeliest
    )  # fmt: skip

  state = (
      jnp.int32(0),
      rows.budgets <= 0,
      _gather(cache, rows.slots, length),
      rows.tokens,
      jnp.zeros(batch, jnp.int32),
      jnp.zeros((batch, MAX_STEPS), jnp.int32),
      jnp.zeros((batch, MAX_STEPS), jnp.float32),
      None if rows.logit_arrays is None else rows.logit_arrays.counts,
      _no_tops(batch, module.config.vocab_size) if tops else None,
  )
  _, _, work, _, counts, ids, logprobs, _, likeliest = jax.lax.while_loop(
      more, body, state
  )
  written = jnp.arange(MAX_STEPS) < counts[:, None]
  positions = jnp.where(written, ahead, length)
  cache = _write_back(cache, work, rows.slots, positions)
  return cache, work, ids, logprobs, counts, likeliest


def _no_tops(batch: int, vocab: int) -> tuple[jax.Array, jax.Array]:
  shape = MAX_STEPS, batch, min(MAX_TOP_LOGPROBS, vocab)
  return jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.int32)


def _copy(
    cache: KVCache, sources: jax.Array, targets: jax.Array, *, length: int
) -> KVCache:
  """Copies the first `length` positions of slots to other slots.

  All are read before any is written. Targets past the last slot are dropped.
  """

  def copy(layer):
    rows = _gather_rows(layer, sources, length)
    return layer.at[targets, :, :length].set(rows, mode='drop')

  def copy_whole(layer):
    rows = jnp.take(layer, sources, axis=0, mode='clip')
    return layer.at[targets].set(rows, mode='drop')

  return _map_layers(copy, copy_whole, cache)


def _map_layers(
    of_positions: Callable[..., jax.Array],
    whole: Callable[..., jax.Array],
    *caches: KVCache,
) -> KVCache:
  """Maps arrays of entries at positions, and those that have no positions."""
  return tuple(
      jax.tree.map(
          whole if isinstance(layers[0], Recurrent) else of_positions, *layers
      )
      for layers in zip(*caches, strict=True)
  )


def _length(scratch: KVCache) -> int:
  # Some layer has positions, see the config.
  keys, _ = next(x for x in scratch if x and not isinstance(x, Recurrent))
  return keys.shape[2]


def _gather(cache: KVCache, slots: jax.Array, length: int) -> KVCache:
  return _map_layers(
      lambda x: _gather_rows(x, slots, length),
      lambda x: jnp.take(x, slots, axis=0, mode='clip'),
      cache,
  )


def _gather_rows(layer: jax.Array, slots: jax.Array, length: int) -> jax.Array:
  """`[B, K, length, D]` of `[slots, K, max_len, D]`.

  Written as one gather: `layer[:, :, :length][slots]` copies every slot first.
  """
  _, kv_heads, _, head_dim = layer.shape
  return jax.lax.gather(
      layer,
      slots[:, None],
      jax.lax.GatherDimensionNumbers(
          offset_dims=(1, 2, 3),
          collapsed_slice_dims=(0,),
          start_index_map=(0,),
      ),
      (1, kv_heads, length, head_dim),
      mode='clip',
  )


def _write_back(
    cache: KVCache, work: KVCache, slots: jax.Array, positions: jax.Array
) -> KVCache:
  """Copies the entries at `[B, T]` positions of the working cache to the slots.

  Positions past the working cache are dropped.
  """
  rows = jnp.arange(slots.shape[0])[:, None]
  length = _length(work)
  inside = positions < length

  def write(layer, new):
    # Advanced indices around a slice move to the front: [B, T, K, D].
    entries = new[rows, :, jnp.minimum(positions, length - 1)]
    targets = jnp.where(inside, positions, layer.shape[2])
    return layer.at[slots[:, None], :, targets].set(entries, mode='drop')

  def write_whole(layer, new):
    return layer.at[slots].set(new, mode='drop')

  return _map_layers(write, write_whole, cache, work)
