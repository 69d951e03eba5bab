"""A decoder's attention layer, and the traits in which its layers differ."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from agentrl.models import mesh_attention, rotary
from agentrl.models.config import (
    ALL_HEADS,
    EACH_HEAD,
    FULL,
    ROTATED,
    SLIDING,
    TransformerConfig,
)
from agentrl.models.layers import Dense, norm, normalise
from agentrl.models.stacks import Layer
from agentrl.ops import attention
from agentrl.parallel import mesh, sharding

# The window of a full layer among sliding ones: longer than any row.
_NO_WINDOW = np.iinfo(np.int32).max


class Traits(NamedTuple):
  """The differences between layers, stacked over layers outside of them.

  None where all layers are alike: such models do nothing for it.

  Attributes:
    rotation: of its queries and keys; where a layer does not rotate, by 0.
    window: scalar int32, tokens that it sees.
    inputs: `[N, layer_inputs]` or `[B, T, layer_inputs]`, of the tokens to it.
  """

  rotation: rotary.Rotation | None
  window: jax.Array | None
  inputs: jax.Array | None = None


class Fresh(NamedTuple):
  """Keys and values of the tokens at hand, which later layers read.

  In the place of a cache, where there is none: `[B, T, K, D]`; with shared
  prefixes `[1, N, K, D]`, of all tokens.
  """

  keys: jax.Array
  values: jax.Array


def make_traits(config: TransformerConfig) -> Traits:
  """The traits of all layers: each leaf is `[L, ...]`."""
  c = config
  types = np.array(c.layer_types or (FULL,) * c.num_layers)
  rotation: rotary.Rotation | None = None
  window: jax.Array | None = None
  if c.sliding_window is not None:
    windows = np.where(types == SLIDING, c.sliding_window, _NO_WINDOW)
    window = jnp.asarray(windows, jnp.int32)
  # Layers of two shapes have rotations of two sizes, see `Attention`.
  alike = all(layer.kind is None for layer in c.layers)
  if alike and (c.rope_layers is not None or c.rope_local_theta is not None):
    # One for each kind of layer: rotated as configured, sliding, not rotated.
    size = c.rotary_dim
    kinds = [rotary.make_rotation(size, c.rope_theta, c.rope_scaling)]
    kind = np.zeros(c.num_layers, np.int32)
    if c.rope_local_theta is not None:
      kind[types == SLIDING] = len(kinds)
      kinds.append(rotary.make_rotation(size, c.rope_local_theta))
    if c.rope_layers is not None:
      kind[~np.array(c.rope_layers)] = len(kinds)
      kinds.append(rotary.Rotation(jnp.zeros(size // 2)))
    amplitudes = [1.0 if k.amplitude is None else k.amplitude for k in kinds]
    rotation = rotary.Rotation(
        jnp.stack([k.frequencies for k in kinds])[kind],
        jnp.asarray(amplitudes)[kind] if set(amplitudes) != {1.0} else None,
    )
  return Traits(rotation, window)


class Attention(nn.Module):
  """Grouped-query attention, over the row, its prefix or a cache.

  A layer without keys of its own is given those of an earlier one as its cache:
  `Fresh` ones, or entries that hold the new tokens already. Where there are such
  layers and no cache, the others give their fresh ones in its place.

  Attributes:
    config: of the decoder.
    dtype: see `Dense`.
    out_first: see `Dense`.
    layer: its shape.
  """

  config: TransformerConfig
  dtype: Any
  out_first: bool
  layer: Layer

  @nn.compact
  def __call__(self, x, positions, segment_ids, traits, cache, prefix):
    c, layer = self.config, self.layer
    # Positions `[B, T]` of packed rows; with prefixes `[1, N]` of all tokens.
    places, shapes = positions, [positions.shape]
    if prefix is not None:
      shapes = [prefix.tokens.shape, positions.shape]
      every = jnp.broadcast_to(jnp.arange(shapes[0][1]), shapes[0])
      places = sharding.join_rows([every, positions])[None]
    dense = functools.partial(Dense, dtype=self.dtype, out_first=self.out_first)

    def project(heads, name):
      columns = heads * layer.head_dim
      if c.attention_gate and name == 'q':
        columns *= 2
      out = dense(columns, bias=c.qkv_bias, name=name)(x)
      if c.qk_norm == ALL_HEADS and name != 'v':
        out = norm(c, f'{name}_norm')(out)
      return out.reshape(*places.shape, heads, -1)

    def normalised(both):
      names = zip(('q_norm', 'k_norm'), both, strict=False)
      return [norm(c, name)(x) for name, x in names]

    # Queries, and keys if they are the layer's own.
    both, values = [project(c.num_heads, 'q')], None
    if layer.own_keys:
      both.append(project(layer.num_kv_heads, 'k'))
      values = both[1]
    if layer.own_values:
      values = project(layer.num_kv_heads, 'v')
    gate = None
    if c.attention_gate:
      both[0], gate = jnp.split(both[0], 2, axis=-1)
    if c.qk_norm == EACH_HEAD:
      both = normalised(both)
    if c.value_norm and layer.own_keys:
      values = normalise(values, c.rms_norm_eps)
    rotation = traits.rotation
    if rotation is None:
      rotation = _rotation(c, layer)
    both = [
        rotary.rotate(x, places, rotation, interleaved=c.rope_interleaved)
        for x in both
    ]
    if c.qk_norm == ROTATED:
      both = normalised(both)
    queries, keys, fresh = both[0], both[-1], None
    if c.rope_scaling is not None and c.rope_scaling.query_beta:
      factors = rotary.query_scale(places, c.rope_scaling)
      queries *= factors[..., None, None].astype(queries.dtype)
    if isinstance(cache, Fresh):
      (keys, values), cache = cache, None
    elif layer.own_keys and c.kv_shared_layers:
      fresh = Fresh(keys, values)
    sinks = None
    if c.attention_sinks:
      sinks = self.param('sinks', nn.initializers.zeros, (c.num_heads,))
    options = dict(window=traits.window, scale=c.attention_scale, sinks=sinks)
    causal, after_prefix = (
        functools.partial(f, **options)
        for f in (mesh_attention.causal, mesh_attention.after_prefix)
    )
    if prefix is not None:
      of_prefix, of_rows = zip(*(
          sharding.split_rows(x[0], shapes) for x in (queries, keys, values)
      ), strict=True)  # fmt: skip
      shared = causal(*of_prefix, prefix.segment_ids)
      own = after_prefix(
          *of_rows,
          segment_ids,
          positions,
          (*of_prefix[1:], prefix.segment_ids),
          prefix.rows,
      )
      out = sharding.join_rows([shared, own])
    elif cache is None:
      out = causal(queries, keys, values, segment_ids)
    else:
      if layer.own_keys:
        cache = tuple(
            _write(old, new, positions)
            for old, new in zip(cache, (keys, values), strict=True)
        )
      out = attention.cached(queries, *cache, positions, **options)
    out = out.reshape(*x.shape[:-1], c.num_heads * layer.head_dim)
    if gate is not None:
      out = out * nn.sigmoid(gate.reshape(out.shape))
    out = sharding.place_activations(out, mesh.TENSOR)
    out = dense(c.hidden_size, bias=c.o_bias, name='o')(out)
    return out, fresh if cache is None else cache


def _rotation(config: TransformerConfig, layer: Layer) -> rotary.Rotation:
  """The rotation of all layers, or of those of one shape."""
  c, theta, scaling = config, config.rope_theta, config.rope_scaling
  if layer.kind == SLIDING and c.rope_local_theta is not None:
    theta, scaling = c.rope_local_theta, None
  return rotary.make_rotation(c.rotated(layer.head_dim), theta, scaling)


def _write(old: jax.Array, new: jax.Array, positions: jax.Array) -> jax.Array:
  """Puts `[B, T, K, D]` entries at their positions of `[B, K, S, D]`."""
  rows = jnp.arange(old.shape[0])[:, None]
  # Advanced indices around a slice move to the front: [B, T, K, D].
  return old.at[rows, :, positions].set(new.astype(old.dtype), mode='drop')
