"""Products with weight matrices: in training, and of few rows in decoding.

With few rows, on a CPU, XLA's product is up to three times as fast with the
large matrix first and its result turned round than with the rows first.
"""

import chex
import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

# Marks results, so that a rematerialisation policy can keep them.
NAME = 'product'

# With more rows both ways are as fast; a single one is a product of its own.
_FEW_ROWS = range(2, 65)


def large_first(rows: int) -> bool:
  """True if the large matrix should come first in a product with `rows`."""
  return rows in _FEW_ROWS and jax.default_backend() == 'cpu'


def linear(x: jax.Array, kernel: jax.Array) -> jax.Array:
  """`x @ kernel.T`, in float32 where the inputs are of less.

  Args:
    x: `[N, in]`.
    kernel: `[out, in]`.

  Returns:
    `[N, out]` float32.
  """
  chex.assert_rank([x, kernel], 2)
  if not large_first(x.shape[0]):
    return jax.lax.dot_general(
        x, kernel, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
    )
  # Without barriers the compiler would turn the product round again.
  columns = jax.lax.optimization_barrier(x.T)
  out = jnp.dot(kernel, columns, preferred_element_type=jnp.float32)
  return jax.lax.optimization_barrier(out).T


@jax.custom_vjp
def affine(
    x: jax.Array, kernel: jax.Array, bias: jax.Array | None
) -> jax.Array:
  """`x @ kernel + bias` in the type of `x`, gradients of weights in theirs.

  Left to itself, the gradient of a weight that was cast to bfloat16 is rounded
  to it before tokens of other devices and microbatches are added.

  Args:
    x: `[..., in]`.
    kernel: `[in, out]`, cast to the type of `x` for the product.
    bias: `[out]` or None; cast as well.
  """
  return _product(x, kernel, bias)


def _product(x, kernel, bias):
  out = jnp.dot(x, kernel.astype(x.dtype))
  return out if bias is None else out + bias.astype(x.dtype)


def _affine(x, kernel, bias):
  """Keeps what gradients need, None for one that nobody asks for."""
  out = _product(x.value, kernel.value, bias and bias.value)
  seen = x.value if kernel.perturbed else None
  like = bias.value if bias is not None and bias.perturbed else None
  return out, (seen, kernel.value, like)


def _affine_backward(saved, grad):
  x, kernel, bias = saved
  if isinstance(grad, SymbolicZero):
    return None, None, None
  grad_x = jax.lax.dot_general(
      grad, kernel.astype(grad.dtype), (((grad.ndim - 1,), (1,)), ((), ()))
  )
  lead = tuple(range(grad.ndim - 1))
  grad_kernel = grad_bias = None
  if x is not None:
    grad_kernel = jax.lax.dot_general(
        x, grad, ((lead, lead), ((), ())), preferred_element_type=kernel.dtype
    )
  if bias is not None:
    grad_bias = jnp.sum(grad.astype(bias.dtype), axis=lead)
  return grad_x, grad_kernel, grad_bias


affine.defvjp(_affine, _affine_backward, symbolic_zeros=True)


@jax.custom_vjp
def grouped(x: jax.Array, kernels: jax.Array, sizes: jax.Array) -> jax.Array:
  """Each group of rows times a kernel of its own; gradients as of `affine`.

  Args:
    x: `[N, in]`, the rows of group 0 first, then those of 1, ...
    kernels: `[G, in, out]`, cast to the type of `x` for the product.
    sizes: `[G]` int, rows of each group; N in all.

  Returns:
    `[N, out]` in the type of `x`.
  """
  return jax.lax.ragged_dot(x, kernels.astype(x.dtype), sizes)


def _grouped(x, kernels, sizes):
  out = grouped(x.value, kernels.value, sizes.value)
  seen = x.value if kernels.perturbed else None
  return out, (seen, kernels.value, sizes.value)


# For each group, the sum over its rows of x's row times the gradient's.
_OUTER = jax.lax.RaggedDotDimensionNumbers(
    dot_dimension_numbers=(([0], [0]), ([], [])),
    lhs_ragged_dimensions=[0],
    rhs_group_dimensions=[],
)


def _grouped_backward(saved, grad):
  x, kernels, sizes = saved
  if isinstance(grad, SymbolicZero):
    return None, None, None
  turned = jnp.swapaxes(kernels.astype(grad.dtype), 1, 2)
  grad_kernels = None
  if x is not None:
    grad_kernels = jax.lax.ragged_dot_general(
        x, grad, sizes, _OUTER, preferred_element_type=kernels.dtype
    )
  return jax.lax.ragged_dot(grad, turned, sizes), grad_kernels, None


grouped.defvjp(_grouped, _grouped_backward, symbolic_zeros=True)
