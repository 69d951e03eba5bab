"""The decoder: Llama's architecture (arXiv:2302.13971, 2307.09288) in linen.

`models.config` lists the points in which families differ: biases, norms,
windows, rotations, experts. A feature that is off costs nothing.

One module serves trainer and engine in two layouts. The trainer's parameters
are stacked `[L, ...]` under `nn.scan`, so that compile time does not grow with
depth; the engine's are one subtree a layer, because a scan copies weight
slices and halves the speed of decoding on a CPU. `unstack_layers` goes from the
first to the second and copies. In both a layer is traced once: what differs
between layers is an argument (`Traits`). Layers of other shapes are traced for
themselves, and a scan is over the shortest period of layers (`stacks`). Layers
that read the keys and values of earlier ones are a run of their own behind these:
in the trainer the first run carries them and the second is given them.

The module returns hidden states. `unembed` turns them into logits, so that a
caller who needs few of them, or needs them in chunks, does not pay for all.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import PartitionSpec as P

from agentrl.batch import SharedPrefix
from agentrl.models import stacks
from agentrl.models.attention import Attention, Fresh, make_traits
from agentrl.models.config import ATTENTION, CONV, LINEAR, TransformerConfig
from agentrl.models.layer_inputs import LayerInputs, TokenInputs
from agentrl.models.layers import norm
from agentrl.models.linear_attention import LinearAttention
from agentrl.models.mlp import MLP, Experts
from agentrl.models.recurrent import Recurrent, init_recurrent
from agentrl.models.short_convolution import ShortConvolution
from agentrl.models.stacks import Layer, Run
from agentrl.ops import attention, linear as linear_lib
from agentrl.parallel import mesh, sharding

Params = Any
# Per layer: keys and values, each [B, kv_heads, S, head_dim], or `Recurrent`; None
# of a layer that reads those of another.
KVCache = tuple[tuple[jax.Array, jax.Array] | Recurrent | None, ...]


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
    c, mixer = self.config, self.layer.mixer
    parts = (c, self.dtype, self.out_first)

    def before(name, x):
      return norm(c, f'{name}_norm')(x) if c.pre_norms else x

    def add(name, x, out):
      if c.post_norms:
        out = norm(c, f'{name}_post_norm')(out)
      if c.residual_multiplier != 1:
        out = out * c.residual_multiplier
      return sharding.place_activations(x + out)

    shape = (self.layer,) if mixer == ATTENTION else ()
    attended, cache = MIXERS[mixer](*parts, *shape, name='attention')(
        before('attention', x),
        positions,
        segment_ids,
        traits,
        cache,
        prefix,
    )
    x = add('attention', x, attended)
    if c.num_experts:
      mlp = Experts(*parts, name='mlp')
    else:
      mlp = MLP(*parts, self.layer.intermediate_size, name='mlp')
    x = add('mlp', x, mlp(before('mlp', x)))
    if c.layer_inputs:
      x = LayerInputs(*parts, name='inputs')(x, traits.inputs)
    if c.layer_scalars:
      scalar = self.param('scalar', nn.initializers.ones, (1,))
      x = x * jax.lax.stop_gradient(scalar).astype(x.dtype)
    return x, cache


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
  """The layers of a period, one after the other; the traits are `[period]`.

  The carry is of states and, by kind of layer, the `Fresh` keys and values that
  later runs read; the cache is of those that this one reads.
  """

  config: TransformerConfig
  dtype: Any
  out_first: bool
  run: Run
  remat: str

  @nn.compact
  def __call__(self, carry, positions, segment_ids, traits, cache, prefix):
    x, kept = carry
    for i, layer in enumerate(self.run.layers):
      parts = (self.config, self.dtype, self.out_first, layer)
      own = jax.tree.map(lambda x, i=i: x[i], traits)
      name = stacks.place_name(i, self.run.period)
      read = None if layer.own_keys else cache[layer.kind]
      block = _rematted(self.remat)(*parts, name=name)
      x, fresh = block(x, positions, segment_ids, own, read, prefix)
      if layer.kind in kept:
        kept = {**kept, layer.kind: fresh}
    return (x, kept), None


@functools.cache
def _derive_scanned(remat: str, length: int, places: bool) -> type[nn.Module]:
  return nn.scan(
      Period if places else _rematted(remat),
      variable_axes={'params': 0, 'lora': 0},
      split_rngs={'params': True},
      in_axes=(nn.broadcast, nn.broadcast, 0, nn.broadcast, nn.broadcast),
      length=length,
  )


def scanned(remat: str, length: int, places: bool = False) -> type[nn.Module]:
  """`length` Blocks, or Periods of them, in one, as the trainer has them.

  The class is derived once: flax changes Block for a moment while it does so,
  and threads (two engines, or an engine and the trainer) may be tracing it.
  """
  with _DERIVING:
    _rematted(remat)  # for `Period`, which is traced without the lock
    return _derive_scanned(remat, length, places)


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
    if c.layer_inputs:
      self.token_inputs = TokenInputs(c, self.dtype, not self.scan_layers)
    if self.scan_layers:
      self.scans = [self._scan_of(run) for run in c.runs]
    else:
      parts = (c, self.dtype, True)
      self.layers = [_JITTED(*parts, layer) for layer in c.layers]
    self.final_norm = norm(c, divisor=c.logits_scaling)

  def _scan_of(self, run: Run) -> nn.Module:
    scan = scanned(self.remat, run.repeats, run.has_places)
    parts = (self.config, self.dtype, False)
    if run.has_places:
      return scan(*parts, run, self.remat, name=run.name)
    return scan(*parts, run.layers[0], name=run.name)

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
    if self.config.layer_inputs:
      traits = traits._replace(inputs=self.token_inputs(ids, x))
    if self.scan_layers:
      if cache is not None:
        raise ValueError('A cache needs the engine layout: scan_layers=False.')
      x = self._scan(x, positions, segment_ids, traits, prefix)
    else:
      x, cache = self._loop(x, positions, segment_ids, traits, cache, prefix)
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

  def _scan(self, x, positions, segment_ids, traits, prefix):
    """The states behind the last layer, by the trainer's stacks."""
    kept = {}  # by kind of layer
    runs = self.config.runs
    for run, scan in zip(runs, self.scans, strict=True):
      own, shape = traits, (-1, run.period)
      if len(runs) > 1:
        own = jax.tree.map(lambda x, r=run: x[r.first : r.stop], own)
      if not run.has_places:
        x, _ = scan(x, positions, segment_ids, own, None, prefix)
        continue
      own = jax.tree.map(lambda x, s=shape: x.reshape(*s, *x.shape[1:]), own)
      read = kept or None
      if read is None:
        kept = self._unwritten(positions, prefix)
      (x, kept), _ = scan(
          (x, {} if read else kept), positions, segment_ids, own, read, prefix
      )
    return x

  def _unwritten(self, positions, prefix) -> dict[str | None, Fresh]:
    """Zeros in the place of keys and values that some layers will read."""
    c, shape = self.config, positions.shape
    if prefix is not None:
      shape = (1, prefix.tokens.size + positions.size)
    zeros = lambda layer: jnp.zeros(
        (*shape, layer.num_kv_heads, layer.head_dim), self.dtype
    )
    return {
        layer.kind: Fresh(zeros(layer), zeros(layer))
        for layer in c.layers
        if not layer.own_keys
    }

  def _loop(self, x, positions, segment_ids, traits, cache, prefix):
    """States and cache behind the last layer, by the engine's layers."""
    caches = []
    kept = {}  # by kind of layer: what later ones read
    for i, (layer, block) in enumerate(
        zip(self.config.layers, self.layers, strict=True)
    ):
      own = jax.tree.map(lambda x, i=i: x[i], traits)
      read = None if cache is None else cache[i]
      if not layer.own_keys:
        read = kept[layer.kind]
      x, entries = block(x, positions, segment_ids, own, read, prefix)
      if layer.own_keys:
        kept[layer.kind] = entries
      caches.append(entries if layer.own_keys else None)
    return x, None if cache is None else tuple(caches)

  def unembed(self, hidden: jax.Array) -> jax.Array:
    """Logits `[..., vocab]` in float32 of `[..., hidden]` states."""
    tied, softcap = self.config.tie_embeddings, self.config.logits_softcap
    kernel = (self.embed if tied else self.lm_head).astype(self.dtype)
    if self.scan_layers:
      return unembed(hidden, kernel, tied=tied, softcap=softcap)
    states = hidden.reshape(-1, hidden.shape[-1])
    logits = linear_lib.linear(states, kernel).reshape(*hidden.shape[:-1], -1)
    return _capped(logits, softcap)


def unembed(
    hidden: jax.Array,
    kernel: jax.Array,
    *,
    tied: bool,
    softcap: float | None = None,
) -> jax.Array:
  """`Transformer.unembed` by a kernel of the trainer's layout.

  Args:
    hidden: `[..., D]`.
    kernel: `[D, V]`, or `[V, D]` if it is the embedding's.
    tied: whether it is.
    softcap: the config's `logits_softcap`.
  """
  logits = jnp.dot(
      hidden.reshape(-1, hidden.shape[-1]),
      kernel.T if tied else kernel,
      preferred_element_type=jnp.float32,
  )
  return _capped(logits.reshape(*hidden.shape[:-1], -1), softcap)


def _capped(logits: jax.Array, softcap: float | None) -> jax.Array:
  return logits if softcap is None else softcap * jnp.tanh(logits / softcap)


def init_params(module: Transformer, key: jax.Array) -> Params:
  """Random parameters of `module`, in its layout."""
  tokens = jnp.zeros((1, 1), jnp.int32)
  return module.init(key, tokens, tokens)['params']


def init_cache(
    config: TransformerConfig, batch: int, length: int, dtype=jnp.float32
) -> KVCache:
  """An empty cache of `batch` rows of `length` positions."""

  def empty(layer: Layer):
    if layer.mixer != ATTENTION:
      return init_recurrent(config, layer.mixer, batch, dtype)
    if not layer.own_keys:
      return None
    shape = (batch, layer.num_kv_heads, length, layer.head_dim)
    return jnp.zeros(shape, dtype), jnp.zeros(shape, dtype)

  return tuple(map(empty, config.layers))


def unstack_layers(params: Params) -> Params:
  """The engine's layout of trainer parameters; every array is a copy."""
  return stacks.unstack(params)
