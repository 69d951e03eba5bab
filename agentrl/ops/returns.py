"""Sums over time, in which only sampled tokens are moments.

An observation's tokens are not decisions: they are skipped, so inserting some
changes no return and no advantage for any discount. All functions take rows of
one episode each.
"""

import chex
import jax
import jax.numpy as jnp

from agentrl.batch import TokenBatch


def discounted(
    rewards: jax.Array, mask: jax.Array, *, gamma: float
) -> jax.Array:
  """Return to go: G = r + gamma G of the next sampled token.

  Args:
    rewards: `[B, T]`.
    mask: `[B, T]` bool, True on sampled tokens; one episode a row.
    gamma: discount per sampled token.

  Returns:
    `[B, T]`, 0 outside the mask.
  """
  zeros = jnp.zeros_like(rewards)
  return gae(rewards, zeros, mask, zeros[:, 0], gamma=gamma, lam=1.0)


def gae(
    rewards: jax.Array,
    values: jax.Array,
    mask: jax.Array,
    bootstrap: jax.Array,
    *,
    gamma: float,
    lam: float,
) -> jax.Array:
  """Generalised advantage estimation (arXiv:1506.02438 eq. 16).

      delta_t = r_t + gamma V_next - V_t
      A_t = delta_t + gamma lam A_next

  "Next" is the next sampled token of the episode. After the last one stands
  `bootstrap`: 0 where the environment ended the episode, the critic's word
  where we cut it.

  Args:
    rewards: `[B, T]`.
    values: `[B, T]`, V(tokens[b, :t]).
    mask: `[B, T]` bool, True on sampled tokens; one episode a row.
    bootstrap: `[B]`.
    gamma: discount per sampled token.
    lam: decay of the trace.

  Returns:
    `[B, T]`, 0 outside the mask.
  """
  chex.assert_equal_shape([rewards, values, mask])
  chex.assert_equal_shape([bootstrap, rewards[:, 0]])

  def step(carry, now):
    next_value, running = carry
    reward, value, sampled = now
    advantage = reward + gamma * next_value - value + gamma * lam * running
    carry = (
        jnp.where(sampled, value, next_value),
        jnp.where(sampled, advantage, running),
    )
    return carry, jnp.where(sampled, advantage, 0.0)

  # Whatever stands outside the mask is unseen, NaN too.
  clean = lambda x: jnp.where(mask, x, 0.0).T
  _, advantages = jax.lax.scan(
      step,
      (bootstrap, jnp.zeros_like(bootstrap)),
      (clean(rewards), clean(values), mask.T),
      reverse=True,
  )
  return advantages.T


def sum_turns(x: jax.Array, batch: TokenBatch) -> jax.Array:
  """`[B, T]` whose column k is the sum of `x` over the tokens of turn k.

  Args:
    x: `[B, T]` per token.
    batch: of these tokens, one episode a row.
  """
  turn_ids = batch.turn_ids
  width = x.shape[1]
  rows = jnp.arange(x.shape[0])[:, None]
  columns = jnp.where(turn_ids < 0, width, turn_ids)
  kept = jnp.where(turn_ids < 0, 0.0, x)
  return (
      jnp.zeros(x.shape, jnp.float32).at[rows, columns].add(kept, mode='drop')
  )


def spread_turns(per_turn: jax.Array, batch: TokenBatch) -> jax.Array:
  """`[B, T]`: a token of turn k has column k of `per_turn`, others 0."""
  columns = jnp.maximum(batch.turn_ids, 0)
  values = jnp.take_along_axis(per_turn, columns, axis=1)
  return jnp.where(batch.turn_ids < 0, 0.0, values)


def first_of_turn(batch: TokenBatch) -> jax.Array:
  """`[B, T]` bool, True on the first token of each turn."""
  changes = lambda x: x != jnp.pad(
      x[:, :-1], ((0, 0), (1, 0)), constant_values=-1
  )
  # In a packed row the only turn of an episode may follow the only one of
  # another without a token between them.
  begins = changes(batch.turn_ids) | changes(batch.episodes)
  return (batch.turn_ids >= 0) & begins
