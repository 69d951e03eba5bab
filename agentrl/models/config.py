"""The shape of a decoder, as data."""

import dataclasses
import functools
from collections.abc import Callable, Mapping

import jax
from flax import linen as nn

from agentrl.models import rotary

FULL, SLIDING = 'full_attention', 'sliding_attention'
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
    layer_types: for each layer, FULL or SLIDING; None: all are FULL.
    query_pre_attn_scalar: attention scores are divided by its square root;
      None: by that of head_dim.
    qkv_bias: whether queries, keys and values have biases (Qwen2).
    o_bias: whether attention's result has one.
    mlp_bias: whether the products of the MLP have.
    qk_norm: whether each head of queries and keys is normalised before it is
      rotated (Qwen3, Gemma 3).
    post_norms: whether the results of attention and MLP are normalised too
      (Gemma).
    norm_offset: what is added to the scale of every norm: 1 in Gemma, whose
      scales start at 0.
    scale_embeddings: whether embeddings are multiplied by the square root of
      hidden_size (Gemma).
    hidden_act: activation of the gate, a key of ACTIVATIONS.
    num_experts: experts that replace each layer's MLP; 0: it has none.
    num_experts_per_token: how many of them a token goes through.
    moe_intermediate_size: inner size of an expert.
    norm_topk_prob: whether the weights of a token's experts sum to 1.
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
  query_pre_attn_scalar: float | None = None
  qkv_bias: bool = False
  o_bias: bool = False
  mlp_bias: bool = False
  qk_norm: bool = False
  post_norms: bool = False
  norm_offset: float = 0.0
  scale_embeddings: bool = False
  hidden_act: str = 'silu'
  num_experts: int = 0
  num_experts_per_token: int = 0
  moe_intermediate_size: int = 0
  norm_topk_prob: bool = False

  def __post_init__(self):
    self._normalise()
    if self.num_heads % self.num_kv_heads:
      raise ValueError(
          f'{self.num_heads} attention heads do not divide over'
          f' {self.num_kv_heads} key-value heads.'
      )
    if self.head_dim % 2:
      raise ValueError(
          f'Rotary embeddings need an even head_dim, got {self.head_dim}.'
      )
    if self.hidden_act not in ACTIVATIONS:
      raise ValueError(
          f'Unknown hidden_act {self.hidden_act!r}; known:'
          f' {", ".join(ACTIVATIONS)}.'
      )
    self._check_layers()
    self._check_experts()

  def _normalise(self):
    """Gives equal configs equal fields, whether from JSON or from code."""
    put = functools.partial(object.__setattr__, self)
    if isinstance(self.rope_scaling, Mapping):
      put('rope_scaling', rotary.Scaling(**self.rope_scaling))
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

  def _check_layers(self):
    for kind in self.layer_types or ():
      if kind not in (FULL, SLIDING):
        raise ValueError(
            f'Unknown layer type {kind!r}; known: {FULL}, {SLIDING}.'
        )
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

  def _check_experts(self):
    sizes = (self.num_experts_per_token, self.moe_intermediate_size)
    if not self.num_experts:
      if any(sizes) or self.norm_topk_prob:
        raise ValueError(
            'num_experts is 0: leave num_experts_per_token,'
            ' moe_intermediate_size and norm_topk_prob out.'
        )
    elif self.mlp_bias:
      raise ValueError('Experts have no biases: leave mlp_bias out.')
    elif min(sizes) < 1 or self.num_experts_per_token > self.num_experts:
      raise ValueError(
          f'{self.num_experts} experts need 1 <= num_experts_per_token <='
          ' num_experts and a moe_intermediate_size, got'
          f' {self.num_experts_per_token} and {self.moe_intermediate_size}.'
      )

  @property
  def num_params(self) -> int:
    """Parameters; a tied head counts once, and every expert."""
    width = self.hidden_size
    q, kv = (n * self.head_dim for n in (self.num_heads, self.num_kv_heads))
    layer = 2 * width * (q + kv) + 2 * width  # projections, two norms
    if self.num_experts:
      layer += width * self.num_experts * (1 + 3 * self.moe_intermediate_size)
    else:
      layer += 3 * width * self.intermediate_size
    layer += (q + 2 * kv) * self.qkv_bias + width * self.o_bias
    layer += (2 * self.intermediate_size + width) * self.mlp_bias
    layer += 2 * self.head_dim * self.qk_norm + 2 * width * self.post_norms
    embeddings = self.vocab_size * (1 if self.tie_embeddings else 2)
    return self.num_layers * layer + width * (embeddings + 1)
