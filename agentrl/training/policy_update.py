"""All updates of the policy on one collection of episodes.

Score it where the plan needs that, shape its rewards, turn them into
advantages, and go over it in minibatches.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from agentrl.algos.hyperparams import Online
from agentrl.batch import TokenBatch
from agentrl.ops import mismatch
from agentrl.parallel import sharding
from agentrl.rollout.collect import is_tied
from agentrl.training import programs as programs_lib, reward
from agentrl.training.programs import Metrics, Programs
from agentrl.training.state import Networks, TrainState
from agentrl.types import Group

_mismatch = jax.jit(mismatch.metrics)


@dataclasses.dataclass(frozen=True)
class UpdatePlan:
  """The use of a collection.

  Attributes:
    hyperparams: of the algorithm.
    max_tokens: per microbatch, padding included.
    seed: of the order of the rows.
    max_context: tokens of the longest episode.
  """

  hyperparams: Online
  max_tokens: int
  seed: int
  max_context: int = 0


def trainable(
    batch: TokenBatch, groups: Sequence[Group], plan: UpdatePlan
) -> np.ndarray:
  """`[E]` bool: the valid episodes that the loss sees."""
  valid = np.array(batch.valid)
  hyperparams = plan.hyperparams
  if hyperparams.ties != 'keep':
    tied = np.array([is_tied(group) for group in groups])
    valid &= ~tied[np.asarray(batch.group_ids)]
  if hyperparams.truncated == 'mask':
    valid &= ~np.asarray(batch.truncated)
  return valid


def update_policy(
    state: TrainState,
    batch: TokenBatch,
    *,
    programs: Programs,
    plan: UpdatePlan,
    advantages: Callable[[TokenBatch], TokenBatch],
    trainable: np.ndarray,
    ref_params: Any,
    kl_coef: float,
    rl_step: int,
    skips: int = 0,
    suspects: list[int] | None = None,
) -> tuple[TrainState, Metrics, TokenBatch]:
  """All updates on one collection.

  With one update the policy that is updated is the one that sampled, so the
  ratio is 1 by definition and old log-probabilities are not computed again;
  `train/old_logprobs_skipped` says so.

  Args:
    state: donated.
    batch: NumPy arrays, as collated.
    programs: the compiled pieces, with the algorithm's loss.
    plan: passes, minibatches and what shapes the rewards.
    advantages: fills in advantages and, with a critic, returns.
    trainable: `[E]` bool, the episodes that the loss sees.
    ref_params: of the reference policy; None when nothing needs it.
    kl_coef: weight of the KL to it.
    rl_step: seeds the order of the rows.
    skips: updates in a row before these whose gradient was not finite; with
      `programs.MAX_SKIPS` of them no more are tried.
    suspects: gets the rows that such updates may be due to.

  Returns:
    The next state; metrics averaged over the updates (`_max`: the largest),
    of which the sampler's agreement is that of the first update, before the
    policy moved; and the batch with what was trained on, old
    log-probabilities included in any case.
  """
  hyperparams = plan.hyperparams
  limit = dict(max_tokens=plan.max_tokens)
  old = np.zeros(batch.tokens.shape, np.float32)  # an only update fills it
  scored = hyperparams.scores
  if scored:
    scores = programs_lib.score(programs, state.networks, batch, **limit)
    old = scores.logprobs
    if state.critic is not None:
      last = np.maximum((np.asarray(batch.segment_ids) > 0).sum(axis=1) - 1, 0)
      batch = batch.replace(
          values=scores.values,
          bootstrap_value=scores.next_values[np.arange(len(last)), last],
      )
  if ref_params is not None:
    # It may wait in the memory of the host, and comes for this pass only.
    reference = Networks(sharding.to_device(ref_params))
    ref = programs_lib.score(programs, reference, batch, **limit)
    del reference
    batch = batch.replace(ref_logprobs=ref.logprobs)
  # What was computed anyhow is the same number as the ratio's 1, but it would
  # come from a pass of other shapes: rounding is not a policy change.
  fixed = old if hyperparams.recomputes else None
  if hyperparams.ratio == 'sampler':
    fixed = batch.sampler_logprobs
  batch, shaped = batch.replace(old_logprobs=old), {}
  if hyperparams.overlong_buffer:
    batch, shaped = reward.punish_length(
        batch, buffer=hyperparams.overlong_buffer, max_context=plan.max_context
    )
  if hyperparams.kl_in_reward:
    batch, charged = reward.charge_kl(
        batch, coef=kl_coef, estimator=hyperparams.kl_estimator
    )
    shaped |= charged
  batch = jax.tree.map(np.asarray, advantages(batch))

  parts, skipped = [], 0
  used = batch.replace(valid=trainable, old_logprobs=fixed)
  before = np.arange(len(trainable))  # rows that `old` speaks of
  for epoch in range(hyperparams.epochs):
    order = np.arange(len(trainable))
    if hyperparams.updates > 1:
      rng = np.random.default_rng((plan.seed, rl_step, epoch))
      order = rng.permutation(order)
    for rows in np.array_split(order, hyperparams.minibatches):
      if skips >= programs_lib.MAX_SKIPS:
        break
      first = not scored and not parts
      state, metrics = programs_lib.update(
          programs,
          state,
          used,
          rows,
          kl_coef=kl_coef,
          logprobs=old if first else None,
          suspects=suspects,
          **limit,
      )
      if metrics:
        before = rows if first else before
        skips = programs_lib.count_skips(skips, metrics)
      if metrics.get('train/skipped'):
        skipped += 1
      elif metrics:
        parts.append(metrics)
  metrics = _average(parts) | shaped | _agreement(batch, old, before, trainable)
  metrics['train/updates'] = float(len(parts))
  metrics['train/skipped'] = float(skipped)
  metrics['train/skips_in_row'] = float(skips)
  metrics['train/old_logprobs_skipped'] = float(not scored)
  metrics['train/learnt_share'] = float(trainable.mean())
  used_logprobs = old if fixed is None else fixed
  return state, metrics, batch.replace(old_logprobs=used_logprobs)


def _agreement(
    batch: TokenBatch, old: np.ndarray, rows: np.ndarray, trainable: np.ndarray
) -> Metrics:
  """How far the trainer, before the policy moved, is from the sampler."""
  # Masked rather than taken out: one program for all numbers of rows.
  seen = np.isin(np.arange(len(old)), rows) & trainable
  seen &= np.isfinite(old).all(axis=1)
  mask = np.asarray(batch.completion_mask) & seen[:, None]
  if not mask.any():
    return {}
  found = _mismatch(old, batch.sampler_logprobs, mask, mask.sum())
  return {name: float(value) for name, value in found.items()}


def _average(parts: Sequence[Metrics]) -> Metrics:
  merged = {}
  for name in dict.fromkeys(name for part in parts for name in part):
    values = [part[name] for part in parts if name in part]
    merged[name] = (
        max(values) if name.endswith('_max') else float(np.mean(values))
    )
  return merged
