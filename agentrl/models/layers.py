"""The layers of which a decoder's are made: products with weights, norms."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.ad_checkpoint import checkpoint_name

from agentrl.models.config import TransformerConfig
from agentrl.ops.linear import NAME, affine, linear


class Dense(nn.Module):
  """A product with a weight matrix: `[N, in]` -> `[N, features]`.

  Where the collection 'lora' has matrices of this place, theirs is added; see
  `models.lora`.

  Attributes:
    features: columns of the result.
    dtype: of the product.
    out_first: whether the matrix lies as [features, in], the engine's layout.
    bias: whether a bias is added.
  """

  features: int
  dtype: Any
  out_first: bool
  bias: bool = False

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    shape = (x.shape[-1], self.features)
    kernel = self.param(
        'kernel',
        nn.initializers.normal(0.02),
        shape[::-1] if self.out_first else shape,
    )
    bias = None
    if self.bias:
      bias = self.param('bias', nn.initializers.zeros, (self.features,))
    x = x.astype(self.dtype)
    if self.out_first:
      out = linear(x, kernel.astype(self.dtype)).astype(self.dtype)
      out = out if bias is None else out + bias.astype(self.dtype)
    else:
      out = affine(x, kernel, bias)
    if self.has_variable('lora', 'a'):
      a: jax.Array = self.get_variable('lora', 'a')
      b: jax.Array = self.get_variable('lora', 'b')
      inner = checkpoint_name(affine(x, a, None), NAME)
      out = out + affine(inner, b, None)
    # The sum and not its two parts: a policy that keeps it keeps half as much.
    return checkpoint_name(out, NAME)


class RMSNorm(nn.Module):
  """Root mean square normalisation (arXiv:1910.07467), in float32.

  Attributes:
    eps: added to the mean square.
    offset: added to the scale.
    divisor: of the scale.
  """

  eps: float
  offset: float = 0.0
  divisor: float = 1.0

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    init = nn.initializers.constant(1.0 - self.offset)
    scale = self.param('scale', init, (x.shape[-1],)).astype(jnp.float32)
    if self.offset:
      scale = scale + self.offset
    if self.divisor != 1:
      scale = scale / self.divisor
    return (_normed(x, self.eps) * scale).astype(x.dtype)


def _normed(x: jax.Array, eps: float) -> jax.Array:
  x32 = x.astype(jnp.float32)
  mean_square = jnp.mean(x32 * x32, axis=-1, keepdims=True)
  return x32 * jax.lax.rsqrt(mean_square + eps)


def normalise(x: jax.Array, eps: float) -> jax.Array:
  """`RMSNorm` without a scale of `[..., D]`, in the type of `x`."""
  return _normed(x, eps).astype(x.dtype)


def norm(
    config: TransformerConfig, name: str | None = None, divisor: float = 1.0
) -> RMSNorm:
  """The normalisation of a family of decoders."""
  return RMSNorm(config.rms_norm_eps, config.norm_offset, divisor, name=name)
