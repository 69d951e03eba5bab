"""Supervised fine-tuning: maximum likelihood of the chosen tokens.

    loss = -1/N [sum_mask log p(token) + w sum_read log p(token)]

N counts the masked tokens of the whole minibatch, so that a long demonstration
does not weigh less per token than a short one. With a prompt loss weight w the
policy also learns to predict what it reads, prompts and observations: a network
from scratch learns to copy from there (arXiv:2401.13586 measures pretrained ones).
"""

import jax

from agentrl.algos.policy import Metrics, Outputs
from agentrl.batch import TokenBatch
from agentrl.ops import masked
from agentrl.ops.aggregate import Denominators


def loss(
    outputs: Outputs,
    batch: TokenBatch,
    denominators: Denominators,
    prompt_weight: float = 0.0,
) -> tuple[jax.Array, Metrics]:
  """This microbatch's share of the minibatch's negative log-likelihood.

  Args:
    outputs: of the current policy; the entropy is logged only.
    batch: one microbatch; `completion_mask` is True on the tokens to learn.
    denominators: of the whole minibatch.
    prompt_weight: of the tokens that the policy reads.

  Returns:
    Scalar loss, and metrics of the tokens to learn, whatever the weight.

  Raises:
    ValueError: prompts have a weight and lie in shared prefixes, which have no
      log-probabilities.
  """
  mask = masked.loss_mask(batch)
  total = -masked.sum(outputs.logprobs, mask) / denominators.tokens
  mean_entropy = masked.sum(outputs.entropy, mask) / denominators.tokens
  metrics = {'policy/loss': total, 'policy/entropy': mean_entropy}
  if prompt_weight:
    if batch.prefix is not None:
      raise ValueError('Tokens of shared prefixes cannot be learnt.')
    # The first token of a segment, which nothing predicts, has 0.
    read = ~batch.completion_mask & (batch.episodes > 0)
    read &= masked.gather_episodes(batch.valid, batch)
    prompts = -masked.sum(outputs.logprobs, read) / denominators.tokens
    total += prompt_weight * prompts
  return total, metrics
