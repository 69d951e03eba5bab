"""The decoder: Llama's architecture (arXiv:2302.13971, 2307.09288) in linen.

One module serves trainer and engine in two layouts. The trainer's parameters
are stacked `[L, ...]` under `nn.scan`, so that compile time does not grow with
depth; the engine's are one subtree a layer, because a scan copies weight
slices and halves the speed of decoding on a CPU. `unstack_layers` goes from the
first to the second and copies, `stack_layers` goes back.

The module returns hidden states. `unembed` turns them into logits: whoever
needs few of them, or needs them in chunks, does not pay for all.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from agentrl.ops import attention

Params = Any
# Per layer: keys and values, each [B, kv_heads, S, head_dim].
KVCache = tuple[tuple[jax.Array, jax.Array], ...]


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
  """Shape of a decoder, in the terms of a Hugging Face `config.json`."""

  vocab_size: int
  hidden_size: int
  intermediate_size: int
  num_layers: int
  num_heads: int
  num_kv_heads: int
  head_dim: int
  rope_theta: float = 10000.0
  rms_norm_eps: float = 1e-5
  tie_embeddings: bool = True
  max_positions: int = 2048

  def __post_init__(self):
    if self.num_heads % self.num_kv_heads:
      raise ValueError(
          f'{self.num_heads} attention heads do not divide over'
          f' {self.num_kv_heads} key-value heads.'
      )
    if self.head_dim % 2:
      raise ValueError(
          f'Rotary embeddings need an even head_dim, got {self.head_dim}.'
      )

  @property
  def num_params(self) -> int:
    heads = (self.num_heads + self.num_kv_heads) * 2 * self.head_dim
    layer = self.hidden_size * (heads + 3 * self.intermediate_size + 2)
    embeddings = self.vocab_size * (1 if self.tie_embeddings else 2)
    return self.num_layers * layer + self.hidden_size * (embeddings + 1)


def rotate(x: jax.Array, positions: jax.Array, theta: float) -> jax.Array:
  """Rotary position embedding (RoFormer, arXiv:2104.09864), half-split form.

  Args:
    x: `[B, T, heads, D]`; dimension i is paired with i + D/2, as in Hugging
      Face's weights (GGUF files pair neighbours and are permuted on loading).
    positions: `[B, T]` int.
    theta: base of the frequencies.

  Returns:
    `[B, T, heads, D]` in the type of `x`; computed in float32.
  """
  half = x.shape[-1] // 2
  frequencies = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
  angles = positions[:, :, None, None].astype(jnp.float32) * frequencies
  cos, sin = jnp.cos(angles), jnp.sin(angles)
  first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
  rotated = (first * cos - second * sin, second * cos + first * sin)
  return jnp.concatenate(rotated, axis=-1).astype(x.dtype)


def _dense(features: int, name: str, dtype) -> nn.Dense:
  return nn.Dense(
      features,
      use_bias=False,
      dtype=dtype,
      kernel_init=nn.initializers.normal(0.02),
      name=name,
  )


class RMSNorm(nn.Module):
  """Root mean square normalisation (arXiv:1910.07467), in float32."""

  eps: float

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    scale = self.param('scale', nn.initializers.ones, (x.shape[-1],))
    x32 = x.astype(jnp.float32)
    mean_square = jnp.mean(x32 * x32, axis=-1, keepdims=True)
    normed = x32 * jax.lax.rsqrt(mean_square + self.eps)
    return (normed * scale.astype(jnp.float32)).astype(x.dtype)


class Attention(nn.Module):
  """Grouped-query self-attention, over the row or over a cache."""

  config: TransformerConfig
  dtype: Any

  @nn.compact
  def __call__(self, x, positions, segment_ids, cache):
    c = self.config
    batch, length = positions.shape
    project = lambda heads, name: _dense(heads * c.head_dim, name, self.dtype)(
        x
    ).reshape(batch, length, heads, c.head_dim)
    queries = rotate(project(c.num_heads, 'q'), positions, c.rope_theta)
    keys = rotate(project(c.num_kv_heads, 'k'), positions, c.rope_theta)
    values = project(c.num_kv_heads, 'v')
    if cache is None:
      out = attention.causal(queries, keys, values, segment_ids)
    else:
      cache = tuple(
          _write(old, new, positions)
          for old, new in zip(cache, (keys, values), strict=True)
      )
      out = attention.cached(queries, *cache, positions)
    out = out.reshape(batch * length, c.num_heads * c.head_dim)
    return _dense(c.hidden_size, 'o', self.dtype)(out), cache


def _write(old: jax.Array, new: jax.Array, positions: jax.Array) -> jax.Array:
  """Puts `[B, T, K, D]` entries at their positions of `[B, K, S, D]`."""
  rows = jnp.arange(old.shape[0])[:, None]
  # Advanced indices around a slice move to the front: [B, T, K, D].
  return old.at[rows, :, positions].set(new.astype(old.dtype), mode='drop')


class MLP(nn.Module):
  """SwiGLU (arXiv:2002.05202)."""

  config: TransformerConfig
  dtype: Any

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    size = self.config.intermediate_size
    gate = nn.silu(_dense(size, 'gate', self.dtype)(x))
    up = _dense(size, 'up', self.dtype)(x)
    return _dense(self.config.hidden_size, 'down', self.dtype)(gate * up)


class Block(nn.Module):
  """One layer. Shaped for `nn.scan`: the carry first, the cache through.

  States are `[B * T, hidden]`: XLA's CPU backend multiplies matrices up to
  twice as fast as arrays of three axes, most of all in the backward pass.
  """

  config: TransformerConfig
  dtype: Any

  @nn.compact
  def __call__(self, x, positions, segment_ids, cache):
    eps = self.config.rms_norm_eps
    attended, cache = Attention(self.config, self.dtype, name='attention')(
        RMSNorm(eps, name='attention_norm')(x), positions, segment_ids, cache
    )
    x = x + attended
    normed = RMSNorm(eps, name='mlp_norm')(x)
    return x + MLP(self.config, self.dtype, name='mlp')(normed), cache


class Transformer(nn.Module):
  """A decoder-only language model.

  Attributes:
    config: its shape.
    scan_layers: True for the trainer's stacked layout, False for the engine's.
    remat: recompute activations in the backward pass (trainer only).
    dtype: of activations and matrix products; parameters keep their own.
  """

  config: TransformerConfig
  scan_layers: bool = False
  remat: bool = False
  dtype: Any = jnp.float32

  def setup(self):
    c = self.config
    init = nn.initializers.normal(0.02)
    self.embed = self.param('embed', init, (c.vocab_size, c.hidden_size))
    if not c.tie_embeddings:
      self.lm_head = self.param('lm_head', init, (c.hidden_size, c.vocab_size))
    block = nn.remat(Block, prevent_cse=False) if self.remat else Block
    if self.scan_layers:
      self.layers = nn.scan(
          block,
          variable_axes={'params': 0},
          split_rngs={'params': True},
          in_axes=(nn.broadcast, nn.broadcast, nn.broadcast),
          length=c.num_layers,
      )(c, self.dtype)
    else:
      self.layers = [block(c, self.dtype) for _ in range(c.num_layers)]
    self.final_norm = RMSNorm(c.rms_norm_eps)

  def __call__(
      self,
      tokens: jax.Array,
      positions: jax.Array,
      segment_ids: jax.Array | None = None,
      cache: KVCache | None = None,
  ) -> tuple[jax.Array, KVCache | None]:
    """Runs the layers.

    Args:
      tokens: `[B, T]` int ids.
      positions: `[B, T]` int, from 0 in every segment. With a cache it is also
        where each token's keys and values are written; positions at or past
        the cache's length are dropped, so padding may point there.
      segment_ids: `[B, T]` int, without a cache: who may see whom (0 is
        padding). None: each row is one segment.
      cache: one `(keys, values)` a layer, each `[B, kv_heads, S, head_dim]`;
        engine layout only. A token sees entries up to its own position.

    Returns:
      `[B, T, hidden]` states after the final norm, and the cache with the new
      tokens in it (None if none was given).
    """
    if segment_ids is None:
      segment_ids = jnp.ones_like(tokens)
    x = jnp.take(self.embed, tokens.ravel(), axis=0).astype(self.dtype)
    if self.scan_layers:
      if cache is not None:
        raise ValueError('A cache needs the engine layout: scan_layers=False.')
      x, _ = self.layers(x, positions, segment_ids, None)
    else:
      caches = []
      for i, layer in enumerate(self.layers):
        x, layer_cache = layer(
            x, positions, segment_ids, None if cache is None else cache[i]
        )
        caches.append(layer_cache)
      cache = None if cache is None else tuple(caches)
    return self.final_norm(x).reshape(*tokens.shape, -1), cache

  def unembed(self, hidden: jax.Array) -> jax.Array:
    """Logits `[..., vocab]` in float32 of `[..., hidden]` states."""
    kernel = self.embed.T if self.config.tie_embeddings else self.lm_head
    logits = jnp.dot(
        hidden.reshape(-1, hidden.shape[-1]),
        kernel.astype(self.dtype),
        preferred_element_type=jnp.float32,
    )
    return logits.reshape(*hidden.shape[:-1], -1)


def init_params(module: Transformer, key: jax.Array) -> Params:
  """Random parameters of `module`, in its layout."""
  tokens = jnp.zeros((1, 1), jnp.int32)
  return module.init(key, tokens, tokens)['params']


def init_cache(
    config: TransformerConfig, batch: int, length: int, dtype=jnp.float32
) -> KVCache:
  """An empty cache of `batch` rows of `length` positions."""
  shape = (batch, config.num_kv_heads, length, config.head_dim)
  zeros = lambda: jnp.zeros(shape, dtype)
  return tuple((zeros(), zeros()) for _ in range(config.num_layers))


def unstack_layers(params: Params) -> Params:
  """The engine's layout of trainer parameters; every array is a copy."""
  params = dict(params)
  stacked = params.pop('layers')
  count = jax.tree.leaves(stacked)[0].shape[0]
  out = {name: jax.tree.map(jnp.copy, leaf) for name, leaf in params.items()}
  for i in range(count):
    out[f'layers_{i}'] = jax.tree.map(lambda x, i=i: x[i], stacked)
  return out


def stack_layers(params: Params) -> Params:
  """The trainer's layout of engine parameters; every array is a copy."""
  count = sum(name.startswith('layers_') for name in params)
  layers = [params[f'layers_{i}'] for i in range(count)]
  out = {
      name: jax.tree.map(jnp.copy, leaf)
      for name, leaf in params.items()
      if not name.startswith('layers_')
  }
  out['layers'] = jax.tree.map(lambda *xs: jnp.stack(xs), *layers)
  return out
