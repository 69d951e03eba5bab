"""Choosing the next token of each row, and its log-probability.

One uniform number a row and step decides (inverse transform sampling), so a
row's choice depends on its own logits, settings and seed, never on the rows
beside it. Settings are arrays: a new temperature compiles nothing.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

# SGLang's rule: a lower temperature means greedy, scored at temperature 1.
GREEDY_BELOW = 1e-6
# Logits that the truncated path sorts. Rows that keep more tokens than this
# (a large top_k, a flat distribution under top_p) pay for a full sort.
TOP = 128


class Settings(NamedTuple):
  """Sampling settings, one entry a row."""

  temperature: jax.Array  # [B] float32; below GREEDY_BELOW is greedy
  top_p: jax.Array  # [B] float32, 1 is off
  top_k: jax.Array  # [B] int32, vocabulary size or more is off
  min_p: jax.Array  # [B] float32, 0 is off


def uniforms(seeds: jax.Array, positions: jax.Array) -> jax.Array:
  """One number in [0, 1) for each row and position.

  Args:
    seeds: `[B]` uint32.
    positions: `[B, K]` int, where in its sequence the sampled token will stand.

  Returns:
    `[B, K]` float32, a function of seed and position alone.
  """

  def draw(seed, position):
    # Named, because a process may have made another generator its default.
    key = jax.random.key(seed, impl='threefry2x32')
    return jax.random.uniform(jax.random.fold_in(key, position))

  return jax.vmap(jax.vmap(draw, (None, 0)))(seeds, positions)


def choose(
    logits: jax.Array,
    uniform: jax.Array,
    settings: Settings,
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
  scale = jnp.where(greedy, 1.0, settings.temperature)[:, None]
  logprobs = jax.nn.log_softmax(logits / scale, axis=-1)
  probs = jnp.exp(logprobs)
  ids = _invert(jnp.cumsum(probs, axis=-1), uniform)
  if truncated:
    cut = (
        (settings.top_p < 1.0)
        | (settings.top_k < logits.shape[-1])
        | (settings.min_p > 0.0)
    )
    ids = jnp.where(cut, _truncated(probs, uniform, settings), ids)
  ids = jnp.where(greedy, jnp.argmax(logits, axis=-1), ids).astype(jnp.int32)
  return ids, jnp.take_along_axis(logprobs, ids[:, None], axis=-1)[:, 0]


def _invert(cumulative: jax.Array, uniform: jax.Array) -> jax.Array:
  """First index whose running sum exceeds uniform * total: `[B]` of `[B, N]`.

  An entry that adds nothing is never chosen; rounding in the sum only rescales.
  """
  threshold = uniform[:, None] * cumulative[:, -1:]
  index = jnp.sum(cumulative <= threshold, axis=-1)
  return jnp.minimum(index, cumulative.shape[-1] - 1)  # NaNs stay inside


def _truncated(
    probs: jax.Array, uniform: jax.Array, settings: Settings
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
    rank = _invert(jnp.cumsum(jnp.where(keep, values, 0.0), axis=-1), uniform)
    chosen = jnp.take_along_axis(ids, rank[:, None], axis=-1)[:, 0]
    return chosen, keep[:, -1]

  vocab = probs.shape[-1]
  if vocab <= TOP:
    return sample(vocab)[0]
  ids, reaches_end = sample(TOP)
  # What stays may go on beyond the sorted part. A row without truncation asks
  # for nothing here, but would look as if it did.
  off = (
      (settings.top_p >= 1.0)
      & (settings.top_k >= vocab)
      & (settings.min_p <= 0.0)
  )
  more = jnp.any(reaches_end & (settings.top_k > TOP) & ~off)
  return jax.lax.cond(more, lambda: sample(vocab)[0], lambda: ids)
