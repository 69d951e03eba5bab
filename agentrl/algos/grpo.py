"""GRPO: group relative policy optimization (arXiv:2402.03300, section 4.1).

For each task, sample a group of episodes. An episode's advantage is its return
standardised within its group, the same for each of its sampled tokens:

    A_e = (R_e - mean(R of the group)) / (std(R of the group) + eps)

The policy ascends PPO's clipped surrogate of A, held near a reference
(`algos.policy`). Dr. GRPO (arXiv:2503.20783) is `normalise_std=False` with
`aggregation='constant'`; DAPO (arXiv:2503.14476) a larger `clip_high`, the token
mean and groups of equal returns sampled anew; GSPO (arXiv:2507.18071)
`ratio_level='sequence'`; CISPO (arXiv:2506.13585) `surrogate='cispo'`.
"""

from agentrl.algos import policy
from agentrl.algos.hyperparams import Grpo as Hyperparams
from agentrl.batch import TokenBatch
from agentrl.ops import advantage


def advantages(
    batch: TokenBatch,
    hyperparams: Hyperparams = Hyperparams(),
    *,
    num_groups: int
) -> TokenBatch:
  """The batch with `[B, T]` advantages: 0 where nothing was sampled.

  Args:
    batch: whole collection: group statistics need every member.
    hyperparams: the choices.
    num_groups: distinct tasks in the batch; static.
  """
  per_episode = advantage.group_relative(
      batch.episode_return,
      batch.group_ids,
      batch.valid,
      num_groups=num_groups,
      ddof=hyperparams.ddof,
      scale=hyperparams.normalise_std,
  )
  return batch.replace(advantages=advantage.to_tokens(per_episode, batch))


loss = policy.loss
