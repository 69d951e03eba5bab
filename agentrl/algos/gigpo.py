"""GiGPO: group-in-group policy optimization (arXiv:2505.10978).

Two advantages are added. The episode's is GRPO's. The turn's compares what
followed from the same state: turns of one task's group that answer the same
observation (the anchor) form a group of their own, in which their discounted
returns to go are standardised:

    A_turn = A_episode(R) + step_weight A_step(G),   G_k = r_k + gamma G_{k+1}

The paper trains on one row a turn. Here episodes stay concatenated, so a turn's
tokens carry their turn's sum, and the anchor is the observation alone, as in
the paper: turns that share it may have different histories. A turn that is not
for the environment, a plan say, shares its anchor with no other: it changes no
state, and the action after it answers the same observation.
"""

import functools

from agentrl.algos import policy
from agentrl.algos.hyperparams import GiGpo as Hyperparams
from agentrl.batch import TokenBatch
from agentrl.ops import advantage, returns


def advantages(
    batch: TokenBatch,
    hyperparams: Hyperparams = Hyperparams(),
    *,
    num_groups: int
) -> TokenBatch:
  """The batch with `[B, T]` returns of turns, and advantages.

  Args:
    batch: whole collection, one episode a row, with `anchor_ids`.
    hyperparams: the choices.
    num_groups: distinct tasks in the batch; static.
  """
  standardise = functools.partial(
      advantage.group_relative,
      ddof=hyperparams.ddof,
      scale=hyperparams.normalise_std,
  )
  per_episode = standardise(
      batch.episode_return,
      batch.group_ids,
      batch.valid,
      num_groups=num_groups,
  )
  first = returns.first_of_turn(batch)
  turns = returns.sum_turns(first, batch) > 0  # [B, T], column k: turn k
  to_go = returns.discounted(
      returns.sum_turns(batch.rewards, batch), turns, gamma=hyperparams.gamma
  )
  assert batch.anchor_ids is not None
  anchors = returns.sum_turns(first * batch.anchor_ids, batch).astype(int)
  per_turn = standardise(
      to_go.ravel(),
      anchors.ravel(),
      (turns & batch.valid[:, None]).ravel(),
      num_groups=turns.size,  # at most one anchor a turn
  ).reshape(turns.shape)
  return batch.replace(
      returns=returns.spread_turns(to_go, batch),
      advantages=advantage.to_tokens(per_episode, batch)
      + hyperparams.step_weight * returns.spread_turns(per_turn, batch),
  )


loss = policy.loss
