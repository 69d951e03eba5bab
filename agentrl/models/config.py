"""The shape of a decoder, as data."""

import dataclasses
import functools
from collections.abc import Callable, Mapping

import jax
from flax import linen as nn

from agentrl.models import rotary, stacks

FULL, SLIDING = 'full_attention', 'sliding_attention'
LINEAR, CONV = 'linear_attention', 'conv'
LAYER_TYPES = (FULL, SLIDING, LINEAR, CONV)
# What a layer mixes tokens by: ATTENTION (FULL and SLIDING), LINEAR or CONV.
ATTENTION = 'attention'
# Of those but attention: the fields of TransformerConfig with their sizes.
MIXER_SIZES: Mapping[str, tuple[str, ...]] = {
    LINEAR: (
        'linear_kernel',
        'linear_key_heads',
        'linear_value_heads',
        'linear_key_dim',
        'linear_value_dim',
    ),
    CONV: ('conv_kernel',),
}
# Sizes of FULL layers -> those of SLIDING ones.
_FULL_SIZES = {'full_head_dim': 'head_dim', 'full_kv_heads': 'num_kv_heads'}
# Places of the norms of queries and keys: each head by itself, before or after
# it is rotated; or all heads of a token as one vector, before.
EACH_HEAD, ROTATED, ALL_HEADS = 'head', 'rotated_head', 'all_heads'
ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    'silu': nn.silu,
    'gelu_pytorch_tanh': functools.partial(nn.gelu, approximate=True),
}


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
  """Shape of a decoder, in the terms of a Hugging Face `config.json`.

  The defaults are Llama's. Sequences and `rope_scaling` may be given as JSON
  has them, lists and objects.

  Attributes:
    rope_theta: base of the rotary embeddings.
    max_positions: longest row that the model is for.
    family: whose files it is read from and written as: a key of
      `weights.families.FAMILIES`. The network depends on the other fields
      alone.
    rope_scaling: of the rotary embeddings; None: unscaled.
    rope_local_theta: base in the sliding layers, which are not scaled; None:
      they are rotated as the others.
    rope_layers: for each layer, whether it rotates at all (SmolLM3 leaves every
      fourth alone, arXiv:2501.18795); None: all do.
    sliding_window: how many tokens a sliding layer sees, its own included.
    layer_types: for each layer, FULL, SLIDING, LINEAR (a gated delta rule in
      place of attention, arXiv:2412.06464) or CONV (a gated convolution,
      arXiv:2511.23404); None: all are FULL.
    conv_kernel: tokens that a CONV layer sees; 0 without such layers.
    linear_kernel: tokens that the convolution of a LINEAR layer sees; this and
      what follows are 0 without such layers.
    linear_key_heads: its heads of queries and keys.
    linear_value_heads: its heads of values, a multiple of the former.
    linear_key_dim: size of one of these heads.
    linear_value_dim: size of one of those.
    rope_interleaved: whether rotations pair neighbouring dimensions (GLM);
      False: dimension i and the one half a rotation behind it.
    partial_rotary_factor: part of a head's dimensions, from the first on, that
      are rotated.
    query_pre_attn_scalar: attention scores are divided by its square root;
      None: by that of head_dim.
    attention_multiplier: attention scores are multiplied by it instead
      (Granite); None: they are not.
    full_head_dim: head_dim of FULL layers where SLIDING ones have another
      (Gemma 4, as all fields to `kv_shared_layers`); None: they are equal.
    full_kv_heads: likewise num_kv_heads.
    full_tied_values: whether the values of FULL layers are their keys, before
      norm and rotation.
    value_norm: whether each head of values is normalised, without a scale.
    kv_shared_layers: number of last layers without keys and values of their own:
      they read those of the last layer of their type before them.
    kv_shared_wide_mlp: whether their MLPs are twice as wide.
    attention_gate: whether sigmoids scale attention's result, from as many more
      columns of the queries' matrix, head by head (Qwen3-Next, arXiv:2505.06708).
    qkv_bias: whether queries, keys and values have biases (Qwen2).
    o_bias: whether attention's result has one.
    mlp_bias: whether the products of the MLP have; with experts, also the router.
    attention_sinks: whether a learnt score of each head joins those of its keys
      (gpt-oss, arXiv:2508.10925).
    qk_norm: norms of queries and keys: EACH_HEAD (Qwen3, Gemma 3), ROTATED
      (HunYuan), ALL_HEADS (OLMo) or None. Checkpoints of older versions have
      true for the first and false for the last.
    pre_norms: whether the inputs of attention and MLP are normalised; OLMo's
      are not.
    post_norms: whether their results are (Gemma, OLMo, GLM).
    norm_offset: what is added to the scale of every norm: 1 in Gemma, whose
      scales start at 0.
    scale_embeddings: whether embeddings are multiplied by the square root of
      hidden_size (Gemma).
    embedding_multiplier: factor of embeddings (Granite).
    residual_multiplier: factor of the results of attention and MLP.
    logits_scaling: divisor of logits; states are divided by it already.
    logits_softcap: bound of logits, of which a hyperbolic tangent keeps them
      within; None: there is none.
    layer_inputs: columns of what each layer reads of the tokens beside its state
      (per-layer embeddings of Gemma 3n and 4); 0: none does.
    layer_scalars: whether a number, which is not trained, scales each layer's
      result.
    hidden_act: activation of the gate, a key of ACTIVATIONS.
    num_experts: experts that replace each layer's MLP; 0: it has none.
    num_experts_per_token: how many of them a token goes through.
    moe_intermediate_size: inner size of an expert.
    norm_topk_prob: whether the weights of a token's experts sum to 1.
    shared_expert_size: inner size of an MLP beside the experts, for all tokens,
      which a sigmoid scales (Qwen2-MoE, Qwen3-Next); 0: there is none.
    glu_limit: experts have the unit of gpt-oss, which is cut there; its two
      matrices are one, column by column. None: their gate is as `hidden_act` says.
  """

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
  family: str = 'llama'
  rope_scaling: rotary.Scaling | None = None
  rope_local_theta: float | None = None
  rope_layers: tuple[bool, ...] | None = None
  sliding_window: int | None = None
  layer_types: tuple[str, ...] | None = None
  conv_kernel: int = 0
  linear_kernel: int = 0
  linear_key_heads: int = 0
  linear_value_heads: int = 0
  linear_key_dim: int = 0
  linear_value_dim: int = 0
  rope_interleaved: bool = False
  partial_rotary_factor: float = 1.0
  query_pre_attn_scalar: float | None = None
  attention_multiplier: float | None = None
  full_head_dim: int | None = None
  full_kv_heads: int | None = None
  full_tied_values: bool = False
  value_norm: bool = False
  kv_shared_layers: int = 0
  kv_shared_wide_mlp: bool = False
  attention_gate: bool = False
  qkv_bias: bool = False
  o_bias: bool = False
  mlp_bias: bool = False
  attention_sinks: bool = False
  qk_norm: str | None = None
  pre_norms: bool = True
  post_norms: bool = False
  norm_offset: float = 0.0
  scale_embeddings: bool = False
  embedding_multiplier: float = 1.0
  residual_multiplier: float = 1.0
  logits_scaling: float = 1.0
  logits_softcap: float | None = None
  layer_inputs: int = 0
  layer_scalars: bool = False
  hidden_act: str = 'silu'
  num_experts: int = 0
  num_experts_per_token: int = 0
  moe_intermediate_size: int = 0
  norm_topk_prob: bool = False
  shared_expert_size: int = 0
  glu_limit: float | None = None

  def __post_init__(self):
    self._normalise()
    for heads in self.kv_head_counts:
      if self.num_heads % heads:
        raise ValueError(
            f'{self.num_heads} attention heads do not divide over {heads}'
            ' key-value heads.'
        )
    for size in {self.head_dim, self.full_head_dim or self.head_dim}:
      self._check_rotation(size)
    if self.hidden_act not in ACTIVATIONS:
      raise ValueError(
          f'Unknown hidden_act {self.hidden_act!r}; known:'
          f' {", ".join(ACTIVATIONS)}.'
      )
    self._check_norms()
    self._check_layers()
    self._check_experts()

  def _check_rotation(self, head_dim: int):
    if self.partial_rotary_factor == 1 and head_dim % 2:
      raise ValueError(
          f'Rotary embeddings need an even head_dim, got {head_dim}.'
      )
    rotated = self.rotated(head_dim)
    if not 2 <= rotated <= head_dim or rotated % 2:
      raise ValueError(
          f'partial_rotary_factor={self.partial_rotary_factor} rotates'
          f' {rotated} of {head_dim} dimensions of a head; it must be an even'
          ' number of them, and 2 at least.'
      )

  def _normalise(self):
    """Gives equal configs equal fields, whether from JSON or from code."""
    put = functools.partial(object.__setattr__, self)
    if isinstance(self.rope_scaling, Mapping):
      put('rope_scaling', rotary.Scaling(**self.rope_scaling))
    if isinstance(self.qk_norm, bool):
      put('qk_norm', EACH_HEAD if self.qk_norm else None)
    for name, usual in _FULL_SIZES.items():
      if getattr(self, name) == getattr(self, usual):
        put(name, None)
    for name, usual in (('layer_types', FULL), ('rope_layers', True)):
      value = getattr(self, name)
      if value is None:
        continue
      if len(value) != self.num_layers:
        raise ValueError(
            f'{name} has {len(value)} entries; the model has'
            f' {self.num_layers} layers.'
        )
      value = tuple(type(usual)(x) for x in value)
      put(name, None if set(value) == {usual} else value)

  def _check_norms(self):
    kinds = (None, EACH_HEAD, ROTATED, ALL_HEADS)
    if self.qk_norm not in kinds:
      raise ValueError(f'Unknown qk_norm {self.qk_norm!r}; known: {kinds}.')
    if not self.pre_norms and not self.post_norms:
      raise ValueError(
          'pre_norms=False leaves no norm in a layer: set post_norms.'
      )
    if None not in (self.query_pre_attn_scalar, self.attention_multiplier):
      raise ValueError(
          'query_pre_attn_scalar and attention_multiplier both scale attention'
          ' scores: leave one of them out.'
      )
    zero = [
        name
        for name in ('logits_scaling', 'attention_multiplier', 'logits_softcap')
        if getattr(self, name) == 0
    ]
    if zero:
      raise ValueError(f'{zero[0]} is 0: all logits would be alike.')

  def _check_layers(self):
    for kind in self.layer_types or ():
      if kind not in LAYER_TYPES:
        raise ValueError(
            f'Unknown layer type {kind!r}; known: {", ".join(LAYER_TYPES)}.'
        )
    self._check_mixers()
    slides = SLIDING in (self.layer_types or ())
    if slides and (self.sliding_window or 0) < 1:
      raise ValueError(
          f'layer_types has {SLIDING}: sliding_window must be at least 1, got'
          f' {self.sliding_window}.'
      )
    for name in ('sliding_window', 'rope_local_theta'):
      if getattr(self, name) is not None and not slides:
        raise ValueError(
            f'{name}={getattr(self, name)} acts on no layer; put {SLIDING} into'
            f' layer_types or leave {name} out.'
        )
    self._check_kinds()

  def _check_kinds(self):
    kinds = self.layer_types or (FULL,) * self.num_layers
    for name in _FULL_SIZES:
      value = getattr(self, name)
      if value is not None and not {FULL, SLIDING} <= {*kinds}:
        raise ValueError(
            f'{name}={value} needs layers of both types, {FULL} and {SLIDING};'
            f' without, set {_FULL_SIZES[name]} alone.'
        )
    if self.rope_layers is not None and self._kinds_differ:
      raise ValueError(
          'rope_layers is not implemented with full_head_dim, full_kv_heads,'
          ' full_tied_values or kv_shared_layers; leave it out.'
      )
    count = self.num_layers - self.kv_shared_layers
    if not 0 < count <= self.num_layers:
      raise ValueError(
          f'kv_shared_layers={self.kv_shared_layers} must leave one of the'
          f' {self.num_layers} layers at least.'
      )
    lost = {*kinds[count:]} - {*kinds[:count]}
    if self.kv_shared_layers and self.is_recurrent:
      raise ValueError(
          f'kv_shared_layers={self.kv_shared_layers} is not implemented beside'
          f' {LINEAR} and {CONV} layers; leave it out.'
      )
    if lost:
      raise ValueError(
          f'kv_shared_layers={self.kv_shared_layers} leaves no layer of type'
          f' {" or ".join(sorted(lost))} with keys that the last ones read.'
      )
    if self.kv_shared_wide_mlp and (
        not self.kv_shared_layers or self.num_experts
    ):
      raise ValueError(
          'kv_shared_wide_mlp acts on no MLP: set kv_shared_layers, without'
          ' num_experts, or leave it out.'
      )

  def _check_mixers(self):
    for kind, fields in MIXER_SIZES.items():
      own = {name: getattr(self, name) for name in fields}
      if kind not in self.mixers:
        if any(own.values()):
          raise ValueError(f'{own} act on no layer; leave them out.')
      elif min(own.values()) < 1:
        raise ValueError(f'layer_types has {kind}: {own} must be positive.')
    if ATTENTION not in self.mixers:
      raise ValueError(
          f'All layers are {" or ".join(sorted({*self.mixers}))}; at least one'
          ' has to see single tokens.'
      )
    heads = self.linear_value_heads, self.linear_key_heads
    if self.linear_key_heads and heads[0] % heads[1]:
      raise ValueError(
          f'{heads[0]} heads of values do not divide over {heads[1]} of keys in'
          f' {LINEAR} layers.'
      )

  def _check_experts(self):
    sizes = (self.num_experts_per_token, self.moe_intermediate_size)
    others = (self.norm_topk_prob, self.shared_expert_size)
    if not self.num_experts:
      if any((*sizes, *others)) or self.glu_limit is not None:
        raise ValueError(
            'num_experts is 0: leave num_experts_per_token,'
            ' moe_intermediate_size, norm_topk_prob, shared_expert_size and'
            ' glu_limit out.'
        )
    elif min(sizes) < 1 or self.num_experts_per_token > self.num_experts:
      raise ValueError(
          f'{self.num_experts} experts need 1 <= num_experts_per_token <='
          ' num_experts and a moe_intermediate_size, got'
          f' {self.num_experts_per_token} and {self.moe_intermediate_size}.'
      )

  @property
  def mixers(self) -> tuple[str, ...]:
    """For each layer, what it mixes tokens by: on it its parameters depend."""
    kinds = self.layer_types or (FULL,) * self.num_layers
    return tuple(
        ATTENTION if kind in (FULL, SLIDING) else kind for kind in kinds
    )

  @property
  def is_recurrent(self) -> bool:
    """True if some layers remember a sequence in one size, see `recurrent`."""
    return {*self.mixers} != {ATTENTION}

  @property
  def _kinds_differ(self) -> bool:
    """True if FULL and SLIDING layers differ in more than `Traits`."""
    sizes = any(getattr(self, name) is not None for name in _FULL_SIZES)
    return sizes or self.full_tied_values or self.kv_shared_layers > 0

  @functools.cached_property
  def layers(self) -> tuple[stacks.Layer, ...]:
    """The shape of each layer."""
    kinds = self.layer_types or (FULL,) * self.num_layers
    owners = self.num_layers - self.kv_shared_layers
    return tuple(
        self._layer(kind, mixer, i >= owners)
        for i, (kind, mixer) in enumerate(zip(kinds, self.mixers, strict=True))
    )

  def _layer(self, kind: str, mixer: str, shares: bool) -> stacks.Layer:
    size, full = self.intermediate_size, kind == FULL
    if shares and self.kv_shared_wide_mlp:
      size = 2 * size
    if mixer != ATTENTION:
      return stacks.Layer(mixer, size)
    return stacks.Layer(
        mixer,
        size,
        (full and self.full_head_dim) or self.head_dim,
        (full and self.full_kv_heads) or self.num_kv_heads,
        kind if self._kinds_differ else None,
        not shares,
        not shares and not (full and self.full_tied_values),
    )

  @functools.cached_property
  def runs(self) -> tuple[stacks.Run, ...]:
    """The layers as the trainer scans over them."""
    return stacks.find_runs(self.layers)

  @property
  def kv_head_counts(self) -> tuple[int, ...]:
    """The numbers of key-value heads that layers have."""
    return tuple(
        sorted({self.num_kv_heads, self.full_kv_heads or self.num_kv_heads})
    )

  @property
  def linear_columns(self) -> int:
    """Queries, keys and values of a LINEAR layer in one vector."""
    return (
        2 * self.linear_key_heads * self.linear_key_dim
        + self.linear_value_heads * self.linear_value_dim
    )

  @property
  def rotary_dim(self) -> int:
    """Rotated dimensions of a head of `head_dim`, the first ones."""
    return self.rotated(self.head_dim)

  def rotated(self, size: int) -> int:
    """Rotated dimensions of a head of so many."""
    return int(size * self.partial_rotary_factor)

  @property
  def attention_scale(self) -> float | None:
    """The factor of attention scores; None: head_dim^-0.5."""
    scalar = self.query_pre_attn_scalar
    return self.attention_multiplier if scalar is None else scalar**-0.5

  @property
  def max_row(self) -> int:
    """Most tokens of a row: `max_positions`, or as few as a scaling allows."""
    scaled = None if self.rope_scaling is None else self.rope_scaling.max_row
    return min(self.max_positions, scaled or self.max_positions)

  @property
  def num_params(self) -> int:
    """Parameters; a tied head counts once, and every expert."""
    width, columns = self.hidden_size, self.layer_inputs * self.num_layers
    embeddings = self.vocab_size * (1 if self.tie_embeddings else 2)
    count = width * (embeddings + 1)
    count += sum(map(self._layer_params, self.layers))
    return count + columns * (self.vocab_size + width) + self.layer_inputs

  def _layer_params(self, layer: stacks.Layer) -> int:
    width = self.hidden_size
    if layer.mixer == ATTENTION:
      count = self._attention_params(layer)
    elif layer.mixer == LINEAR:
      count = self._linear_params
    else:
      count = width * (4 * width + self.conv_kernel)
    count += 2 * width * (self.pre_norms + self.post_norms)
    size = layer.intermediate_size
    if self.num_experts:
      size = self.moe_intermediate_size * self.num_experts
      count += (width + self.mlp_bias) * self.num_experts
      if self.shared_expert_size:
        count += width * (3 * self.shared_expert_size + 1)
    count += 3 * width * size
    count += (2 * size + width * max(1, self.num_experts)) * self.mlp_bias
    if self.layer_inputs:
      count += width * (2 * self.layer_inputs + 1)
    return count + self.layer_scalars

  def _attention_params(self, layer: stacks.Layer) -> int:
    width, size = self.hidden_size, layer.head_dim
    q, kv = (n * size for n in (self.num_heads, layer.num_kv_heads))
    columns = q * (1 + self.attention_gate)
    columns += kv * (layer.own_keys + layer.own_values)
    count = width * (columns + q)  # projections
    count += columns * self.qkv_bias + width * self.o_bias
    count += self.num_heads * self.attention_sinks
    heads = (q, kv) if self.qk_norm == ALL_HEADS else (size, size)
    return count + sum(heads[: 1 + layer.own_keys]) * (self.qk_norm is not None)

  @property
  def _linear_params(self) -> int:
    heads, size = self.linear_value_heads, self.linear_value_dim
    columns = self.linear_columns + 2 * heads * size + 2 * heads
    return (
        self.hidden_size * columns
        + self.linear_kernel * self.linear_columns
        + 2 * heads
        + size
    )
