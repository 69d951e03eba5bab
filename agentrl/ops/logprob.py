"""Log-probabilities of tokens. The only file that shifts.

A decoder's state at t predicts token t + 1. Everything that leaves this file
describes the token at its own index; the token at position 0, which nothing
predicts, gets 0. Segments of a row may all continue one shared prefix: its last
state predicts the first token of each.
"""

from collections.abc import Callable
from typing import NamedTuple

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
    chunk: columns per piece; static.

  Returns:
    `[B, T]` log-probabilities and `[B, T]` entropies, each at the index of the
    token that they speak of.
  """
  chex.assert_equal_shape([tokens, positions])

  def score(hidden, targets):
    return from_logits(unembed(hidden), targets, temperature=temperature)

  said = predict(
      score,
      (hidden, following(tokens)),
      None if first is None else (first, tokens),
      chunk=chunk,
  )
  return at_own_index(said, positions)


def following(tokens: jax.Array) -> jax.Array:
  """`[B, T]` ids: of each token the next in its row; 0 after the last."""
  return jnp.pad(tokens[:, 1:], ((0, 0), (0, 1)))


class Said(NamedTuple):
  """Log-probabilities and entropies, at the index of the state that says so.

  Attributes:
    states: `[B, T]` each, of the tokens that follow.
    firsts: of the last state of a prefix: `[B, T]`, of any token of the row,
      and `[B, 1]`; None: there is none.
  """

  states: tuple[jax.Array, jax.Array]
  firsts: tuple[jax.Array, jax.Array] | None


def at_own_index(
    said: Said, positions: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """What `predict` returns, moved to the tokens; see `from_hidden`."""
  firsts = (None, None) if said.firsts is None else said.firsts
  return tuple(
      shift_right(x, positions, first)
      for x, first in zip(said.states, firsts, strict=True)
  )


def predict(
    score: Callable[..., tuple[jax.Array, jax.Array]],
    states: tuple[jax.Array, jax.Array],
    firsts: tuple[jax.Array, jax.Array] | None,
    *,
    chunk: int,
) -> Said:
  """`from_hidden` before the shift: rows and columns each for themselves.

  Args:
    score: `[B, t, D]` states and `[B, t]` ids to the log-probabilities and
      entropies of `from_logits`; a single state speaks of all ids of its row.
    states: `[B, T, D]`, and `[B, T]` the tokens that follow.
    firsts: `[B, D]`, and `[B, T]` the tokens of the row; None: no prefix.
    chunk: columns per piece; static.
  """
  score = jax.checkpoint(score)
  hidden, targets = states
  batch, length, _ = hidden.shape
  if length <= chunk:
    found = score(hidden, targets)
  else:
    extra = -length % chunk

    def split(x):  # [B, T, ...] -> [pieces, B, chunk, ...]
      x = jnp.pad(x, ((0, 0), (0, extra)) + ((0, 0),) * (x.ndim - 2))
      x = x.reshape(batch, -1, chunk, *x.shape[2:])
      return jnp.moveaxis(x, 1, 0)

    def merge(x):  # and back
      return jnp.moveaxis(x, 0, 1).reshape(batch, -1)[:, :length]

    pieces = split(hidden), split(targets)
    found = tuple(map(merge, jax.lax.map(lambda piece: score(*piece), pieces)))
  if firsts is None:
    return Said(found, None)
  first, tokens = firsts
  return Said(found, score(first[:, None], tokens))
