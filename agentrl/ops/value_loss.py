"""The critic's loss."""

import chex
import jax
import jax.numpy as jnp


def clipped(
    values: jax.Array,
    old_values: jax.Array,
    returns: jax.Array,
    *,
    clip: float | None,
) -> tuple[jax.Array, jax.Array]:
  """Half the squared error, pessimistic about large moves.

      loss = max((V - R)^2, (clip(V, V_old - c, V_old + c) - R)^2) / 2

  Value clipping is of PPO's reference code rather than of its paper
  (github.com/openai/baselines, ppo2).

  Args:
    values: `[B, T]`; the only differentiated input.
    old_values: `[B, T]` before the update.
    returns: `[B, T]` targets.
    clip: c, in units of the return; None: the plain squared error.

  Returns:
    `[B, T]` losses, and `[B, T]` bool: where clipping left no gradient.
  """
  chex.assert_equal_shape([values, old_values, returns])
  plain = (values - returns) ** 2
  if clip is None:
    return plain / 2, jnp.zeros_like(plain, bool)
  # Exactly V inside the range: a rounded one would count as clipped.
  near = jnp.clip(values, old_values - clip, old_values + clip)
  limited = (near - returns) ** 2
  return jnp.maximum(plain, limited) / 2, limited > plain
