"""Log-probabilities of tokens. The only file that shifts.

A decoder's state at t predicts token t + 1. Everything that leaves this file
describes the token at its own index; the token at position 0, which nothing
predicts, gets 0. Segments of a row may all continue one shared prefix: its last
state predicts the first token of each.
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp


def shift_right(
    x: jax.Array, positions: jax.Array, first: jax.Array | None = None
) -> jax.Array:
  """Moves what state t - 1 says to index t; 0 at position 0.

  Args:
    x: `[B, T]`, computed from the state at each index.
    positions: `[B, T]` int; those of a segment follow each other, and begin
      with 0 or with the length of the prefix that all segments of a row have.
    first: `[B, T]` or `[B, 1]`, computed from the last state of that prefix;
      None: there is none.
  """
  chex.assert_equal_shape([x, positions])
  moved = jnp.pad(x[:, :-1], ((0, 0), (1, 0)))
  if first is not None:
    # A segment that starts at P follows none that ends at P - 1.
    start = jnp.diff(positions, axis=1, prepend=-2) != 1
    moved = jnp.where(start, first, moved)
  return jnp.where(positions > 0, moved, 0)


def from_logits(
    logits: jax.Array, targets: jax.Array, *, temperature: float = 1.0
) -> tuple[jax.Array, jax.Array]:
  """Log-probability of each target, and the entropy it was drawn with.

  The temperature divides the logits, as the sampler's does, so that both sides
  speak of one distribution.

  Args:
    logits: `[..., V]`.
    targets: `[...]` int, or of a shape that this can be broadcast to.
    temperature: above 0.

  Returns:
    `[...]` log-probabilities and `[...]` entropies in nats, float32.
  """
  logits = logits.astype(jnp.float32) / temperature
  normaliser = jax.nn.logsumexp(logits, axis=-1)
  chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
  mean_logit = jnp.sum(jax.nn.softmax(logits, axis=-1) * logits, axis=-1)
  return chosen - normaliser, normaliser - mean_logit


def from_hidden(
    hidden: jax.Array,
    unembed: Callable[[jax.Array], jax.Array],
    tokens: jax.Array,
    positions: jax.Array,
    *,
    first: jax.Array | None = None,
    temperature: float = 1.0,
    chunk: int = 256,
    shards: int = 1,
) -> tuple[jax.Array, jax.Array]:
  """`from_logits` without ever holding `[B, T, V]`: chunks along T.

  Each chunk's logits are computed again in the backward pass.

  Args:
    hidden: `[B, T, D]` final states.
    unembed: `[..., D]` states to `[..., V]` logits.
    tokens: `[B, T]` int ids.
    positions: `[B, T]` int, see `shift_right`.
    first: `[B, D]` last state of the prefix that a row's segments continue;
      None: there is none.
    temperature: of the sampler; divides the logits.
    chunk: columns per piece, of each shard; static.
    shards: over how many devices T is split evenly; static. A piece takes
      columns of every shard, so that each device works on its own.

  Returns:
    `[B, T]` log-probabilities and `[B, T]` entropies, each at the index of the
    token that they speak of.
  """
  chex.assert_equal_shape([tokens, positions])
  batch, length, _ = hidden.shape
  targets = jnp.pad(tokens[:, 1:], ((0, 0), (0, 1)))

  @jax.checkpoint
  def score(piece):
    states, targets = piece
    return from_logits(unembed(states), targets, temperature=temperature)

  width = length // shards
  if width <= chunk:
    logprobs, entropy = score((hidden, targets))
  else:
    extra = -width % chunk
    pieces = (width + extra) // chunk

    def split(x):  # [B, T, ...] -> [pieces, B, shards, chunk, ...]
      x = x.reshape(batch, shards, width, *x.shape[2:])
      x = jnp.pad(x, ((0, 0), (0, 0), (0, extra)) + ((0, 0),) * (x.ndim - 3))
      x = x.reshape(batch, shards, pieces, chunk, *x.shape[3:])
      return jnp.moveaxis(x, 2, 0)

    def merge(x):
      x = jnp.moveaxis(x, 0, 2).reshape(batch, shards, -1)
      return x[:, :, :width].reshape(batch, length)

    logprobs, entropy = map(
        merge, jax.lax.map(score, (split(hidden), split(targets)))
    )
  firsts = (None, None)
  if first is not None:
    firsts = score((first[:, None], tokens))
  return tuple(
      shift_right(x, positions, says)
      for x, says in zip((logprobs, entropy), firsts, strict=True)
  )
