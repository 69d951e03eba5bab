"""REINFORCE++: REINFORCE whitened over the whole batch (arXiv:2501.03262).

Each sampled token's return to go, whitened over all sampled tokens of the
collection; no critic and no need for groups:

    G_t = r_t + gamma G_next          A = (G - mean(G)) / std(G)

With `group_baseline` (the paper's REINFORCE++-baseline) each return is first
compared with its group's mean, and then whitened over the batch:

    A_e = R_e - mean(R of the group)
"""

import jax.numpy as jnp

from agentrl.algos import policy
from agentrl.algos.hyperparams import ReinforcePP as Hyperparams
from agentrl.batch import TokenBatch
from agentrl.ops import advantage, masked, returns


def advantages(
    batch: TokenBatch,
    hyperparams: Hyperparams = Hyperparams(),
    *,
    num_groups: int
) -> TokenBatch:
  """The batch with `[B, T]` returns and advantages.

  Args:
    batch: whole collection, one episode a row.
    hyperparams: the choices.
    num_groups: distinct tasks in the batch; static.
  """
  mask = masked.loss_mask(batch)
  to_go = returns.discounted(
      batch.rewards, batch.completion_mask, gamma=hyperparams.gamma
  )
  estimate = to_go
  if hyperparams.group_baseline:
    centred = advantage.group_relative(
        batch.episode_return,
        batch.group_ids,
        batch.valid,
        num_groups=num_groups,
        scale=False,
    )
    estimate = advantage.to_tokens(centred, batch)
  estimate = jnp.where(mask, estimate, 0.0)
  return batch.replace(
      returns=to_go, advantages=advantage.whiten(estimate, mask)
  )


loss = policy.loss
