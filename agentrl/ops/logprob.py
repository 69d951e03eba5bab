"""Log-probabilities of tokens. The only file that shifts.

A decoder's state at t predicts token t + 1. Everything that leaves this file
describes the token at its own index; the first token of a segment, which
nothing predicts, gets 0.
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp


def shift_right(x: jax.Array, positions: jax.Array) -> jax.Array:
  """Moves what state t - 1 says to index t; 0 at the start of a segment.

  Args:
    x: `[B, T]`, computed from the state at each index.
    positions: `[B, T]` int, 0 at the first token of each segment.
  """
  chex.assert_equal_shape([x, positions])
  moved = jnp.pad(x[:, :-1], ((0, 0), (1, 0)))
  return jnp.where(positions > 0, moved, 0)


def from_logits(
    logits: jax.Array, targets: jax.Array, *, temperature: float = 1.0
) -> tuple[jax.Array, jax.Array]:
  """Log-probability of each target, and the entropy it was drawn with.

  The temperature divides the logits, as the sampler's does, so that both sides
  speak of one distribution.

  Args:
    logits: `[..., V]`.
    targets: `[...]` int.
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
    temperature: float = 1.0,
    chunk: int = 256,
) -> tuple[jax.Array, jax.Array]:
  """`from_logits` without ever holding `[B, T, V]`: chunks along T.

  Each chunk's logits are computed again in the backward pass.

  Args:
    hidden: `[B, T, D]` final states.
    unembed: `[..., D]` states to `[..., V]` logits.
    tokens: `[B, T]` int ids.
    positions: `[B, T]` int, 0 at the first token of each segment.
    temperature: of the sampler; divides the logits.
    chunk: columns per piece; static.

  Returns:
    `[B, T]` log-probabilities and `[B, T]` entropies, each at the index of the
    token that they speak of.
  """
  chex.assert_equal_shape([tokens, positions])
  batch, length, dim = hidden.shape
  targets = jnp.pad(tokens[:, 1:], ((0, 0), (0, 1)))

  @jax.checkpoint
  def score(piece):
    states, targets = piece
    return from_logits(unembed(states), targets, temperature=temperature)

  if length <= chunk:
    logprobs, entropy = score((hidden, targets))
  else:
    extra = -length % chunk
    pieces = (length + extra) // chunk
    split = lambda x: jnp.swapaxes(x.reshape(batch, pieces, chunk, -1), 0, 1)
    states = split(jnp.pad(hidden, ((0, 0), (0, extra), (0, 0))))
    targets = split(jnp.pad(targets, ((0, 0), (0, extra))))[..., 0]
    merge = lambda x: jnp.swapaxes(x, 0, 1).reshape(batch, -1)[:, :length]
    logprobs, entropy = map(merge, jax.lax.map(score, (states, targets)))
  return shift_right(logprobs, positions), shift_right(entropy, positions)
