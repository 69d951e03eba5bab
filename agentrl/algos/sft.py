"""Supervised fine-tuning: maximum likelihood of the chosen tokens.

    loss = -1/N sum_mask log p(token)

N counts the masked tokens of the whole minibatch, so that a long demonstration
does not weigh less per token than a short one.
"""

import jax

from agentrl.batch import TokenBatch
from agentrl.ops import masked


def loss(
    logprobs: jax.Array,
    entropy: jax.Array,
    batch: TokenBatch,
    num_tokens: jax.Array,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """This microbatch's share of the minibatch's negative log-likelihood.

  Args:
    logprobs: `[B, T]` under the current policy.
    entropy: `[B, T]`; logged only.
    batch: one microbatch; `completion_mask` is True on the tokens to learn.
    num_tokens: scalar, such tokens of valid episodes in the whole minibatch.
  """
  mask = masked.loss_mask(batch.completion_mask, batch.segment_ids, batch.valid)
  total = -masked.sum(logprobs, mask) / num_tokens
  mean_entropy = masked.sum(entropy, mask) / num_tokens
  return total, {'policy/loss': total, 'policy/entropy': mean_entropy}
