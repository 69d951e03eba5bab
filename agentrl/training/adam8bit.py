"""Adam whose moments take a byte a number (arXiv:2110.02861).

A moment is cut along its last axis into blocks of 256 numbers. Each block is
divided by its largest magnitude, which is kept as float32, and each quotient
becomes a code: of the decades below 1, each is cut into half as many cells as
the one above it, and a number becomes the middle of its cell. So what is large
is kept to 0.4% of the largest, and what is a millionth of it is still there.

The codes have the parameter's own shape, so that they lie on a mesh as it does.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

BLOCK = 256
_DECADES = 7


class State(NamedTuple):
  """Trees of the parameters' structure, but for the count."""

  # Scalar int32: updates so far.
  count: jax.Array  # type: ignore[assignment]  # hides tuple.count, as in optax
  mu_codes: Any  # int8, the parameter's shape
  mu_scales: Any  # float32, [..., blocks]
  nu_codes: Any  # uint8
  nu_scales: Any


def quantise(x: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Codes of `[..., N]` numbers, int8, and their blocks' `[..., blocks]` scales."""
  blocks, scales = _in_units(x)
  codes = jnp.sign(blocks).astype(jnp.int32) * _encode(jnp.abs(blocks), 6)
  return _whole(codes.astype(jnp.int8), x.shape), scales


def quantise_squares(x: jax.Array) -> tuple[jax.Array, jax.Array]:
  """`quantise` of numbers that are not negative, as uint8, twice as fine."""
  blocks, scales = _in_units(x)
  return _whole(_encode(blocks, 7).astype(jnp.uint8), x.shape), scales


def dequantise(codes: jax.Array, scales: jax.Array) -> jax.Array:
  """The `[..., N]` float32 numbers that these are codes of."""
  signed = codes.dtype == jnp.int8
  blocks = _in_blocks(codes).astype(jnp.int32)
  unit = jnp.asarray(values(6 if signed else 7))[jnp.abs(blocks)]
  unit = jnp.sign(blocks) * unit if signed else unit
  return _whole(unit * scales[..., None], codes.shape)


def scale_by_adam8bit(
    b1: float, b2: float, eps: float
) -> optax.GradientTransformation:
  """`optax.scale_by_adam` for matrices, with moments in 8 bits.

  A step is computed with the moments before they are rounded.

  Args:
    b1: decay of the first moment.
    b2: decay of the second moment.
    eps: added to the root of the second moment.
  """

  def init(params):
    codes = lambda dtype: jax.tree.map(
        lambda x: jnp.zeros(x.shape, dtype), params
    )
    scales = lambda: jax.tree.map(
        lambda x: jnp.zeros((*x.shape[:-1], -(-x.shape[-1] // BLOCK))), params
    )
    count = jnp.zeros((), jnp.int32)
    return State(count, codes(jnp.int8), scales(), codes(jnp.uint8), scales())

  def update(grads, state, params=None):
    del params
    count = optax.safe_increment(state.count)

    def one(g, *kept):
      m = b1 * dequantise(*kept[:2]) + (1 - b1) * g
      v = b2 * dequantise(*kept[2:]) + (1 - b2) * g * g
      root = jnp.sqrt(v / (1 - b2**count)) + eps
      return m / (1 - b1**count) / root, *quantise(m), *quantise_squares(v)

    results = jax.tree.map(one, grads, *state[1:])
    steps, *kept = (
        jax.tree.map(lambda _, new, i=i: new[i], grads, results)
        for i in range(len(state))
    )
    return steps, State(count, *kept)

  return optax.GradientTransformation(init, update)


def values(bits: int) -> np.ndarray:
  """The numbers from 0 to 1 that the codes stand for, ascending.

  Args:
    bits: the upmost decade has 2^bits values.
  """
  # Below all decades. A second moment must not become 0, or the step would be
  # divided by eps alone; code 0 of a first moment has no sign and is 0.
  magnitudes = [0.55 * 10.0**-_DECADES]
  for decade in reversed(range(_DECADES)):
    edges = np.linspace(0.1, 1.0, 2 ** (bits - decade) + 1)
    magnitudes += list((edges[1:] + edges[:-1]) / 2 * 10.0**-decade)
  magnitudes[-1] = 1.0  # the largest of a block is kept as it is
  return np.array(magnitudes, np.float32)


def _encode(unit: jax.Array, bits: int) -> jax.Array:
  """Indices into `values(bits)` of numbers from 0 to 1, int32."""
  decade = sum((unit < 10.0**-e).astype(jnp.int32) for e in range(1, _DECADES))
  cells = jnp.left_shift(1, bits - decade)
  part = (unit * 10.0**decade - 0.1) / 0.9 * cells
  cell = jnp.clip(part.astype(jnp.int32), 0, cells - 1)
  # All decades below have as many cells together as this one, less the last's.
  before = cells - 2 ** (bits - _DECADES + 1)
  return jnp.where(unit < 10.0**-_DECADES, 0, 1 + before + cell)


def _in_units(x: jax.Array) -> tuple[jax.Array, jax.Array]:
  """`[..., blocks, BLOCK]` numbers from -1 to 1, and what each block is of."""
  blocks = _in_blocks(x)
  scales = jnp.max(jnp.abs(blocks), axis=-1)
  return blocks / jnp.where(scales > 0, scales, 1)[..., None], scales


def _in_blocks(x: jax.Array) -> jax.Array:
  """`[..., N]` -> `[..., blocks, BLOCK]`, filled up with zeros."""
  x = jnp.pad(x, ((0, 0),) * (x.ndim - 1) + ((0, -x.shape[-1] % BLOCK),))
  return x.reshape(*x.shape[:-1], -1, BLOCK)


def _whole(blocks: jax.Array, shape: tuple[int, ...]) -> jax.Array:
  return blocks.reshape(*shape[:-1], -1)[..., : shape[-1]]
