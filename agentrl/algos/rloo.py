"""RLOO: REINFORCE with a leave-one-out baseline (arXiv:2402.14740).

The whole episode is one action. Its baseline is the mean return of the other
episodes of its task, which is unbiased because it does not depend on it:

    A_e = R_e - mean(R of the others)

The paper's gradient is A_e grad log p(episode), a sum over its tokens; with one
update a collection the surrogate of `algos.policy` has that gradient, up to
the aggregation's denominator.
"""

from agentrl.algos import policy
from agentrl.algos.hyperparams import Rloo as Hyperparams
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
    batch: whole collection: the baseline needs every member of a group.
    hyperparams: the choices; none concerns the advantages.
    num_groups: distinct tasks in the batch; static.
  """
  del hyperparams
  per_episode = advantage.leave_one_out(
      batch.episode_return, batch.group_ids, batch.valid, num_groups=num_groups
  )
  return batch.replace(advantages=advantage.to_tokens(per_episode, batch))


loss = policy.loss
