"""The MLP of a layer: one gated unit, or experts."""

import functools
from typing import Any

import jax
from flax import linen as nn

from agentrl.models.config import ACTIVATIONS, TransformerConfig
from agentrl.models.layers import Dense
from agentrl.ops import experts as experts_lib
from agentrl.parallel import mesh, sharding


class MLP(nn.Module):
  """A gated unit (GLU variants, arXiv:2002.05202): SwiGLU or GeGLU.

  Attributes:
    config: of the decoder.
    dtype: see `Dense`.
    out_first: see `Dense`.
    size: inner columns.
  """

  config: TransformerConfig
  dtype: Any
  out_first: bool
  size: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    dense = functools.partial(
        Dense,
        dtype=self.dtype,
        out_first=self.out_first,
        bias=self.config.mlp_bias,
    )
    gate = ACTIVATIONS[self.config.hidden_act](dense(self.size, name='gate')(x))
    up = dense(self.size, name='up')(x)
    inner = sharding.place_activations(gate * up, mesh.TENSOR)
    return dense(self.config.hidden_size, name='down')(inner)


class Experts(nn.Module):
  """A router and the gated units that it chooses from.

  With an MLP beside them that all tokens go through, if the config has one. The
  kernels lie as `[E, in, out]` in both layouts. There is no loss that
  balances the experts: reinforcement learning starts from a trained router.
  """

  config: TransformerConfig
  dtype: Any
  out_first: bool

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    c, shape = self.config, x.shape
    shared = self._shared(x) if c.shared_expert_size else None
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
    out = out.reshape(shape)
    return out if shared is None else out + shared

  def _shared(self, x: jax.Array) -> jax.Array:
    c, parts = self.config, (self.dtype, self.out_first)
    scale = nn.sigmoid(Dense(1, *parts, name='shared_gate')(x))
    return scale * MLP(c, *parts, c.shared_expert_size, name='shared')(x)
