"""Critics: value estimates, on a trunk of their own or the policy's.

A critic's raw output at index t is the value of the tokens up to and including
t; `ops.logprob.shift_right` moves it to t + 1, so that `values[b, t]` is
V(tokens[b, :t]).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from agentrl.batch import SharedPrefix
from agentrl.models import lora
from agentrl.models.transformer import States, Transformer

# 'own': starts as a copy of the policy's. 'shared': the policy's, which the
# critic's gradient shapes too.
TRUNKS = {
    'own': lambda params: {'trunk': jax.tree.map(jnp.copy, params)},
    'shared': lambda params: {},
}


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
    kind: a key of `TRUNKS`.
    module: the policy's, trainer layout.
    params: the policy's, or its adapter: then the critic has an adapter of its
      own, beside its head, over the same frozen base.
  """
  size = module.config.hidden_size
  head = ValueHead().init(jax.random.key(0), jnp.zeros((1, size)))['params']
  return {'head': head, **TRUNKS[kind](params)}


def apply(
    critic: Any,
    module: Transformer,
    states: States,
    tokens: jax.Array,
    positions: jax.Array,
    segment_ids: jax.Array,
    prefix: SharedPrefix | None = None,
    base: lora.Base | None = None,
) -> tuple[jax.Array, jax.Array | None]:
  """`[B, T]` raw values of the states up to and including each token.

  And with a prefix `[B, 1]`, those of its last state; else None.

  Args:
    critic: from `init`.
    module: the policy's.
    states: of the policy's module for these rows; read by a shared critic only.
    tokens: `[B, T]` int.
    positions: `[B, T]` int.
    segment_ids: `[B, T]` int.
    prefix: that the rows continue.
    base: of a trunk that is an adapter.
  """
  if 'trunk' in critic:
    own = module.apply(
        lora.variables(critic['trunk'], base),
        tokens,
        positions,
        segment_ids,
        prefix=prefix,
    )
    assert isinstance(own, States)  # without a state of the module beside it
    states = own
  value: Callable[[jax.Array | None], Any] = lambda x: ValueHead().apply(
      {'params': critic['head']}, x
  )
  first = None if prefix is None else value(states.first)[:, None]
  return value(states.hidden), first
