"""The policy's loss: what every online algorithm here shares.

An algorithm is an estimate of advantages and this loss:

    loss = mean over tokens of [w f(r, A) + kl_coef KL] - entropy_coef H

f is PPO's clipped surrogate or CISPO's; r the ratio of a token or of its whole
sequence; w corrects for a sampler that is not the trainer; "mean" is one of
`ops.aggregate`. `hyperparams.Online` names the choices and their papers.
"""

from typing import Any, NamedTuple

import jax

from agentrl.algos.hyperparams import Online
from agentrl.batch import TokenBatch
from agentrl.ops import (
    aggregate,
    correction,
    kl,
    masked,
    policy_loss,
    ratio as ratio_lib,
)
from agentrl.ops.aggregate import Denominators

Metrics = dict[str, jax.Array]


class Outputs(NamedTuple):
  """Outputs of the networks for a microbatch, each `[B, T]`."""

  logprobs: jax.Array
  entropy: jax.Array
  values: jax.Array | None = None  # with a critic


def loss(
    outputs: Outputs,
    batch: TokenBatch,
    denominators: Denominators,
    hyperparams: Online,
) -> tuple[jax.Array, Metrics]:
  """This microbatch's share of the minibatch's loss.

  Args:
    outputs: of the current networks.
    batch: one microbatch with advantages. `old_logprobs=None` marks the first
      and only update of the collection: then the ratio is 1 and only its
      gradient counts.
    denominators: of the whole minibatch.
    hyperparams: the choices. Where the KL is in the loss, `batch.ref_logprobs`
      and `denominators.kl_coef` are needed.

  Returns:
    Scalar loss and metrics: summed over the microbatches of a minibatch they
    are the minibatch's (those called `_max`: the largest).
  """
  mask = masked.loss_mask(batch)
  logprobs = outputs.logprobs
  old = batch.old_logprobs
  if old is None:
    old = jax.lax.stop_gradient(logprobs)
  mean = lambda x: aggregate.mean(
      x,
      mask,
      batch,
      denominators,
      mode=hyperparams.aggregation,
      constant=hyperparams.aggregation_constant,
  )
  # Metrics are token means whatever the loss is, so that runs compare.
  share = lambda x: masked.sum(x, mask) / denominators.tokens

  log_ratio = policy_loss.log_ratio(
      logprobs, old, mask, batch, level=hyperparams.ratio_level
  )
  assert batch.advantages is not None
  advantages = jax.numpy.where(mask, batch.advantages, 0.0)
  clips = dict(clip_low=hyperparams.clip_low, clip_high=hyperparams.clip_high)
  if hyperparams.surrogate == 'cispo':
    per_token, clipped = policy_loss.cispo(
        jax.numpy.where(mask, logprobs, 0.0), log_ratio, advantages, **clips
    )
  else:
    per_token, clipped = policy_loss.clipped(
        log_ratio, advantages, **clips, dual_clip=hyperparams.dual_clip
    )
  weight, metrics = _correction(old, batch, mask, hyperparams, share)
  if weight is not None:
    per_token *= weight

  ratio = ratio_lib.from_log(log_ratio)
  policy = mean(per_token)
  entropy = share(outputs.entropy)
  metrics |= {
      'policy/loss': policy,
      'policy/entropy': entropy,
      'policy/approx_kl': share(ratio_lib.k3(log_ratio)),
      'policy/clip_fraction': share(clipped),
      'policy/ratio_max': masked.max(ratio, mask),
  }
  total = policy
  if hyperparams.entropy_coef:
    total -= hyperparams.entropy_coef * mean(outputs.entropy)
  if hyperparams.kl_in_loss:
    ref = batch.ref_logprobs
    assert ref is not None
    estimate = lambda estimator: kl.estimate(
        logprobs, ref, mask, estimator=estimator
    )
    total += denominators.kl_coef * mean(estimate(hyperparams.kl_estimator))
    metrics['policy/kl_ref'] = share(estimate('k3'))
  return total, metrics


def _correction(
    old: jax.Array,
    batch: TokenBatch,
    mask: jax.Array,
    hyperparams: Online,
    share: Any,
) -> tuple[jax.Array | None, Metrics]:
  """`[B, T]` weights of the tokens, or None, and what they did."""
  weight, metrics = None, {}
  if hyperparams.importance_cap is not None:
    assert batch.sampler_logprobs is not None
    weight = correction.truncated_importance(
        old, batch.sampler_logprobs, mask, cap=hyperparams.importance_cap
    )
    metrics['correction/weight_mean'] = share(weight)
    metrics['correction/capped'] = share(weight >= hyperparams.importance_cap)
  if hyperparams.sequence_low is not None:
    assert batch.sampler_logprobs is not None
    assert hyperparams.sequence_high is not None  # both are set, or neither
    keep = correction.sequence_mask(
        old,
        batch.sampler_logprobs,
        mask,
        batch,
        low=hyperparams.sequence_low,
        high=hyperparams.sequence_high,
    )
    weight = keep if weight is None else weight * keep
    metrics['correction/dropped'] = share(~keep)
  return weight, metrics
