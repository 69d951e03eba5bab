"""The decoder: Llama's architecture (arXiv:2302.13971, 2307.09288) in linen.

`models.config` lists the points in which families differ: biases, norms,
windows, rotations, experts. A feature that is off costs nothing.

One module serves trainer and engine in two layouts. The trainer's parameters
are stacked `[L, ...]` under `nn.scan`, so that compile time does not grow with
depth; the engine's are one subtree a layer, because a scan copies weight
slices and halves the speed of decoding on a CPU. `unstack_layers` goes from the
first to the second and copies. In both a layer is traced once: what differs
between layers is an argument (`Traits`). Layers of other parameters
(`MIXERS`) are traced for themselves, and the scan is over the shortest period of
layers, whose places (`place_name`) are stacked `[L / period, ...]`.

The module returns hidden states. `unembed` turns them into logits, so that a
caller who needs few of them, or needs them in chunks, does not pay for all.
"""

import functools
import re
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import PartitionSpec as P

from agentrl.batch import SharedPrefix
from agentrl.models.attention import Attention, make_traits
from agentrl.models.config import (
    ACTIVATIONS,
    ATTENTION,
    CONV,
    LINEAR,
    TransformerConfig,
)
from agentrl.models.layers import Dense, norm
from agentrl.models.linear_attention import LinearAttention
from agentrl.models.recurrent import Recurrent, init_recurrent
from agentrl.models.short_convolution import ShortConvolution
from agentrl.ops import (
    attention,
    experts as experts_lib,
    linear as linear_lib,
)
from agentrl.parallel import mesh, sharding

Params = Any
# Per layer: keys and values, each [B, kv_heads, S, head_dim], or `Recurrent`.
KVCache = tuple[tuple[jax.Array, jax.Array] | Recurrent, ...]


class States(NamedTuple):
  """Results of a forward pass: states after the final norm.

  Attributes:
    hidden: `[B, T, D]`, divided by the config's `logits_scaling`.
    cache: with the new tokens in it; None if none was given.
    first: `[B, D]`, the last state of each row's prefix, which predicts the
      row's first token; None without prefixes.
  """

  hidden: jax.Array
  cache: KVCache | None = None
  first: jax.Array | None = None


class MLP(nn.Module):
  """A gated unit (GLU variants, arXiv:2002.05202): SwiGLU or GeGLU."""

  config: TransformerConfig
  dtype: Any
  out_first: bool

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    dense = functools.partial(
        Dense,
        dtype=self.dtype,
        out_first=self.out_first,
        bias=self.config.mlp_bias,
    )
    size = self.config.intermediate_size
    gate = ACTIVATIONS[self.config.hidden_act](dense(size, name='gate')(x))
    up = dense(size, name='up')(x)
    inner = sharding.place_activations(gate * up, mesh.TENSOR)
    return dense(self.config.hidden_size, name='down')(inner)


class Experts(nn.Module):
  """A router and the gated units that it chooses from.

  The kernels lie as `[E, in, out]` in both layouts. There is no loss that
  balances the experts: reinforcement learning starts from a trained router.
  """

  config: TransformerConfig
  dtype: Any
  out_first: bool

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    c, shape = self.config, x.shape
    x = x.reshape(-1, c.hidden_size).astype(self.dtype)
    router = Dense(
        *(c.num_experts, self.dtype, self.out_first, c.mlp_bias), name='router'
    )
    weights, chosen = experts_lib.route(
        router(x), count=c.num_experts_per_token, normalise=c.norm_topk_prob
    )
    size = c.moe_intermediate_size
    inner: tuple[str, ...] = ('experts_gate_up',)
    if c.glu_limit is None:
      inner = ('experts_gate', 'experts_up')
      act = ACTIVATIONS[c.hidden_act]
      unit = lambda gate, up: act(gate) * up
    else:
      size = 2 * size
      unit = functools.partial(experts_lib.clamped_unit, limit=c.glu_limit)

    def weights_of(name, *shape):
      init = nn.initializers.normal(0.02)
      kernel = self.param(name, init, (c.num_experts, *shape))
      bias = None
      if c.mlp_bias:
        zeros, columns = nn.initializers.zeros, shape[-1]
        bias = self.param(f'{name}_bias', zeros, (c.num_experts, columns))
      return kernel, bias

    pairs = [weights_of(name, c.hidden_size, size) for name in inner]
    outer = weights_of('experts_down', c.moe_intermediate_size, c.hidden_size)
    kernels = experts_lib.Kernels(
        tuple(kernel for kernel, _ in pairs),
        outer[0],
        tuple(bias for _, bias in pairs if bias is not None),
        outer[1],
    )
    out = experts_lib.mixture(x, weights, chosen, kernels, unit=unit)
    return out.reshape(shape)


# What a layer mixes tokens by -> the module of its parameters 'attention'.
MIXERS: dict[str, type[nn.Module]] = {
    ATTENTION: Attention,
    LINEAR: LinearAttention,
    CONV: ShortConvolution,
}


class Block(nn.Module):
  """One layer. Shaped for `nn.scan`: the carry first, the cache through.

  States are `[B * T, hidden]`: XLA's CPU backend multiplies matrices up to
  twice as fast as arrays of three axes, most of all in the backward pass. On a
  mesh that splits the tokens of a row they stay `[B, T, hidden]`: flat, no
  piece of them would be contiguous.
  """

  config: TransformerConfig
  dtype: Any
  out_first: bool
  mixer: str = ATTENTION

  @nn.compact
  def __call__(self, x, positions, segment_ids, traits, cache, prefix):
    c = self.config
    parts = (c, self.dtype, self.out_first)

    def before(name, x):
      return norm(c, f'{name}_norm')(x) if c.pre_norms else x

    def add(name, x, out):
      if c.post_norms:
        out = norm(c, f'{name}_post_norm')(out)
      if c.residual_multiplier != 1:
        out = out * c.residual_multiplier
      return sharding.place_activations(x + out)

    attended, cache = MIXERS[self.mixer](*parts, name='attention')(
        before('attention', x),
        positions,
        segment_ids,
        traits,
        cache,
        prefix,
    )
    x = add('attention', x, attended)
    mlp = (Experts if c.num_experts else MLP)(*parts, name='mlp')
    return add('mlp', x, mlp(before('mlp', x))), cache


# A layer keeps for the backward pass: everything; the results of its products
# with weights and of attention; or its input alone. The rest is computed again.
# No common subexpressions with the forward pass: the scan separates them.
_SAVED = jax.checkpoint_policies.save_only_these_names(
    attention.NAME, linear_lib.NAME
)
REMAT: dict[str, Callable[[type[nn.Module]], type[nn.Module]]] = {
    'none': lambda block: block,
    'dots': functools.partial(nn.remat, prevent_cse=False, policy=_SAVED),
    'full': functools.partial(nn.remat, prevent_cse=False),
}
# Traced once for all layers; inlined again when compiled.
_JITTED = nn.jit(Block)
_DERIVING = threading.Lock()


@functools.cache
def _rematted(remat: str) -> type[nn.Module]:
  return REMAT[remat](Block)


class Period(nn.Module):
  """The layers of a period, one after the other; the traits are `[period]`."""

  config: TransformerConfig
  dtype: Any
  out_first: bool
  remat: str

  @nn.compact
  def __call__(self, x, positions, segment_ids, traits, cache, prefix):
    c = self.config
    for i, mixer in enumerate(c.mixers[: c.period]):
      parts = (c, self.dtype, self.out_first, mixer)
      own = jax.tree.map(lambda x, i=i: x[i], traits)
      layer = _rematted(self.remat)(*parts, name=place_name(i, c.period))
      x, cache = layer(x, positions, segment_ids, own, cache, prefix)
    return x, cache


@functools.cache
def _derive_scanned(remat: str, length: int, periodic: bool) -> type[nn.Module]:
  return nn.scan(
      Period if periodic else _rematted(remat),
      variable_axes={'params': 0, 'lora': 0},
      split_rngs={'params': True},
      in_axes=(nn.broadcast, nn.broadcast, 0, nn.broadcast, nn.broadcast),
      length=length,
  )


def scanned(remat: str, length: int, periodic: bool = False) -> type[nn.Module]:
  """`length` Blocks, or Periods of them, in one, as the trainer has them.

  The class is derived once: flax changes Block for a moment while it does so,
  and threads (two engines, or an engine and the trainer) may be tracing it.
  """
  with _DERIVING:
    _rematted(remat)  # for `Period`, which is traced without the lock
    return _derive_scanned(remat, length, periodic)


class Transformer(nn.Module):
  """A decoder-only language model.

  Attributes:
    config: its shape.
    scan_layers: True for the trainer's stacked layout, False for the engine's.
    remat: what the backward pass computes again, a key of REMAT (trainer only).
    dtype: of activations and matrix products; parameters keep their own.
  """

  config: TransformerConfig
  scan_layers: bool = False
  remat: str = 'none'
  dtype: Any = jnp.float32

  def setup(self):
    c = self.config
    init = nn.initializers.normal(0.02)
    self.embed = self.param('embed', init, (c.vocab_size, c.hidden_size))
    if not c.tie_embeddings:
      shape = (c.hidden_size, c.vocab_size)
      if not self.scan_layers:
        shape = shape[::-1]
      self.lm_head = self.param('lm_head', init, shape)
    if self.scan_layers:
      repeats, periodic = c.num_layers // c.period, c.period > 1
      layers = scanned(self.remat, repeats, periodic)
      rest = (self.remat,) if periodic else ()
      self.layers = layers(c, self.dtype, False, *rest)
    else:
      parts = (c, self.dtype, True)
      self.layers = [_JITTED(*parts, mixer) for mixer in c.mixers]
    self.final_norm = norm(c, divisor=c.logits_scaling)

  def __call__(
      self,
      tokens: jax.Array,
      positions: jax.Array,
      segment_ids: jax.Array | None = None,
      cache: KVCache | None = None,
      prefix: SharedPrefix | None = None,
  ) -> States:
    """States of all tokens.

    Args:
      tokens: `[B, T]` int ids.
      positions: `[B, T]` int, in the whole segment. With a cache it is also
        where each token's keys and values are written; positions at or past
        the cache's length are dropped, so padding may point there.
      segment_ids: `[B, T]` int: tokens see their own segment; 0 is padding. None:
        each row is one segment. With a cache a row has but one, and padding
        comes last.
      cache: `init_cache`'s; engine layout only. A token sees entries up to its
        own position; a layer without positions what it saw before, and
        nothing where the first position is 0.
      prefix: that every segment continues; without a cache, and without a mesh
        that splits the tokens of a row.
    """
    if segment_ids is None:
      segment_ids = jnp.ones_like(tokens)
    flat = sharding.axis_size(mesh.SEQUENCE) == 1
    if prefix is not None and not flat:
      raise ValueError('Prefixes are not shared where sequence > 1.')
    table = sharding.constrain(self.embed, P(mesh.TENSOR))
    ids = tokens.ravel() if flat else tokens
    if prefix is not None:
      ids = sharding.join_rows([prefix.tokens, tokens])
    x = jnp.take(table, ids, axis=0)
    x = sharding.place_activations(x.astype(self.dtype))
    if self.config.scale_embeddings:
      x = x * jnp.asarray(self.config.hidden_size**0.5, self.dtype)
    if self.config.embedding_multiplier != 1:
      x = x * self.config.embedding_multiplier
    traits = make_traits(self.config)
    if self.scan_layers:
      if cache is not None:
        raise ValueError('A cache needs the engine layout: scan_layers=False.')
      if self.config.period > 1:
        shape = (-1, self.config.period)
        traits = jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), traits)
      x, _ = self.layers(x, positions, segment_ids, traits, None, prefix)
    else:
      caches = []
      for i, layer in enumerate(self.layers):
        own = jax.tree.map(lambda x, i=i: x[i], traits)
        x, layer_cache = layer(
            x,
            positions,
            segment_ids,
            own,
            None if cache is None else cache[i],
            prefix,
        )
        caches.append(layer_cache)
      cache = None if cache is None else tuple(caches)
    first = None
    if prefix is not None:
      shapes = [prefix.tokens.shape, tokens.shape]
      states, x = sharding.split_rows(x, shapes)
      ends = jnp.maximum(jnp.sum(prefix.segment_ids, axis=1) - 1, 0)
      last = jnp.take_along_axis(states, ends[:, None, None], axis=1)[:, 0]
      last = self.final_norm(jnp.take(last, prefix.rows, axis=0, mode='clip'))
      first = sharding.place_activations(last)
    x = self.final_norm(x).reshape(*tokens.shape, -1)
    return States(sharding.place_activations(x), cache, first)

  def unembed(self, hidden: jax.Array) -> jax.Array:
    """Logits `[..., vocab]` in float32 of `[..., hidden]` states."""
    tied = self.config.tie_embeddings
    kernel = (self.embed if tied else self.lm_head).astype(self.dtype)
    if self.scan_layers:
      return unembed(hidden, kernel, tied=tied)
    states = hidden.reshape(-1, hidden.shape[-1])
    return linear_lib.linear(states, kernel).reshape(*hidden.shape[:-1], -1)


def unembed(hidden: jax.Array, kernel: jax.Array, *, tied: bool) -> jax.Array:
  """`Transformer.unembed` by a kernel of the trainer's layout.

  Args:
    hidden: `[..., D]`.
    kernel: `[D, V]`, or `[V, D]` if it is the embedding's.
    tied: whether it is.
  """
  logits = jnp.dot(
      hidden.reshape(-1, hidden.shape[-1]),
      kernel.T if tied else kernel,
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
  return tuple(
      (zeros(), zeros())
      if mixer == ATTENTION
      else init_recurrent(config, mixer, batch, dtype)
      for mixer in config.mixers
  )


_TURNED = ('kernel', 'lm_head')


def unstack_layers(params: Params) -> Params:
  """The engine's layout of trainer parameters; every array is a copy."""
  params = jax.tree_util.tree_map_with_path(
      # Weight matrices lie the other way round, all but the embedding.
      lambda path, x: jnp.swapaxes(x, -1, -2) if path[-1].key in _TURNED else x,
      params,
  )
  places = split_places(params.pop('layers'))
  out = {name: jax.tree.map(jnp.copy, leaf) for name, leaf in params.items()}
  for place, period, stack in places:
    for i in range(jax.tree.leaves(stack)[0].shape[0]):
      out[f'layers_{i * period + place}'] = jax.tree.map(
          lambda x, i=i: x[i], stack
      )
  return out


def place_name(place: int, period: int) -> str:
  """The trainer's name of a place in a period of more than one layer."""
  return f'block_{place}_of_{period}'


def split_places(layers: Params) -> list[tuple[int, int, Params]]:
  """The places of a period that a tree has: number, period, `[L / period, ...]`.

  There is one unless layers differ in their parameters.

  Args:
    layers: of the trainer's layout, of parameters or an adapter.
  """
  found = [
      (re.fullmatch(r'block_(\d+)_of_(\d+)', name), layers[name])
      for name in layers
  ]
  places = [(int(m[1]), int(m[2]), tree) for m, tree in found if m]
  return places or [(0, 1, layers)]
