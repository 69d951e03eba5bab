"""A layer of linear attention: a gated delta rule behind a short convolution.

Gated DeltaNet (arXiv:2412.06464), as Qwen3-Next and Qwen3.5 have it in three of
four layers. What such a layer remembers of a sequence has one size, however
long it is: the memory of the rule, and the last inputs of the convolution.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.ad_checkpoint import checkpoint_name

from agentrl.models.config import TransformerConfig
from agentrl.models.layers import Dense, RMSNorm
from agentrl.ops import attention, delta_rule
from agentrl.parallel import sharding


class Recurrent(NamedTuple):
  """What a layer remembers of B sequences.

  Attributes:
    inputs: `[B, kernel - 1, columns]`, the last of its convolution.
    memory: `[B, H, K, V]` float32, see `ops.delta_rule`.
  """

  inputs: jax.Array
  memory: jax.Array


def init_recurrent(config: TransformerConfig, batch: int, dtype) -> Recurrent:
  """What a layer remembers before the first token."""
  c = config
  return Recurrent(
      jnp.zeros((batch, c.linear_kernel - 1, c.linear_columns), dtype),
      jnp.zeros(
          (batch, c.linear_value_heads, c.linear_key_dim, c.linear_value_dim)
      ),
  )


class LinearAttention(nn.Module):
  """Linear attention over rows, behind their prefixes, or from a memory on.

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
    heads, size = c.linear_value_heads, c.linear_value_dim
    init = nn.initializers
    mixed = dense(c.linear_columns, name='in_qkv')(x)
    gate = dense(heads * size, name='in_z')(x)
    rate = dense(heads, name='in_b')(x)
    step = dense(heads, name='in_a')(x).astype(jnp.float32)
    # As files have it: one input a column.
    shape = (c.linear_columns, 1, c.linear_kernel)
    kernel = self.param('conv', init.normal(0.02), shape)[:, 0]
    speed = self.param('a_log', init.zeros, (heads,)).astype(jnp.float32)
    bias = self.param('dt_bias', init.ones, (heads,)).astype(jnp.float32)
    log_decay = -jnp.exp(speed) * nn.softplus(step + bias)
    run = functools.partial(_run, c, kernel.astype(self.dtype))

    shapes = [positions.shape]
    if prefix is not None:
      shapes = [prefix.tokens.shape, positions.shape]
    # Each `[B, T, ...]`, of the prefixes first.
    *before, own = zip(*(
        sharding.split_rows(part, shapes)
        if prefix is not None
        else [part.reshape(*positions.shape, -1)]
        for part in (mixed, log_decay, rate)
    ), strict=True)  # fmt: skip
    if cache is not None:
      # A sequence that begins finds what the last one of its slot left.
      fresh = positions[:, 0] == 0
      cache = jax.tree.map(
          lambda x: jnp.where(fresh.reshape(-1, *[1] * (x.ndim - 1)), 0, x),
          cache,
      )
      out, cache = run(*own, segment_ids, cache)
    elif prefix is None:
      out, _ = run(*own, segment_ids, None)
    else:
      shared, states = run(*before[0], prefix.segment_ids, None)
      states = jax.tree.map(
          lambda x: jnp.take(x, prefix.rows, axis=0, mode='clip'), states
      )
      out, _ = run(*own, segment_ids, states)
      out = sharding.join_rows([shared, out])
    out = checkpoint_name(out.astype(self.dtype), attention.NAME)
    out = RMSNorm(c.rms_norm_eps, name='norm')(out)
    gate = gate.reshape(out.shape).astype(jnp.float32)
    out = (out * nn.silu(gate)).astype(self.dtype)
    out = sharding.place_activations(out.reshape(*x.shape[:-1], -1))
    return dense(c.hidden_size, name='out')(out), cache


def _run(
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
    segment_ids: `[B, T]` int; 0 is padding, which comes last.
    states: with which each segment begins; None: nothing.

  Returns:
    `[B, T, H, V]` float32, and the states after the last segments.
  """
  c = config
  inputs = None if states is None else states.inputs
  convolved = nn.silu(_convolve(mixed, kernel, segment_ids, inputs))
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
  memory = None if states is None else states.memory
  if memory is not None and mixed.shape[1] == 1:
    real = segment_ids != 0  # [B, 1]
    parts = (
        *parts[:3],
        jnp.where(real[..., None], log_decay, 0.0),
        jnp.where(real[..., None], parts[4], 0.0),
    )
    q, k, v, fading, rate = (x[:, 0] for x in parts)
    out, memory = delta_rule.recur(q, k, v, fading, rate, memory)
    out = out[:, None]
  else:
    out, memory = delta_rule.scan(*parts, segment_ids, memory)
  return out, Recurrent(
      _last_inputs(mixed, segment_ids, inputs, c.linear_kernel - 1), memory
  )


def _convolve(
    x: jax.Array,
    kernel: jax.Array,
    segment_ids: jax.Array,
    inputs: jax.Array | None,
) -> jax.Array:
  """Each column of `[B, T, C]` over its segment's last tokens.

  Args:
    x: `[B, T, C]`.
    kernel: `[C, K]`, the token's own weight last.
    segment_ids: `[B, T]` int.
    inputs: `[B, K - 1, C]` before each segment; None: zeros.
  """
  index = jnp.arange(x.shape[1])
  before = jnp.concatenate([segment_ids[:, :1], segment_ids[:, :-1]], axis=1)
  starts = jnp.where(segment_ids != before, index, 0)
  place = index - jax.lax.cummax(starts, axis=1)  # in its segment, [B, T]
  taps = kernel.shape[1]
  out = x * kernel[:, -1]
  for lag in range(1, min(taps, x.shape[1] + taps - 1)):
    shifted = jnp.pad(x, [(0, 0), (lag, 0), (0, 0)])[:, : x.shape[1]]
    rest = jnp.zeros((), x.dtype)
    if inputs is not None:
      # Of `inputs`, from their end.
      where = jnp.clip(taps - 1 + place - lag, 0, taps - 2)
      rest = jnp.take_along_axis(inputs.astype(x.dtype), where[..., None], 1)
    term = jnp.where((place >= lag)[..., None], shifted, rest)
    out = out + term * kernel[:, -1 - lag]
  return out


def _last_inputs(
    x: jax.Array, segment_ids: jax.Array, inputs: jax.Array | None, count: int
) -> jax.Array:
  """The last `count` tokens of each row, `[B, count, C]`, and `inputs` before.

  Rows of several segments have no use for it.
  """
  if inputs is None:
    inputs = jnp.zeros((x.shape[0], count, x.shape[2]), x.dtype)
  every = jnp.concatenate([inputs, x.astype(inputs.dtype)], axis=1)
  real = jnp.sum(segment_ids != 0, axis=1)
  where = real[:, None] + jnp.arange(count)
  return jnp.take_along_axis(every, where[..., None], axis=1)
