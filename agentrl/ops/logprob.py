"""Log-probabilities of tokens. The only file that shifts.

A decoder's state at t predicts token t + 1. Everything that leaves this file
describes the token at its own index; the token at position 0, which nothing
predicts, gets 0. Segments of a row may all continue one shared prefix: its last
state predicts the first token of each.
"""

import functools
from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

# Log-probabilities and entropies.
Scores = tuple[jax.Array, jax.Array]


# States whose logits are computed at a time. A chunk is computed if any of its
# tokens is wanted, so small ones waste less. On a GPU few rows do not pay for
# reading the output kernel, and for adding up its gradient.
_CHUNK_CPU, _CHUNK = 256, 1024


def shift_right(
    x: jax.Array, positions: jax.Array, first: jax.Array | None = None
) -> jax.Array:
  """`x` of the state at t - 1 at index t; 0 at position 0.

  Args:
    x: `[B, T, ...]`, computed from the state at each index.
    positions: `[B, T]` int; those of a segment follow each other, and begin
      with 0 or with the length of the prefix that all segments of a row have.
    first: `[B, T, ...]` or `[B, 1, ...]`, computed from the last state of that
      prefix; None without one.
  """
  chex.assert_equal_shape_prefix([x, positions], 2)
  rest = x.ndim - 2
  moved = jnp.pad(x[:, :-1], ((0, 0), (1, 0)) + ((0, 0),) * rest)
  spread = lambda mask: mask.reshape(*mask.shape, *(1,) * rest)
  if first is not None:
    # A segment that starts at P follows none that ends at P - 1.
    start = jnp.diff(positions, axis=1, prepend=-2) != 1
    moved = jnp.where(spread(start), first, moved)
  return jnp.where(spread(positions > 0), moved, 0)


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
    wanted: jax.Array | None = None,
    temperature: float = 1.0,
    chunk: int | None = None,
) -> Scores:
  """`from_logits` without ever holding `[B, T, V]`: a chunk of tokens at a time.

  Each chunk's logits are computed again in the backward pass.

  Args:
    hidden: `[B, T, D]` final states.
    unembed: `[..., D]` states to `[..., V]` logits.
    tokens: `[B, T]` int ids.
    positions: `[B, T]` int, see `shift_right`.
    first: `[B, D]` last state of the prefix that a row's segments continue;
      None without one.
    wanted: `[B, T]` bool, see `in_chunks`; None: all tokens.
    temperature: of the sampler; divides the logits.
    chunk: see `in_chunks`.

  Returns:
    `[B, T]` log-probabilities and `[B, T]` entropies, each at the index of its
    token.
  """

  def score(states, targets):
    return from_logits(unembed(states), targets, temperature=temperature)

  predict = functools.partial(in_chunks, score, chunk=chunk)
  return of_tokens(predict, hidden, tokens, positions, first, wanted)


def of_tokens(
    predict: Callable[[jax.Array, jax.Array, jax.Array], Scores],
    hidden: jax.Array,
    tokens: jax.Array,
    positions: jax.Array,
    first: jax.Array | None,
    wanted: jax.Array | None,
) -> Scores:
  """`from_hidden` for any function that scores the states.

  Args:
    predict: `in_chunks` but for its score, or the same on many devices.
    hidden: `[B, T, D]`.
    tokens: `[B, T]` int ids.
    positions: `[B, T]` int.
    first: `[B, D]` last state of the prefix; None without one.
    wanted: `[B, T]` bool; None: all tokens.
  """
  chex.assert_equal_shape([tokens, positions])
  predicted = positions > 0
  wanted = predicted if wanted is None else wanted & predicted
  states = shift_right(
      hidden, positions, None if first is None else first[:, None]
  )
  return predict(states, tokens, wanted)


def in_chunks(
    score: Callable[[jax.Array, jax.Array], Scores],
    states: jax.Array,
    tokens: jax.Array,
    wanted: jax.Array,
    *,
    chunk: int | None = None,
    axes: tuple[str, ...] = (),
) -> Scores:
  """Scores of the wanted tokens, 0 for others.

  Wanted tokens come first, in order, and chunks without any are left out: a
  loss of agents reads sampled tokens, which are few. The shapes are those of all
  tokens, so their number needs no program of its own.

  Args:
    score: `[N, D]` states and `[N]` ids to scores.
    states: `[B, T, D]` that predict the tokens, see `shift_right`.
    tokens: `[B, T]` int ids.
    wanted: `[B, T]` bool.
    chunk: tokens at a time; static. None: what suits the machine.
    axes: of a mesh, inside a shard_map over it, whose devices leave out the same
      chunks, because others exchange numbers in `score`.

  Returns:
    `[B, T]` log-probabilities and `[B, T]` entropies.
  """
  chex.assert_equal_shape([tokens, wanted])
  if chunk is None:
    chunk = _CHUNK_CPU if jax.default_backend() == 'cpu' else _CHUNK
  keep = lambda x: jnp.where(wanted, x.reshape(wanted.shape), 0)
  flat = states.reshape(-1, states.shape[-1]), tokens.ravel()
  size = tokens.size
  if size <= chunk:
    logprobs, entropy = jax.checkpoint(score)(*flat)
    return keep(logprobs), keep(entropy)
  order = jnp.argsort(~wanted.ravel(), stable=True)
  back = jnp.argsort(order)
  count = jnp.sum(wanted)
  count = jax.lax.pmax(count, axes) if axes else count

  def nothing(states, targets):
    del states
    zeros = (0 * targets).astype(jnp.float32)  # on the devices of the targets
    return zeros, zeros

  # Outside of the condition: what a branch keeps is kept for each chunk.
  @jax.checkpoint
  def say(piece):
    start, *piece = piece
    return jax.lax.cond(start < count, score, nothing, *piece)

  def split(x):
    x = jnp.pad(x, ((0, -size % chunk),) + ((0, 0),) * (x.ndim - 1))
    return x.reshape(-1, chunk, *x.shape[1:])

  def merge(x):
    return keep(_permute(x.ravel()[:size], back, order))

  pieces = [split(_permute(x, order, back)) for x in flat]
  starts = chunk * jnp.arange(len(pieces[1]))
  logprobs, entropy = jax.lax.map(say, (starts, *pieces))
  return merge(logprobs), merge(entropy)


@jax.custom_vjp
def _permute(x: jax.Array, order: jax.Array, back: jax.Array) -> jax.Array:
  """`x[order]`; backward the same by `back`, where a gather's is a scatter."""
  del back
  return jnp.take(x, order, axis=0, mode='clip')


def _permute_forward(x, order, back):
  return _permute(x, order, back), (order, back)


def _permute_backward(saved, grad):
  order, back = saved
  return _permute(grad, back, order), None, None


_permute.defvjp(_permute_forward, _permute_backward)
