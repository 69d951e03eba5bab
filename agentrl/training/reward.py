"""Rewards beside the environment's: a length penalty, a KL penalty."""

import numpy as np

from agentrl.batch import TokenBatch
from agentrl.ops import kl


def punish_length(
    batch: TokenBatch, *, buffer: int, max_context: int
) -> tuple[TokenBatch, dict[str, float]]:
  """Lowers the return of long episodes (arXiv:2503.14476, soft overlong).

  Linearly over the last tokens that fit, by 1 at the end, and on the last
  sampled token, like every reward. The longest segment counts.

  Args:
    batch: NumPy arrays, one episode a row.
    buffer: tokens before `max_context` in which the punishment grows.
    max_context: tokens of the longest episode.

  Returns:
    The batch with other rewards and returns, and metrics: none without a valid
    episode, since a mean of nothing is no number.
  """
  rewards = np.array(batch.rewards)
  mask = np.asarray(batch.completion_mask)
  # A segment has the context for itself.
  length = np.asarray(batch.positions).max(axis=1) + 1
  penalty = np.clip((max_context - buffer - length) / buffer, -1, 0)
  last = mask.shape[1] - 1 - np.argmax(mask[:, ::-1], axis=1)
  rewards[np.arange(len(rewards)), last] += np.where(
      mask.any(axis=1), penalty, 0
  )
  counted = penalty[np.asarray(batch.valid)]
  return _with_rewards(batch, rewards), _mean('overlong_penalty', counted)


def charge_kl(
    batch: TokenBatch, *, coef: float, estimator: str
) -> tuple[TokenBatch, dict[str, float]]:
  """Takes the KL to the reference off each sampled token's reward.

  As PPO for language models does (arXiv:1909.08593, section 2).

  Args:
    batch: NumPy arrays, one episode a row, with old and reference
      log-probabilities.
    coef: weight of the KL.
    estimator: of it, see `ops.kl`.

  Returns:
    The batch with other rewards and returns, and metrics, none without a valid
    episode: the coefficient is then steered by nothing.
  """
  mask = batch.completion_mask
  old, ref = batch.old_logprobs, batch.ref_logprobs
  assert old is not None and ref is not None
  divergence = np.asarray(kl.estimate(old, ref, mask, estimator=estimator))
  rewards = np.array(batch.rewards)
  rewards -= coef * divergence
  trainable = mask & np.asarray(batch.valid)[:, None]
  return _with_rewards(batch, rewards), _mean('kl', divergence[trainable])


def reverse_kl(batch: TokenBatch) -> dict[str, float]:
  """The mean of log p_student - log p_teacher over sampled tokens.

  An estimate of the reverse KL divergence of a token; it may be below 0.

  Args:
    batch: NumPy arrays, with old log-probabilities and the teacher's.
  """
  old, teacher = batch.old_logprobs, batch.teacher_logprobs
  assert old is not None and teacher is not None
  sampled = batch.completion_mask & np.asarray(batch.valid)[:, None]
  divergence = (old - teacher)[sampled]
  if not divergence.size:
    return {}
  return {'distill/reverse_kl': float(divergence.mean())}


def _mean(name: str, values: np.ndarray) -> dict[str, float]:
  return {f'reward/{name}': float(values.mean())} if values.size else {}


def _with_rewards(batch: TokenBatch, rewards: np.ndarray) -> TokenBatch:
  return batch.replace(rewards=rewards, episode_return=rewards.sum(axis=1))
