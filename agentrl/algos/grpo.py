"""GRPO: group relative policy optimisation (arXiv:2402.03300, section 4.1).

For each task, sample a group of episodes. An episode's advantage is its return
standardised within its group, the same for each of its sampled tokens:

    A_e = (R_e - mean(R of the group)) / (std(R of the group) + eps)

The policy ascends PPO's clipped surrogate of A, held near a reference:

    loss = -1/N sum_tokens [min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)
                            - kl_coef KL_t] - entropy_coef H

N counts the sampled tokens of the whole minibatch (token mean, as in DAPO,
arXiv:2503.14476). A truncated episode keeps its return.
"""

import jax

from agentrl.batch import TokenBatch
from agentrl.ops import advantage, kl, masked, policy_loss


def advantages(
    batch: TokenBatch, *, num_groups: int, ddof: int = 1
) -> jax.Array:
  """`[B, T]` advantages of sampled tokens, 0 elsewhere.

  Args:
    batch: whole collection: group statistics need every member.
    num_groups: distinct tasks in the batch; static.
    ddof: of the group's standard deviation.
  """
  per_episode = advantage.group_relative(
      batch.episode_return,
      batch.group_ids,
      batch.valid,
      num_groups=num_groups,
      ddof=ddof,
  )
  return advantage.to_tokens(
      per_episode, batch.segment_ids, batch.completion_mask
  )


def loss(
    logprobs: jax.Array,
    entropy: jax.Array,
    batch: TokenBatch,
    num_tokens: jax.Array,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    kl_coef: float = 0.0,
    kl_estimator: str = 'k3+',
    entropy_coef: float = 0.0,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """This microbatch's share of the minibatch's loss.

  Args:
    logprobs: `[B, T]` under the current policy.
    entropy: `[B, T]` of the distributions that the tokens were drawn from.
    batch: one microbatch. `old_logprobs=None` says that this is the first and
      only update of the collection: then the ratio is 1 and only its gradient
      counts.
    num_tokens: scalar, sampled tokens of valid episodes in the whole minibatch.
    clip_low: lower clip range.
    clip_high: upper clip range.
    kl_coef: weight of the KL to the reference; needs `batch.ref_logprobs`.
    kl_estimator: see `ops.kl`.
    entropy_coef: weight of the entropy bonus.

  Returns:
    Scalar loss and metrics: summed over the microbatches of a minibatch they
    are the minibatch's.
  """
  mask = masked.loss_mask(batch.completion_mask, batch.segment_ids, batch.valid)
  old_logprobs = batch.old_logprobs
  if old_logprobs is None:
    old_logprobs = jax.lax.stop_gradient(logprobs)
  total, metrics = policy_loss.clipped_surrogate(
      logprobs,
      old_logprobs,
      batch.advantages,
      mask,
      num_tokens,
      clip_low=clip_low,
      clip_high=clip_high,
  )
  mean_entropy = masked.sum(entropy, mask) / num_tokens
  metrics['policy/entropy'] = mean_entropy
  metrics['policy/loss'] = total
  if entropy_coef:
    total -= entropy_coef * mean_entropy
  if kl_coef:
    divergence = kl.estimate(
        logprobs, batch.ref_logprobs, mask, estimator=kl_estimator
    )
    mean_kl = masked.sum(divergence, mask) / num_tokens
    metrics['policy/kl_ref'] = mean_kl
    total += kl_coef * mean_kl
  return total, metrics
