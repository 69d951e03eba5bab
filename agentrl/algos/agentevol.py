"""AgentEvol: likelihood weighted by the return (arXiv:2406.04151, section 4).

The policy explores, and learns from what it achieved, again and again (the loop
is `training.agentevol`). With the weight R of an episode,

    loss = -1/N sum_mask R log p(token)

N counts the masked tokens of the whole minibatch. With R = 1 for all trained
episodes this is `sft`, as in the original's code.
"""

import jax
import jax.numpy as jnp

from agentrl.algos.policy import Metrics, Outputs
from agentrl.batch import TokenBatch
from agentrl.ops import masked
from agentrl.ops.aggregate import Denominators


def loss(
    outputs: Outputs, batch: TokenBatch, denominators: Denominators
) -> tuple[jax.Array, Metrics]:
  """This microbatch's share of the minibatch's weighted log-likelihood.

  Args:
    outputs: of the current policy; the entropy is logged only.
    batch: one microbatch; `completion_mask` is True on the tokens to learn, and
      `advantages` is R on the tokens of an episode.
    denominators: of the whole minibatch.
  """
  mask = masked.loss_mask(batch)
  assert batch.advantages is not None
  weight = jnp.where(mask, batch.advantages, 0.0)
  mean = lambda x: masked.sum(x, mask) / denominators.tokens
  total = -mean(weight * outputs.logprobs)
  return total, {
      'policy/loss': total,
      'policy/entropy': mean(outputs.entropy),
      'policy/weight': mean(weight),
  }
