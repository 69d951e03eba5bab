"""The ratio of two probabilities, from its logarithm.

exp overflows float32 from 89 on, and an infinite ratio makes NaN of every
product with 0, where clipping left no gradient too. So the logarithm is bounded
as verl bounds it: beyond 20 the ratio is that of the bound, exp(20) = 4.9e8, and
has no gradient.
"""

import jax
import jax.numpy as jnp

LARGEST_LOG = 20.0  # nats


def from_log(log_ratio: jax.Array) -> jax.Array:
  """The ratio, of `log_ratio`'s shape; within [exp(-20), exp(20)]."""
  # Not clip, whose gradient at the bound itself is another's in each version.
  bounded = jnp.where(
      is_bounded(log_ratio),
      jax.lax.stop_gradient(jnp.sign(log_ratio) * LARGEST_LOG),
      log_ratio,
  )
  return jnp.exp(bounded)


def is_bounded(log_ratio: jax.Array) -> jax.Array:
  """Where `from_log` is the bound's value: bool, of the same shape."""
  return jnp.abs(log_ratio) > LARGEST_LOG


def k3(log_ratio: jax.Array) -> jax.Array:
  """The value r - 1 - log r, of `log_ratio`'s shape: a term of a KL, never negative.

  See `ops.kl`. Beyond the bound it has the bound's value and no gradient; far
  below it is -log r - 1, and exact.
  """
  return from_log(log_ratio) - 1 - jnp.minimum(log_ratio, LARGEST_LOG)
