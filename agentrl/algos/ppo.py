"""PPO with a critic (arXiv:1707.06347), over sampled tokens only.

Advantages are generalised advantage estimates (arXiv:1506.02438) along the
sampled tokens of an episode, whitened over the collection. The environment's
end is worth 0. Where we cut an episode its return is continued by the critic,
unless the cut is part of the task, `bootstrap=False` (Pardo et al., "Time limits
in reinforcement learning", arXiv:1712.00378, tell these two apart).

    loss = policy loss + value_coef max((V - R)^2, (V clipped - R)^2) / 2

With `turn_level` a decision is a turn: gamma and lambda count turns, the value
of a turn is the critic's before its first token, and all its tokens share one
advantage (Turn-PPO, arXiv:2512.17008).
"""

import jax
import jax.numpy as jnp

from agentrl.algos import policy
from agentrl.algos.hyperparams import Ppo as Hyperparams
from agentrl.batch import TokenBatch
from agentrl.ops import advantage, masked, returns, value_loss
from agentrl.ops.aggregate import Denominators


def advantages(
    batch: TokenBatch,
    hyperparams: Hyperparams = Hyperparams(),
    *,
    num_groups: int = 1
) -> TokenBatch:
  """The batch with `[B, T]` advantages and returns, the critic's targets.

  Args:
    batch: whole collection, one episode a row, with values and bootstrap.
    hyperparams: the choices.
    num_groups: unused: nothing is compared within groups.
  """
  del num_groups
  mask = masked.loss_mask(batch)
  assert batch.values is not None and batch.bootstrap_value is not None
  bootstrap = jnp.where(
      batch.truncated & hyperparams.bootstrap, batch.bootstrap_value, 0.0
  )
  decay = dict(gamma=hyperparams.gamma, lam=hyperparams.lam)
  if hyperparams.turn_level:
    first = returns.first_of_turn(batch)
    estimate = returns.gae(
        returns.sum_turns(batch.rewards, batch),
        returns.sum_turns(jnp.where(first, batch.values, 0.0), batch),
        returns.sum_turns(first, batch) > 0,
        bootstrap,
        **decay,
    )
    estimate = returns.spread_turns(estimate, batch)
  else:
    estimate = returns.gae(
        batch.rewards, batch.values, batch.completion_mask, bootstrap, **decay
    )
  estimate = jnp.where(mask, estimate, 0.0)
  targets = jnp.where(mask, estimate + batch.values, 0.0)
  if hyperparams.whiten:
    estimate = advantage.whiten(estimate, mask)
  return batch.replace(advantages=estimate, returns=targets)


def loss(
    outputs: policy.Outputs,
    batch: TokenBatch,
    denominators: Denominators,
    hyperparams: Hyperparams,
) -> tuple[jax.Array, policy.Metrics]:
  """As `algos.policy.loss`, with the critic's; `outputs.values` are its own."""
  total, metrics = policy.loss(outputs, batch, denominators, hyperparams)
  mask = masked.loss_mask(batch)
  count = denominators.tokens
  if hyperparams.turn_level:
    # Only a turn's first token has a target.
    mask &= returns.first_of_turn(batch)
    count = denominators.turns
  clean = lambda x: jnp.where(mask, x, 0.0)
  per_token, clipped = value_loss.clipped(
      clean(outputs.values),
      clean(batch.values),
      clean(batch.returns),
      clip=hyperparams.value_clip,
  )
  value = masked.sum(per_token, mask) / count
  share = lambda x: masked.sum(x, mask) / count
  metrics |= {
      'critic/loss': value,
      'critic/clip_fraction': share(clipped),
      'critic/value_mean': share(outputs.values),
      'critic/return_mean': share(batch.returns),
  }
  return total + hyperparams.value_coef * value, metrics
