"""Sampling of the next token of each row, with its log-probability.

One uniform number a row and step decides (inverse transform sampling), so a
row's choice depends on its own logits, settings and seed, never on the rows
beside it. Settings are arrays: a new temperature compiles nothing.
"""

from typing import Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.engine.request import MAX_TOP_LOGPROBS

# SGLang's rule: a lower temperature means greedy, scored at temperature 1.
GREEDY_BELOW = 1e-6
# Logits that the truncated path sorts. Rows that keep more tokens than this
# (a large top_k, a flat distribution under top_p) pay for a full sort.
TOP = 128
_BLOCK = 64

# Kind of a dispatch's arrays: np.ndarray on the host, jax.Array in programs.
Array = TypeVar('Array')


class Settings(NamedTuple, Generic[Array]):
  """Sampling settings, one entry a row."""

  temperature: Array  # [B] float32; below GREEDY_BELOW is greedy
  top_p: Array  # [B] float32, 1 is off
  top_k: Array  # [B] int32, vocabulary size or more is off
  min_p: Array  # [B] float32, 0 is off


def uniforms(seeds: np.ndarray, positions: np.ndarray) -> np.ndarray:
  """One number in [0, 1) for each row and position; on the host.

  A counter-based generator: SplitMix64 (doi:10.1145/2660193.2660195) whose
  state after `position` steps is computed rather than stepped to. In a jitted
  program jax.random would take a third of its time to compile.

  Args:
    seeds: `[B]` integers below 2**32.
    positions: `[B, K]` integers, where in its sequence the token will stand.

  Returns:
    `[B, K]` float32, a function of seed and position alone.
  """
  golden = np.uint64(0x9E3779B97F4A7C15)
  start = _mix(seeds.astype(np.uint64) + golden)[:, None]
  bits = _mix(start + positions.astype(np.uint64) * golden)
  # 24 bits are what a float32 below 1 holds exactly.
  return (bits >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)


def _mix(x: np.ndarray) -> np.ndarray:
  """SplitMix64's finaliser; uint64 arithmetic wraps as it should."""
  x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
  x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
  return x ^ (x >> np.uint64(31))


def choose(
    logits: jax.Array,
    uniform: jax.Array,
    settings: Settings[jax.Array],
    *,
    truncated: bool,
) -> tuple[jax.Array, jax.Array]:
  """Samples one token a row.

  Args:
    logits: `[B, V]` float32.
    uniform: `[B]` in [0, 1).
    settings: of each row.
    truncated: static; False when no row uses top_p, top_k or min_p, which
      spares looking at their arrays.

  Returns:
    `[B]` int32 ids, and `[B]` float32 log-probabilities: log softmax of
    logits / temperature at the id, before any truncation, and at temperature 1
    for greedy rows. That is what SGLang reports.
  """
  greedy = settings.temperature < GREEDY_BELOW
  logprobs = _tempered(logits, settings)
  probs = jnp.exp(logprobs)
  ids = _invert(probs, uniform)
  if truncated:
    cut = (
        (settings.top_p < 1.0)
        | (settings.top_k < logits.shape[-1])
        | (settings.min_p > 0.0)
    )
    ids = jnp.where(cut, _truncated(probs, uniform, settings), ids)
  ids = jnp.where(greedy, jnp.argmax(logits, axis=-1), ids).astype(jnp.int32)
  return ids, jnp.take_along_axis(logprobs, ids[:, None], axis=-1)[:, 0]


def top_logprobs(
    logits: jax.Array, settings: Settings[jax.Array]
) -> tuple[jax.Array, jax.Array]:
  """The likeliest tokens of each row, by the log-probabilities of `choose`.

  Returns:
    `[B, K]` float32 log-probabilities in descending order, and `[B, K]` int32
    ids; K is MAX_TOP_LOGPROBS, or the vocabulary where that is smaller.
  """
  return likeliest(_tempered(logits, settings))


def likeliest(logprobs: jax.Array) -> tuple[jax.Array, jax.Array]:
  """As `top_logprobs`, of `[..., V]` log-probabilities."""
  values, ids = jax.lax.top_k(
      logprobs, min(MAX_TOP_LOGPROBS, logprobs.shape[-1])
  )
  # An impossible token has SGLang's number; JSON has no infinity.
  return jnp.maximum(values, jnp.finfo(values.dtype).min), ids


def _tempered(logits: jax.Array, settings: Settings[jax.Array]) -> jax.Array:
  greedy = settings.temperature < GREEDY_BELOW
  scale = jnp.where(greedy, 1.0, settings.temperature)[:, None]
  return jax.nn.log_softmax(logits / scale, axis=-1)


def _invert(weights: jax.Array, uniform: jax.Array) -> jax.Array:
  """First index whose running sum exceeds uniform * total: `[B]` of `[B, N]`.

  Finds a block of entries first and then the entry, as two small products with
  triangles of ones: a running sum over a whole vocabulary is ten times slower.
  An entry of weight 0 is never chosen.
  """
  batch, size = weights.shape
  blocks = jnp.pad(weights, ((0, 0), (0, -size % _BLOCK)))
  blocks = blocks.reshape(batch, -1, _BLOCK)
  masses = blocks.sum(axis=-1)
  ends = _running_sum(masses)
  threshold = uniform * ends[:, -1]
  block = _first_above(ends, masses, threshold)[:, None]
  take = lambda x: jnp.take_along_axis(x, block, axis=1)
  entries = jnp.take_along_axis(blocks, block[..., None], axis=1)[:, 0]
  sums = _running_sum(entries) + take(ends) - take(masses)
  return block[:, 0] * _BLOCK + _first_above(sums, entries, threshold)


def _first_above(
    sums: jax.Array, weights: jax.Array, threshold: jax.Array
) -> jax.Array:
  """First index whose running sum exceeds a threshold: `[B]` of `[B, N]`.

  Sums are rounded, so one may exceed the threshold before a weight was added, or
  none may: only entries of positive weight count, the last of them if none is left.
  0 where there is none (NaN).
  """
  places = jnp.arange(weights.shape[-1])
  last = jnp.max(jnp.where(weights > 0, places, 0), axis=-1, keepdims=True)
  above = (sums > threshold[:, None]) & (weights > 0)
  return jnp.min(jnp.where(above, places, last), axis=-1)


def _running_sum(x: jax.Array) -> jax.Array:
  ones = jnp.triu(jnp.ones((x.shape[-1], x.shape[-1]), x.dtype))
  return jnp.dot(x, ones, precision=jax.lax.Precision.HIGHEST)


def _truncated(
    probs: jax.Array, uniform: jax.Array, settings: Settings[jax.Array]
) -> jax.Array:
  """Samples under top_k, top_p and min_p, all judged on the full distribution.

  In descending order a token stays while its rank is below top_k, the mass
  before it is at most top_p, and it has min_p of the largest probability.
  """

  def sample(width: int):
    values, ids = jax.lax.top_k(probs, width)
    mass = jnp.cumsum(values, axis=-1)
    keep = (
        (jnp.arange(width) < settings.top_k[:, None])
        & (mass - values <= settings.top_p[:, None])
        & (values >= settings.min_p[:, None] * values[:, :1])
    )
    rank = _invert(jnp.where(keep, values, 0.0), uniform)
    chosen = jnp.take_along_axis(ids, rank[:, None], axis=-1)[:, 0]
    return chosen, keep[:, -1]

  vocab = probs.shape[-1]
  if vocab <= TOP:
    return sample(vocab)[0]
  ids, reaches_end = sample(TOP)
  # The kept tokens may extend beyond the sorted part. A row without truncation
  # must not count here, although it keeps all.
  off = (
      (settings.top_p >= 1.0)
      & (settings.top_k >= vocab)
      & (settings.min_p <= 0.0)
  )
  more = reaches_end & (settings.top_k > TOP) & ~off
  # The others keep their choice: it must not depend on who is beside them.
  return jax.lax.cond(
      jnp.any(more), lambda: jnp.where(more, sample(vocab)[0], ids), lambda: ids
  )
