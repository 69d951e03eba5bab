"""Mixtures of experts: each token goes through the few MLPs its router chose.

Sparsely-gated mixtures are of arXiv:1701.06538; every token gets all of its
experts here (no capacity, none dropped), so a token's result depends on no
other token and sampler and trainer agree.
"""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.ops import linear


def route(
    logits: jax.Array, *, count: int, normalise: bool
) -> tuple[jax.Array, jax.Array]:
  """Chooses the likeliest experts of each token.

  Args:
    logits: `[N, E]` of the router.
    count: K, experts a token; static.
    normalise: whether the chosen weights are scaled to sum to 1.

  Returns:
    `[N, K]` float32 weights and `[N, K]` int32 experts, the likeliest first.
  """
  chex.assert_rank(logits, 2)
  probabilities = jax.nn.softmax(logits.astype(jnp.float32), axis=-1)
  weights, experts = jax.lax.top_k(probabilities, count)
  if normalise:
    weights = weights / jnp.sum(weights, axis=-1, keepdims=True)
  return weights, experts


class Kernels(NamedTuple):
  """The weights of all experts.

  Attributes:
    inner: `[E, D, F]` each, whose results the unit takes: a gate and what it
      gates, or both in one.
    outer: `[E, F, D]`, after the unit.
    inner_bias: `[E, F]` of each of `inner`; empty without biases.
    outer_bias: `[E, D]`; None without.
  """

  inner: tuple[jax.Array, ...]
  outer: jax.Array
  inner_bias: tuple[jax.Array, ...] = ()
  outer_bias: jax.Array | None = None


def mixture(
    x: jax.Array,
    weights: jax.Array,
    experts: jax.Array,
    kernels: Kernels,
    *,
    unit: Callable[..., jax.Array],
    ragged: bool | None = None,
) -> jax.Array:
  """Weighted sums of gated MLPs, of each token's own experts.

  Args:
    x: `[N, D]` states.
    weights: `[N, K]` of the chosen experts.
    experts: `[N, K]` int, which they are.
    kernels: cast to the type of `x` for their products, with gradients in their
      own type, as in `linear.affine`.
    unit: of the products with `kernels.inner`, each `[N, F]`.
    ragged: whether tokens are sorted by expert, so that each expert computes
      its own alone (`jax.lax.ragged_dot`). Otherwise each computes all of them,
      E / K times the work. None: sorted on a TPU, where XLA has such a product;
      elsewhere it expands the product to `[E, N * K, D]`, which costs more
      still, and for large models more memory than there is.

  Returns:
    `[N, D]` in the type of `x`.
  """
  chex.assert_rank([x, weights, experts], 2)
  chex.assert_rank([*kernels.inner, kernels.outer], 3)
  chex.assert_equal_shape([weights, experts])
  chex.assert_equal_shape(kernels.inner)
  if ragged is None:
    ragged = jax.default_backend() == 'tpu'
  compute = _of_chosen if ragged else _of_all
  return compute(x, weights, experts, kernels, unit).astype(x.dtype)


def _of_chosen(x, weights, experts, kernels, unit):
  count = experts.shape[1]
  chosen = experts.ravel()
  order = jnp.argsort(chosen, stable=True)
  sizes = jnp.bincount(chosen, length=kernels.outer.shape[0])
  owners = chosen[order]

  def dot(rows, kernel, bias):
    out = linear.grouped(rows, kernel, sizes)
    return out if bias is None else out + bias[owners].astype(out.dtype)

  out = _gated(x[order // count], kernels, unit, dot)
  # Back to the tokens' order by a gather: a scatter-add would sum a token's
  # experts in no fixed order on some devices.
  out = out[jnp.argsort(order)].reshape(*experts.shape, -1)
  return jnp.sum(weights[..., None] * out, axis=1)


def _of_all(x, weights, experts, kernels, unit):
  # The backward pass computes an expert again rather than keep `[E, N, F]`.
  @jax.checkpoint
  def add(total, expert):
    index, kernels = expert
    share = jnp.sum(jnp.where(experts == index, weights, 0.0), axis=1)
    out = _gated(x, kernels, unit, linear.affine)
    return total + share[:, None] * out, None

  indices = jnp.arange(kernels.outer.shape[0])
  zeros = jnp.zeros(x.shape, jnp.float32)
  return jax.lax.scan(add, zeros, (indices, kernels))[0]


def _gated(rows, kernels, unit, dot):
  biases = kernels.inner_bias or (None,) * len(kernels.inner)
  inner = [
      dot(rows, kernel, bias)
      for kernel, bias in zip(kernels.inner, biases, strict=True)
  ]
  return dot(unit(*inner), kernels.outer, kernels.outer_bias)


def clamped_unit(inner: jax.Array, limit: float) -> jax.Array:
  """gpt-oss's gated unit (arXiv:2508.10925).

  Args:
    inner: `[..., 2 F]`: gates at even places, what they gate at odd ones.
    limit: of a gate, above; of the other, on both sides.

  Returns:
    `[..., F]`.
  """
  gate = jnp.minimum(inner[..., ::2], limit)
  up = jnp.clip(inner[..., 1::2], -limit, limit)
  return (up + 1) * gate * jax.nn.sigmoid(1.702 * gate)
