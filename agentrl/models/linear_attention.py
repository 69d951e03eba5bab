"""A layer of linear attention: a gated delta rule behind a short convolution.

Gated DeltaNet (arXiv:2412.06464), as Qwen3-Next and Qwen3.5 have it in three of
four layers.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.ad_checkpoint import checkpoint_name

from agentrl.models.config import TransformerConfig
from agentrl.models.layers import Dense, RMSNorm
from agentrl.models.recurrent import Recurrent, over_rows
from agentrl.ops import attention, convolution, delta_rule
from agentrl.parallel import sharding


class LinearAttention(nn.Module):
  """Linear attention over rows, behind their prefixes, or from a cache on.

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
    heads, init = c.linear_value_heads, nn.initializers
    mixed = dense(c.linear_columns, name='in_qkv')(x)
    gate = dense(heads * c.linear_value_dim, name='in_z')(x)
    rate = dense(heads, name='in_b')(x)
    time = dense(heads, name='in_a')(x).astype(jnp.float32)
    # As files have it: one input a column.
    shape = (c.linear_columns, 1, c.linear_kernel)
    kernel = self.param('conv', init.normal(0.02), shape)[:, 0]
    speed = self.param('a_log', init.zeros, (heads,)).astype(jnp.float32)
    bias = self.param('dt_bias', init.ones, (heads,)).astype(jnp.float32)
    log_decay = -jnp.exp(speed) * nn.softplus(time + bias)
    out, cache = over_rows(
        functools.partial(_step, c, kernel.astype(self.dtype)),
        (mixed, log_decay, rate),
        *(positions, segment_ids, cache, prefix),
    )
    out = checkpoint_name(out.astype(self.dtype), attention.NAME)
    out = RMSNorm(c.rms_norm_eps, name='norm')(out)
    gate = gate.reshape(out.shape).astype(jnp.float32)
    out = (out * nn.silu(gate)).astype(self.dtype)
    out = sharding.place_activations(out.reshape(*x.shape[:-1], -1))
    return dense(c.hidden_size, name='out')(out), cache


def _step(
    config: TransformerConfig,
    kernel: jax.Array,
    mixed: jax.Array,
    log_decay: jax.Array,
    rate: jax.Array,
    segment_ids: jax.Array,
    states: Recurrent | None,
) -> tuple[jax.Array, Recurrent]:
  """The convolution and the rule.

  Args:
    config: of the decoder.
    kernel: `[columns, kernel]` of the convolution.
    mixed: `[B, T, columns]`, queries, keys and values.
    log_decay: `[B, T, H]` float32.
    rate: `[B, T, H]`, before its sigmoid.
    segment_ids: see `over_rows`.
    states: see `over_rows`.

  Returns:
    `[B, T, H, V]` float32, and the states after the last segments.
  """
  c = config
  inputs, memory = (None, None) if states is None else states
  convolved = nn.silu(convolution.causal(mixed, kernel, segment_ids, inputs))
  columns = c.linear_key_heads * c.linear_key_dim
  queries, keys, values = jnp.split(convolved, [columns, 2 * columns], axis=-1)
  repeats = c.linear_value_heads // c.linear_key_heads
  heads = lambda x, size: x.reshape(*x.shape[:2], -1, size)
  parts = (
      jnp.repeat(heads(queries, c.linear_key_dim), repeats, axis=2),
      jnp.repeat(heads(keys, c.linear_key_dim), repeats, axis=2),
      heads(values, c.linear_value_dim),
      log_decay,
      nn.sigmoid(rate.astype(jnp.float32)),
  )
  if memory is not None and mixed.shape[1] == 1:
    q, k, v, fading, weight = (x[:, 0] for x in parts)
    real = segment_ids != 0  # [B, 1]
    out, memory = delta_rule.recur(
        *(q, k, v),
        jnp.where(real, fading, 0.0),
        jnp.where(real, weight, 0.0),
        memory,
    )
    out = out[:, None]
  else:
    out, memory = delta_rule.scan(*parts, segment_ids, memory)
  last = convolution.last_inputs(
      mixed, segment_ids, inputs, c.linear_kernel - 1
  )
  return out, Recurrent(last, memory)
