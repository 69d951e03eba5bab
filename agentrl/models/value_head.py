"""Critics: what a state is worth, on a trunk of their own or the policy's.

A critic's raw output at index t says what the tokens up to and including t are
worth; `ops.logprob.shift_right` moves it to t + 1, so that `values[b, t]` is
V(tokens[b, :t]).
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from agentrl.models.transformer import Transformer

KINDS = ('own', 'shared')


class ValueHead(nn.Module):
  """A linear map from states to values, in float32; it starts at 0."""

  @nn.compact
  def __call__(self, hidden: jax.Array) -> jax.Array:
    return nn.Dense(
        1, kernel_init=nn.initializers.zeros, dtype=jnp.float32, name='value'
    )(hidden.astype(jnp.float32))[..., 0]


def init(kind: str, module: Transformer, params: Any) -> Any:
  """Parameters of a critic for a policy.

  Args:
    kind: 'own': a trunk that starts as a copy of the policy's. 'shared': a head
      on the policy's states, whose gradient shapes the policy's trunk too.
    module: the policy's, trainer layout.
    params: the policy's.
  """
  if kind not in KINDS:
    raise ValueError(f'Unknown critic {kind!r}; known: {", ".join(KINDS)}.')
  size = module.config.hidden_size
  head = ValueHead().init(jax.random.key(0), jnp.zeros((1, size)))['params']
  if kind == 'shared':
    return {'head': head}
  return {'head': head, 'trunk': jax.tree.map(jnp.copy, params)}


def apply(
    critic: Any,
    module: Transformer,
    hidden: jax.Array,
    tokens: jax.Array,
    positions: jax.Array,
    segment_ids: jax.Array,
) -> jax.Array:
  """`[B, T]` raw values of the states up to and including each token.

  Args:
    critic: what `init` gave.
    module: the policy's.
    hidden: `[B, T, D]` the policy's states; read by a shared critic only.
    tokens: `[B, T]` int.
    positions: `[B, T]` int.
    segment_ids: `[B, T]` int.
  """
  if 'trunk' in critic:
    hidden, _ = module.apply(
        {'params': critic['trunk']}, tokens, positions, segment_ids
    )
  return ValueHead().apply({'params': critic['head']}, hidden)
