"""Inputs that each layer has of the tokens beside their states.

Per-layer embeddings, as Gemma 3n and Gemma 4 have them: a small vector of each
token for each layer, of a table of its own and of the token's embedding.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from agentrl.models.config import ACTIVATIONS, TransformerConfig
from agentrl.models.layers import Dense, norm
from agentrl.parallel import sharding


class TokenInputs(nn.Module):
  """Inputs of all layers, of the tokens: per-layer embeddings.

  The mean of an embedding of their own and of a projection of the token's.
  """

  config: TransformerConfig
  dtype: Any
  out_first: bool

  @nn.compact
  def __call__(self, ids: jax.Array, x: jax.Array) -> jax.Array:
    """`[L, ..., layer_inputs]` of ids `[...]` and embeddings `[..., D]`."""
    c = self.config
    columns = c.num_layers * c.layer_inputs
    init = nn.initializers.normal(0.02)
    table = self.param('embed', init, (c.vocab_size, columns))
    each = (*ids.shape, c.num_layers, c.layer_inputs)
    own = sharding.take_rows(table, ids).astype(self.dtype).reshape(each)
    own = own * jnp.asarray(c.layer_inputs**0.5, self.dtype)
    dense = Dense(columns, self.dtype, self.out_first, name='projection')
    projected = (dense(x) * c.hidden_size**-0.5).reshape(each)
    out = (norm(c, 'norm')(projected) + own) * 2**-0.5
    return jnp.moveaxis(sharding.place_activations(out), -2, 0)


class LayerInputs(nn.Module):
  """Adds what a layer reads of each token beside its state, gated by the state."""

  config: TransformerConfig
  dtype: Any
  out_first: bool

  @nn.compact
  def __call__(self, x: jax.Array, inputs: jax.Array) -> jax.Array:
    c = self.config
    dense = functools.partial(Dense, dtype=self.dtype, out_first=self.out_first)
    gate = ACTIVATIONS[c.hidden_act](dense(c.layer_inputs, name='state')(x))
    out = dense(c.hidden_size, name='result')(gate * inputs)
    return sharding.place_activations(x + norm(c, 'post_norm')(out))
