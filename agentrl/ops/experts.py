"""Mixtures of experts: each token goes through the few MLPs its router chose.

Sparsely-gated mixtures are of arXiv:1701.06538; every token gets all of its
experts here (no capacity, none dropped), so a token's result depends on no
other token and sampler and trainer agree.
"""

from collections.abc import Callable

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


def mixture(
    x: jax.Array,
    weights: jax.Array,
    experts: jax.Array,
    gate: jax.Array,
    up: jax.Array,
    down: jax.Array,
    *,
    activation: Callable[[jax.Array], jax.Array],
    ragged: bool | None = None,
) -> jax.Array:
  """Weighted sums of gated MLPs, of each token's own experts.

  Args:
    x: `[N, D]` states.
    weights: `[N, K]` of the chosen experts.
    experts: `[N, K]` int, which they are.
    gate: `[E, D, F]` kernels, one an expert; cast to the type of `x` for their
      products, with gradients in their own type, as in `linear.affine`.
    up: `[E, D, F]`.
    down: `[E, F, D]`.
    activation: of the gate.
    ragged: whether tokens are sorted by expert, so that each expert computes
      its own alone (`jax.lax.ragged_dot`). Otherwise each computes all of them,
      E / K times the work. None: sorted on a TPU, where XLA has such a product;
      elsewhere it expands the product to `[E, N * K, D]`, which costs more
      still, and for large models more memory than there is.

  Returns:
    `[N, D]` in the type of `x`.
  """
  chex.assert_rank([x, weights, experts, gate, up, down], [2, 2, 2, 3, 3, 3])
  chex.assert_equal_shape([weights, experts])
  chex.assert_equal_shape([gate, up])
  if ragged is None:
    ragged = jax.default_backend() == 'tpu'
  compute = _of_chosen if ragged else _of_all
  return compute(x, weights, experts, (gate, up, down), activation).astype(
      x.dtype
  )


def _of_chosen(x, weights, experts, kernels, activation):
  count = experts.shape[1]
  chosen = experts.ravel()
  order = jnp.argsort(chosen, stable=True)
  sizes = jnp.bincount(chosen, length=kernels[0].shape[0])
  dot = lambda rows, kernel: linear.grouped(rows, kernel, sizes)
  out = _gated(x[order // count], kernels, activation, dot)
  # Back to the tokens' order by a gather: a scatter-add would sum a token's
  # experts in no fixed order on some devices.
  out = out[jnp.argsort(order)].reshape(*experts.shape, -1)
  return jnp.sum(weights[..., None] * out, axis=1)


def _of_all(x, weights, experts, kernels, activation):
  # The backward pass computes an expert again rather than keep `[E, N, F]`.
  @jax.checkpoint
  def add(total, expert):
    index, *kernels = expert
    share = jnp.sum(jnp.where(experts == index, weights, 0.0), axis=1)
    dot = lambda rows, kernel: linear.affine(rows, kernel, None)
    out = _gated(x, kernels, activation, dot)
    return total + share[:, None] * out, None

  indices = jnp.arange(kernels[0].shape[0])
  zeros = jnp.zeros(x.shape, jnp.float32)
  return jax.lax.scan(add, zeros, (indices, *kernels))[0]


def _gated(rows, kernels, activation, dot):
  gate, up, down = kernels
  return dot(activation(dot(rows, gate)) * dot(rows, up), down)
