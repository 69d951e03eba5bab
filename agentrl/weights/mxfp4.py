"""Experts that are stored as MXFP4, as gpt-oss's are published.

Blocks of 32 numbers of four bits share a power of two (OCP Microscaling Formats,
version 1.0). A tensor `NAME` is two in a file: `NAME_blocks`, uint8
`[E, out, blocks, 16]` of two numbers a byte, the lower half first, and `NAME_scales`,
uint8 `[E, out, blocks]`, exponents with a bias of 127.
"""

from typing import Any

import numpy as np

BLOCKS, SCALES = '_blocks', '_scales'
_BIAS = 127
# Of a sign, two bits of exponent and one of mantissa.
_VALUES = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], np.float32)
_VALUES = np.concatenate([_VALUES, -_VALUES])


def dequantise(blocks: np.ndarray, scales: np.ndarray) -> np.ndarray:
  """Numbers of stored blocks.

  Args:
    blocks: uint8 `[..., B, 16]`.
    scales: uint8 `[..., B]`.

  Returns:
    float32 `[..., 32 B]`.
  """
  numbers = np.empty((*blocks.shape[:-1], 2 * blocks.shape[-1]), np.float32)
  numbers[..., ::2] = _VALUES[blocks & 0x0F]
  numbers[..., 1::2] = _VALUES[blocks >> 4]
  exponents = scales.astype(np.int32) - _BIAS
  np.ldexp(numbers, exponents[..., None], out=numbers)
  return numbers.reshape(*blocks.shape[:-2], -1)


class Packed:
  """A tensor of experts in two of a file, read as `[E, in, out]` floats."""

  def __init__(self, blocks: Any, scales: Any):
    """Reads nothing yet; takes two of `hf.Stored`."""
    self._blocks, self._scales = blocks, scales

  def read(self) -> np.ndarray:
    """The whole tensor."""
    return self[:]

  def slices(self) -> 'Packed':
    """Itself: it is read in parts by its first axis."""
    return self

  def get_dtype(self) -> str:
    """The type of what is read, as a header has it."""
    return 'F32'

  def get_shape(self) -> list[int]:
    """The shape of what is read."""
    experts, rows, count, half = self._blocks.slices().get_shape()
    return [experts, 2 * half * count, rows]

  def __getitem__(self, where: Any) -> np.ndarray:
    first, *rest = where if isinstance(where, tuple) else (where,)
    blocks, scales = (x.slices()[first] for x in (self._blocks, self._scales))
    numbers = dequantise(blocks, scales)
    return np.swapaxes(numbers, -1, -2)[(slice(None), *rest)]
