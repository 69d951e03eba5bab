"""Log-probabilities of tokens. The only file that shifts.

A decoder's state at t predicts token t + 1. Everything that leaves this file
describes the token at its own index (what `in_chunks` gives goes by way of
`of_tokens`); the token at position 0, which nothing predicts, gets 0. Segments
of a row may all continue one shared prefix: its last state predicts the first
token of each.
"""

import functools
from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

# Log-probabilities and entropies.
Scores = tuple[jax.Array, jax.Array]


def shift_right(
    x: jax.Array, positions: jax.Array, first: jax.Array | None = None
) -> jax.Array:
  """`x` of the state at t - 1 at index t; 0 at position 0.

  Args:
    x: `[B, T]`, computed from the state at each index.
    positions: `[B, T]` int; those of a segment follow each other, and begin
      with 0 or with the length of the prefix that all segments of a row have.
    first: `[B, T]` or `[B, 1]`, computed from the last state of that prefix;
      None without one.
  """
  chex.assert_equal_shape([x, positions])
  moved = jnp.pad(x[:, :-1], ((0, 0), (1, 0)))
  if first is not None:
    # A segment that starts at P follows none that ends at P - 1.
    start = jnp.diff(positions, axis=1, prepend=-2) != 1
    moved = jnp.where(start, first, moved)
  return jnp.where(positions > 0, moved, 0)


def from_logits(
    logits: jax.Array,
    targets: jax.Array,
    *,
    temperature: float = 1.0,
    axis: str | None = None,
) -> Scores:
  """Log-probability of each target, and the entropy it was drawn with.

  The temperature divides the logits, as the sampler's does, so that both sides
  describe one distribution. One pass over the logits finds all sums: apart,
  each would be a pass of its own, forward and backward.

  Args:
    logits: `[..., V]`.
    targets: `[...]` int, or of a shape that this can be broadcast to.
    temperature: above 0.
    axis: of the mesh, inside a shard_map over it, if V is a device's part of the
      vocabulary. Targets are ids of the whole. Devices exchange a few numbers a
      token and no logits (Megatron-LM, arXiv:1909.08053, section 3).

  Returns:
    `[...]` log-probabilities and `[...]` entropies in nats, float32.
  """
  logits = logits.astype(jnp.float32) / temperature
  largest = jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
  if axis is not None:
    largest = jax.lax.pmax(largest, axis)
    own = targets - logits.shape[-1] * jax.lax.axis_index(axis)
    targets = jnp.clip(own, 0, logits.shape[-1] - 1)
  logits = logits - largest
  weights = jnp.exp(logits)
  total = jnp.sum(weights, axis=-1)
  weighted = jnp.sum(weights * logits, axis=-1)
  chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
  if axis is not None:
    chosen = jnp.where(targets == own, chosen, 0)
    total, weighted, chosen = jax.lax.psum((total, weighted, chosen), axis)
  normaliser = jnp.log(total)
  return chosen - normaliser, normaliser - weighted / total


def from_hidden(
    hidden: jax.Array,
    unembed: Callable[[jax.Array], jax.Array],
    tokens: jax.Array,
    positions: jax.Array,
    *,
    first: jax.Array | None = None,
    temperature: float = 1.0,
    chunk: int = 256,
) -> Scores:
  """`from_logits` without ever holding `[B, T, V]`: chunks along T.

  Each chunk's logits are computed again in the backward pass.

  Args:
    hidden: `[B, T, D]` final states.
    unembed: `[..., D]` states to `[..., V]` logits.
    tokens: `[B, T]` int ids.
    positions: `[B, T]` int, see `shift_right`.
    first: `[B, D]` last state of the prefix that a row's segments continue;
      None without one.
    temperature: of the sampler; divides the logits.
    chunk: columns per piece; static.

  Returns:
    `[B, T]` log-probabilities and `[B, T]` entropies, each at the index of its
    token.
  """

  def score(hidden, targets):
    return from_logits(unembed(hidden), targets, temperature=temperature)

  predict = functools.partial(in_chunks, score, chunk=chunk)
  return of_tokens(predict, hidden, tokens, positions, first)


def of_tokens(
    predict: Callable[..., tuple[Scores, Scores | None]],
    hidden: jax.Array,
    tokens: jax.Array,
    positions: jax.Array,
    first: jax.Array | None,
) -> Scores:
  """`from_hidden` for any function that scores the states.

  Args:
    predict: `in_chunks` but for its score, or the same on many devices.
    hidden: `[B, T, D]`.
    tokens: `[B, T]` int ids.
    positions: `[B, T]` int.
    first: `[B, D]` last state of the prefix; None without one.
  """
  chex.assert_equal_shape([tokens, positions])
  following = jnp.pad(tokens[:, 1:], ((0, 0), (0, 1)))
  scores, firsts = predict(
      (hidden, following), None if first is None else (first, tokens)
  )
  logprobs, entropy = (
      shift_right(x, positions, says)
      for x, says in zip(scores, firsts or (None, None), strict=True)
  )
  return logprobs, entropy


def in_chunks(
    score: Callable[[jax.Array, jax.Array], Scores],
    states: tuple[jax.Array, jax.Array],
    firsts: tuple[jax.Array, jax.Array] | None,
    *,
    chunk: int,
) -> tuple[Scores, Scores | None]:
  """Scores of the tokens that follow; rows and columns do not mix.

  Args:
    score: `[B, t, D]` states and `[B, t]` ids to scores; of a single state to
      those of all ids of its row.
    states: `[B, T, D]`, and `[B, T]` the ids that follow.
    firsts: `[B, D]` last states of prefixes, and `[B, T]` the ids of their
      rows; None without prefixes.
    chunk: columns per piece; static.

  Returns:
    `[B, T]` log-probabilities and `[B, T]` entropies, at the index of the
    state, and those from the prefixes' states.
  """
  hidden, targets = states
  batch, length, _ = hidden.shape
  first, tokens = (None, targets) if firsts is None else firsts

  @jax.checkpoint
  def say(piece):
    hidden, targets, tokens = piece
    scores = score(hidden, targets)
    if first is None:
      return scores, None
    # Again for each piece, though once would do: XLA's CPU backend gives no
    # order to what devices exchange in a loop and beside it, and processes
    # that differ in it fail.
    firsts = score(first[:, None], tokens)
    return scores, tuple(jnp.broadcast_to(x, tokens.shape) for x in firsts)

  pieces = (hidden, targets, tokens)
  if length <= chunk:
    return say(pieces)
  extra = -length % chunk

  def split(x):  # [B, T, ...] -> [pieces, B, chunk, ...]
    x = jnp.pad(x, ((0, 0), (0, extra)) + ((0, 0),) * (x.ndim - 2))
    x = x.reshape(batch, -1, chunk, *x.shape[2:])
    return jnp.moveaxis(x, 1, 0)

  def merge(x):
    return jnp.moveaxis(x, 0, 1).reshape(batch, -1)[:, :length]

  return jax.tree.map(merge, jax.lax.map(say, jax.tree.map(split, pieces)))
