"""Aggregation of the losses of tokens to one number.

The papers differ in what has equal weight: each sampled token (DAPO,
arXiv:2503.14476), each episode (GRPO, arXiv:2402.03300), each episode before
it is divided by a constant (Dr. GRPO, arXiv:2503.20783) or each turn. Every
mode divides by a number of the whole minibatch, on all devices, that is given
in `Denominators`: a mean over one microbatch would weigh microbatches.
"""

from typing import Generic, NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.batch import Array, TokenBatch
from agentrl.ops import masked


class Denominators(NamedTuple, Generic[Array]):
  """Counts of the whole minibatch to divide by, and the weight of the KL.

  Attributes:
    tokens: scalar, sampled tokens of valid episodes.
    episodes: scalar, valid episodes.
    turns: scalar, their turns.
    kl_coef: scalar, weight of the KL to the reference in the loss; traced, so
      that a controller may move it without compiling again.
  """

  tokens: Array
  episodes: Array
  turns: Array
  kl_coef: Array


def mean(
    x: jax.Array,
    mask: jax.Array,
    batch: TokenBatch,
    denominators: Denominators,
    *,
    mode: str = 'token',
    constant: float | None = None,
) -> jax.Array:
  """This microbatch's share of the minibatch's mean of `x`.

  Args:
    x: `[B, T]` per token.
    mask: `[B, T]` bool, True on sampled tokens of valid episodes.
    batch: of these tokens; an episode is whole in its microbatch.
    denominators: of the whole minibatch.
    mode: static. 'token': every token weighs the same.
      'sequence': the mean over an episode's tokens, then over episodes.
      'constant': the sum over an episode's tokens divided by `constant`, then
      the mean over episodes. 'turn': the mean over a turn's tokens, then over
      all turns of the minibatch.
    constant: of mode 'constant'; static.
  """
  chex.assert_equal_shape([x, mask, batch.episodes, batch.turn_ids])
  match mode:
    case 'token':
      return masked.sum(x, mask) / denominators.tokens
    case 'sequence':
      size = masked.sum_episodes(mask, mask, batch)
      size = masked.gather_episodes(jnp.maximum(size, 1), batch)
      return masked.sum(x / size, mask) / denominators.episodes
    case 'constant':
      if not constant or constant <= 0:
        raise ValueError(f"Mode 'constant' needs one above 0, got {constant}.")
      return masked.sum(x, mask) / (constant * denominators.episodes)
    case 'turn':
      size = _turn_size(mask, batch)
      return masked.sum(x / size, mask) / denominators.turns
  raise ValueError(f'Unknown mode {mode!r}.')


def _turn_size(mask: jax.Array, batch: TokenBatch) -> jax.Array:
  """`[B, T]` number of tokens of each token's turn, which are side by side.

  In a packed row one turn may follow another without a token between them:
  the last of a segment, and the first of one whose prompt is shared.
  """
  pad = lambda x: jnp.pad(x[:, :-1], ((0, 0), (1, 0)))
  goes_on = (
      pad(mask)
      & (pad(batch.episodes) == batch.episodes)
      & (pad(batch.turn_ids) == batch.turn_ids)
  )
  run = jnp.cumsum(mask & ~goes_on, axis=1)  # 0 before the first turn
  count = jax.vmap(
      lambda m, r: jax.ops.segment_sum(m, r, num_segments=mask.shape[1] + 1)
  )(mask.astype(jnp.float32), run)
  return jnp.maximum(jnp.take_along_axis(count, run, axis=1), 1)
