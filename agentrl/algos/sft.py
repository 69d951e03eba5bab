"""Supervised fine-tuning: maximum likelihood of the chosen tokens.

    loss = -1/N sum_mask log p(token)

N counts the masked tokens of the whole minibatch, so that a long demonstration
does not weigh less per token than a short one.
"""

import jax

from agentrl.algos.policy import Metrics, Outputs
from agentrl.batch import TokenBatch
from agentrl.ops import masked
from agentrl.ops.aggregate import Denominators


def loss(
    outputs: Outputs, batch: TokenBatch, denominators: Denominators
) -> tuple[jax.Array, Metrics]:
  """This microbatch's share of the minibatch's negative log-likelihood.

  Args:
    outputs: of the current policy; the entropy is logged only.
    batch: one microbatch; `completion_mask` is True on the tokens to learn.
    denominators: of the whole minibatch.
  """
  mask = masked.loss_mask(batch.completion_mask, batch.episodes, batch.valid)
  total = -masked.sum(outputs.logprobs, mask) / denominators.tokens
  mean_entropy = masked.sum(outputs.entropy, mask) / denominators.tokens
  return total, {'policy/loss': total, 'policy/entropy': mean_entropy}
