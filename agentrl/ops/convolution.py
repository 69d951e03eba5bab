"""Short causal convolutions over the tokens of packed rows, column by column."""

import jax
import jax.numpy as jnp


def causal(
    x: jax.Array,
    kernel: jax.Array,
    segment_ids: jax.Array,
    inputs: jax.Array | None = None,
) -> jax.Array:
  """The sum over a token and those before it in its segment, weighted.

  Args:
    x: `[B, T, C]`.
    kernel: `[C, K]`, the token's own weight last.
    segment_ids: `[B, T]` int; tokens of a segment lie side by side.
    inputs: `[B, K - 1, C]` before each segment of a row; None: zeros.

  Returns:
    `[B, T, C]`.
  """
  index = jnp.arange(x.shape[1])
  before = jnp.concatenate([segment_ids[:, :1], segment_ids[:, :-1]], axis=1)
  starts = jnp.where(segment_ids != before, index, 0)
  place = index - jax.lax.cummax(starts, axis=1)  # in its segment, [B, T]
  taps = kernel.shape[1]
  out = x * kernel[:, -1]
  for lag in range(1, taps):
    shifted = jnp.pad(x, [(0, 0), (lag, 0), (0, 0)])[:, : x.shape[1]]
    rest = jnp.zeros((), x.dtype)
    if inputs is not None:
      # Of `inputs`, from their end.
      where = jnp.clip(taps - 1 + place - lag, 0, taps - 2)
      rest = jnp.take_along_axis(inputs.astype(x.dtype), where[..., None], 1)
    term = jnp.where((place >= lag)[..., None], shifted, rest)
    out = out + term * kernel[:, -1 - lag]
  return out


def last_inputs(
    x: jax.Array, segment_ids: jax.Array, inputs: jax.Array | None, count: int
) -> jax.Array:
  """The last tokens of rows of one segment, from which `causal` goes on.

  Args:
    x: `[B, T, C]`.
    segment_ids: `[B, T]` int; 0 is padding, which comes last.
    inputs: `[B, count, C]` before the row; None: zeros.
    count: K - 1.

  Returns:
    `[B, count, C]`, of the type of `inputs`.
  """
  if inputs is None:
    inputs = jnp.zeros((x.shape[0], count, x.shape[2]), x.dtype)
  every = jnp.concatenate([inputs, x.astype(inputs.dtype)], axis=1)
  real = jnp.sum(segment_ids != 0, axis=1)
  where = real[:, None] + jnp.arange(count)
  return jnp.take_along_axis(every, where[..., None], axis=1)
