"""A layer of a gated short convolution in place of attention (LFM2, arXiv:2511.23404)."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from agentrl.models.config import TransformerConfig
from agentrl.models.layers import Dense
from agentrl.models.recurrent import Recurrent, over_rows
from agentrl.ops import convolution
from agentrl.parallel import sharding


class ShortConvolution(nn.Module):
  """A convolution between two gates that the input opens.

  Attributes:
    config: of the decoder.
    dtype: see `Dense`.
    out_first: see `Dense`.
  """

  config: TransformerConfig
  dtype: Any
  out_first: bool

  @nn.compact
  def __call__(self, x, positions, segment_ids, traits, cache, prefix):
    del traits
    c = self.config
    dense = functools.partial(Dense, dtype=self.dtype, out_first=self.out_first)
    mixed = dense(3 * c.hidden_size, name='in_bcx')(x)
    before, behind, inner = jnp.split(mixed, 3, axis=-1)
    # As files have it: one input a column.
    shape = (c.hidden_size, 1, c.conv_kernel)
    kernel = self.param('conv', nn.initializers.normal(0.02), shape)[:, 0]
    out, cache = over_rows(
        functools.partial(_step, kernel.astype(self.dtype)),
        (before * inner,),
        *(positions, segment_ids, cache, prefix),
    )
    out = behind * out.reshape(behind.shape)
    out = sharding.place_activations(out)
    return dense(c.hidden_size, name='out')(out), cache


def _step(
    kernel: jax.Array,
    x: jax.Array,
    segment_ids: jax.Array,
    states: Recurrent | None,
) -> tuple[jax.Array, Recurrent]:
  """`[B, T, D]` convolved, and the states after the last segments."""
  inputs = None if states is None else states.inputs
  out = convolution.causal(x, kernel, segment_ids, inputs)
  last = convolution.last_inputs(x, segment_ids, inputs, kernel.shape[1] - 1)
  return out, Recurrent(last, None)
