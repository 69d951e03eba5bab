"""Layers that remember a sequence in one size, however long it is.

Such a layer is a function from rows and what each of their segments begins with
to results and what is left at the end. `over_rows` applies it where attention
would look at keys: over packed rows, behind prefixes that they share, and from a
cache on.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl.batch import SharedPrefix
from agentrl.models.config import CONV, LINEAR, TransformerConfig
from agentrl.parallel import sharding


class Recurrent(NamedTuple):
  """The memory that a layer has of B sequences.

  Attributes:
    inputs: `[B, kernel - 1, columns]`, the last of its convolution.
    memory: `[B, H, K, V]` float32, see `ops.delta_rule`; None in a layer that is
      a convolution alone.
  """

  inputs: jax.Array
  memory: jax.Array | None


def init_recurrent(
    config: TransformerConfig, mixer: str, batch: int, dtype
) -> Recurrent:
  """The empty memory of a LINEAR or CONV layer, before the first token."""
  c = config
  if mixer == CONV:
    return Recurrent(
        jnp.zeros((batch, c.conv_kernel - 1, c.hidden_size), dtype), None
    )
  assert mixer == LINEAR  # attention has positions
  sizes = (c.linear_value_heads, c.linear_key_dim, c.linear_value_dim)
  return Recurrent(
      jnp.zeros((batch, c.linear_kernel - 1, c.linear_columns), dtype),
      jnp.zeros((batch, *sizes)),
  )


# From arrays `[B, T, ...]`, segment ids and states to results and states.
Step = Callable[..., tuple[jax.Array, Recurrent]]


def over_rows(
    step: Step,
    parts: Sequence[jax.Array],
    positions: jax.Array,
    segment_ids: jax.Array,
    cache: Recurrent | None,
    prefix: SharedPrefix | None,
) -> tuple[jax.Array, Recurrent | None]:
  """The layer's results, and its new cache if it was given one.

  Args:
    step: called with `parts` as rows, their segment ids, and what their segments
      begin with, a `Recurrent` or None; gives `[B, T, ...]`, and what is left
      behind the last segments.
    parts: inputs `[N, ...]` of all tokens, of the prefixes first.
    positions: `[B, T]` int, in the whole segment.
    segment_ids: `[B, T]` int; 0 is padding, which comes last.
    cache: what was seen of each row before; nothing where its first position
      is 0.
    prefix: that every segment continues; without a cache.
  """
  rows = lambda x: x.reshape(*positions.shape, *x.shape[-1:])
  if cache is not None:
    # A sequence that begins finds what the last one of its slot left.
    fresh = positions[:, 0] == 0
    cache = jax.tree.map(
        lambda x: jnp.where(fresh.reshape(-1, *[1] * (x.ndim - 1)), 0, x), cache
    )
    return step(*map(rows, parts), segment_ids, cache)
  if prefix is None:
    return step(*map(rows, parts), segment_ids, None)[0], None
  shapes = [prefix.tokens.shape, positions.shape]
  before, own = zip(
      *(sharding.split_rows(part, shapes) for part in parts), strict=True
  )
  shared, states = step(*before, prefix.segment_ids, None)
  states = jax.tree.map(
      lambda x: jnp.take(x, prefix.rows, axis=0, mode='clip'), states
  )
  out, _ = step(*own, segment_ids, states)
  return sharding.join_rows([shared, out]), None
