"""The policy's loss: what every online algorithm here shares.

An algorithm is an estimate of advantages and this loss:

    loss = mean over tokens of [w f(r, A) + kl_coef KL] - entropy_coef H

f is one of `ops.policy_loss`, such as PPO's clipped surrogate; r the ratio of a
token or of its whole sequence; w of `ops.correction` allows for a sampler that is
not the trainer; "mean" is one of `ops.aggregate`. `hyperparams.Online` names the choices and their papers.
"""

import functools
from typing import Any, NamedTuple

import jax

from agentrl.algos import algorithm
from agentrl.algos.hyperparams import Online
from agentrl.batch import TokenBatch
from agentrl.errors import ConfigError
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
  sampled = jax.numpy.where(mask, logprobs, 0.0)
  match hyperparams.surrogate:
    case 'clip':
      per_token, clipped = policy_loss.clipped(
          log_ratio, advantages, **clips, dual_clip=hyperparams.dual_clip
      )
    case 'cispo':
      per_token, clipped = policy_loss.cispo(
          sampled, log_ratio, advantages, **clips
      )
    case 'topr':
      per_token, clipped = policy_loss.topr(sampled, log_ratio, advantages)
    case 'dppo_tv' | 'dppo_kl' as name:
      per_token, clipped = policy_loss.trust_region(
          sampled,
          log_ratio,
          advantages,
          **clips,
          divergence=name.removeprefix('dppo_'),
      )
    case unknown:
      raise ValueError(f'Unknown surrogate {unknown!r}.')
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
  options = hyperparams
  weights: list[jax.Array] = []
  metrics: Metrics = {}
  if not options.corrects or options.ratio == 'sampler':
    return None, metrics
  assert batch.sampler_logprobs is not None  # as collated
  both = (old, batch.sampler_logprobs, mask)
  if (cap := options.importance_cap) is not None:
    if (low := options.importance_low) is None:
      weight = correction.truncated_importance(*both, cap=cap)
      capped = weight >= cap
    else:
      weight = correction.masked_importance(*both, low=low, high=cap)
      capped = weight == 0
    weights.append(weight)
    metrics['correction/weight_mean'] = share(weight)
    metrics['correction/capped'] = share(capped)
  if (cap := options.sequence_cap) is not None:
    weight = correction.sequence_importance(*both, batch, cap=cap)
    weights.append(weight)
    metrics['correction/sequence_weight_mean'] = share(weight)
    metrics['correction/sequence_capped'] = share(weight >= cap)
  masks = []
  if options.sequence_low is not None:
    assert options.sequence_high is not None  # both are set, or neither
    masks.append(
        correction.sequence_mask(
            *both, batch, low=options.sequence_low, high=options.sequence_high
        )
    )
  if (most := options.sequence_k3) is not None:
    masks.append(correction.k3_mask(*both, batch, most=most))
  if (most := options.outlier) is not None:
    masks.append(correction.outlier_mask(*both, batch, most=most))
  if masks:
    keep = functools.reduce(jax.numpy.logical_and, masks)
    metrics['correction/dropped'] = share(~keep)
    weights.append(keep.astype(jax.numpy.float32))
  if options.correction != 'none':
    weight = algorithm.correction(options.correction)(*both, batch)
    if getattr(weight, 'shape', None) != mask.shape:
      raise ConfigError(
          f'{options.correction} gave weights of the shape'
          f' {getattr(weight, "shape", None)}: there is one for each token,'
          f' {mask.shape}.'
      )
    weight = jax.lax.stop_gradient(jax.numpy.where(mask, weight, 1.0))
    weights.append(weight)
    metrics['correction/own_weight_mean'] = share(weight)
  if not weights:
    return None, metrics
  return functools.reduce(jax.numpy.multiply, weights), metrics
