"""All updates of the policy on one collection of episodes.

Scores it where the plan needs that, shapes its rewards, turns them into
advantages, and makes an update of each minibatch.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from agentrl.algos.hyperparams import Online
from agentrl.batch import TokenBatch
from agentrl.data import collate, packing
from agentrl.data.packing import Shape
from agentrl.ops import mismatch
from agentrl.parallel import distributed, mesh as mesh_lib, sharding
from agentrl.rollout.collect import is_tied
from agentrl.training import (
    gauges,
    programs as programs_lib,
    reward,
    state as state_lib,
)
from agentrl.training.programs import Metrics, Programs
from agentrl.training.state import Networks, TrainState
from agentrl.types import Group

_mismatch = jax.jit(mismatch.metrics)


@dataclasses.dataclass(frozen=True)
class UpdatePlan:
  """Settings of the updates on a collection.

  Attributes:
    hyperparams: of the algorithm.
    max_tokens: per microbatch, padding included.
    seed: of the order of the rows.
    max_context: tokens of the longest episode.
    episodes: of a collection.
    gauges_every: rl steps between estimates of `gauges`; 0: none.
    simulated_s: see `training.options.RlOptim`.
  """

  hyperparams: Online
  max_tokens: int
  seed: int
  max_context: int = 0
  episodes: int = 0
  gauges_every: int = 0
  simulated_s: float | None = None


@dataclasses.dataclass(frozen=True)
class Update:
  """The use of a collection.

  Attributes:
    programs: with the algorithm's loss.
    plan: passes and minibatches.
    advantages: `advantages(batch, num_groups=)` fills them in, and with a
      critic the returns.
    learning_rate: after i updates were applied, for the record.
    ref_params: of the reference policy, or None.
  """

  programs: Programs
  plan: UpdatePlan
  advantages: Callable[..., TokenBatch]
  learning_rate: optax.Schedule
  ref_params: Any = None


class LastUpdate(NamedTuple):
  """The policy's outputs in the update that each row was last part of.

  They come from the pass that made the gradient, under the parameters before
  that update; nothing is computed for them. NaN marks tokens that no update
  computed: those that were not sampled, and whole rows that the loss does not
  see.

  Attributes:
    logprobs: `[B, T]`.
    entropy: `[B, T]`, of the distribution that each token was drawn from.
    placements: `[B, 5]` int32, columns `PLACEMENT`; -1 in rows of no update.
  """

  logprobs: np.ndarray
  entropy: np.ndarray
  placements: np.ndarray


# Minibatch of the last epoch, microbatch in it, row in that, the column where
# the episode begins, and how many of its first tokens are a prefix that it shares
# with its group. Of several segments the last one's.
PLACEMENT = ('minibatch', 'microbatch', 'row', 'start', 'shared')


class UpdatedPolicy(NamedTuple):
  """The results of all updates on one collection.

  Attributes:
    state: the next.
    metrics: averages over the updates (`_max`: the largest), of which the
      sampler's agreement is that of the first update, before the policy moved.
    batch: with what was trained on, old log-probabilities in any case.
    suspects: rows that skipped updates may be due to, ascending.
    last: outputs of the last update of each row; None: there was none.
  """

  state: TrainState
  metrics: Metrics
  batch: TokenBatch
  suspects: list[int]
  last: LastUpdate | None


def prepare(update: Update, state: TrainState) -> None:
  """Begins to compile the programs that serve any collection.

  Their rows are as long as an episode may be, and as many as a microbatch may
  have or as there are episodes. Smaller ones are compiled once they would have
  paid for themselves.

  Args:
    update: the use of collections; nothing is done where its programs are not
      compiled beside the work.
    state: of which only shapes and shardings are read.
  """
  programs, plan = update.programs, update.plan
  if not programs.accumulate.ahead or plan.simulated_s is not None:
    return
  mesh = programs.mesh
  multiple = mesh_lib.batch_size(mesh)
  length = packing.bucket_length(plan.max_context)
  most = packing.most_rows(plan.max_tokens, length, multiple)

  def serving(episodes: int) -> Shape:
    rows = multiple * packing.bucket_count(-(-episodes // multiple))
    return Shape(min(rows, most), length)

  batch = collate.blank(plan.episodes)
  tokens = np.zeros(batch.tokens.shape, np.float32)
  batch = batch.replace(old_logprobs=tokens)
  if state.critic is not None:
    batch = batch.replace(values=tokens, bootstrap_value=batch.episode_return)
  if update.ref_params is not None:
    batch = batch.replace(ref_logprobs=tokens)
  if plan.hyperparams.TEACHER:
    batch = batch.replace(teacher_logprobs=tokens)
  batch = jax.eval_shape(
      functools.partial(update.advantages, num_groups=1), batch
  )
  batch = batch.replace(old_logprobs=_anchor(batch, plan))
  sizes = {1: (packing.bucket_count(plan.episodes),), 2: (multiple, length)}
  piece = state_lib.place(
      jax.tree.map(lambda x: np.zeros(sizes[x.ndim], x.dtype), batch), mesh
  )
  scored = [state.networks] if plan.hyperparams.scores else []
  if update.ref_params is not None:
    scored.append(Networks(state.params))  # the reference's are like them
  for networks in scored:
    programs.score.prepare(
        serving(plan.episodes), networks, programs_lib.seen(piece)
    )
  programs.accumulate.prepare(
      serving(-(-plan.episodes // plan.hyperparams.minibatches)),
      state.networks,
      state_lib.gradients(state),
      piece,
      programs_lib.NO_DENOMINATORS,
  )


def learnt_episodes(
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
    update: Update,
    *,
    num_groups: int,
    learnt: np.ndarray,
    kl_coef: float,
    rl_step: int,
    skips: int = 0,
    staleness: np.ndarray | None = None,
) -> UpdatedPolicy:
  """All updates on one collection: score, shape, advantage, fit.

  With one update the policy that is updated is the one that sampled, so the
  ratio is 1 by definition and old log-probabilities are not computed again:
  `train/old_logprobs_skipped` is 1.

  Args:
    state: donated.
    batch: NumPy arrays, as collated.
    update: the use of the collection.
    num_groups: of the batch.
    learnt: `[E]` bool, the episodes that the loss sees.
    kl_coef: weight of the KL to the reference.
    rl_step: seeds the order of the rows.
    skips: updates in a row before these whose gradient was not finite; with
      `programs.MAX_SKIPS` of them no more are tried.
    staleness: `[E]` pushes since each episode was admitted; None: all of this
      policy. The KL to the sampler is then also given by it.
  """
  plan, hyperparams = update.plan, update.plan.hyperparams
  if plan.simulated_s is not None:
    time.sleep(plan.simulated_s)
    return UpdatedPolicy(state, {'train/skips_in_row': 0.0}, batch, [], None)
  measured = {}
  if plan.gauges_every and rl_step % plan.gauges_every == 0:
    measured = gauges.information(
        update.programs, state.networks, batch, max_tokens=plan.max_tokens
    )
  batch = _score(state, batch, update)
  batch, shaped = _shape(batch, plan, kl_coef)
  batch = jax.tree.map(
      np.asarray, update.advantages(batch, num_groups=num_groups)
  )
  fit = _fit(
      state,
      batch,
      update,
      learnt=learnt,
      kl_coef=kl_coef,
      rl_step=rl_step,
      skips=skips,
  )
  metrics = _average(fit.metrics) | measured | shaped
  metrics |= _agreement(batch, fit, learnt)
  for age in () if staleness is None else np.unique(staleness).tolist():
    found = _agreement(batch, fit, learnt & (staleness == age))
    if found:
      metrics[f'sampler/kl_behind_{age}'] = found['sampler/kl']
  metrics['train/updates'] = float(len(fit.metrics))
  metrics['train/skipped'] = float(fit.skipped)
  metrics['train/skips_in_row'] = float(fit.skips)
  metrics['train/old_logprobs_skipped'] = float(not hyperparams.scores)
  metrics['train/learnt_share'] = float(learnt.mean())
  anchor = _anchor(batch, plan)
  batch = batch.replace(old_logprobs=fit.old if anchor is None else anchor)
  return UpdatedPolicy(
      fit.state, metrics, batch, sorted(fit.suspects), fit.last
  )


def _score(state: TrainState, batch: TokenBatch, update: Update) -> TokenBatch:
  """The batch with old and reference log-probabilities and a critic's values.

  Old ones are 0 where the only update computes them.
  """
  limit = dict(max_tokens=update.plan.max_tokens)
  old = np.zeros(batch.tokens.shape, np.float32)
  if update.plan.hyperparams.scores:
    scores = programs_lib.score(update.programs, state.networks, batch, **limit)
    old = scores.logprobs
    if state.critic is not None:
      last = np.maximum((np.asarray(batch.segment_ids) > 0).sum(axis=1) - 1, 0)
      batch = batch.replace(
          values=scores.values,
          bootstrap_value=scores.next_values[np.arange(len(last)), last],
      )
  if update.ref_params is not None:
    # It may wait in the host's memory, and is on the device for this alone.
    reference = Networks(sharding.to_device(update.ref_params))
    ref = programs_lib.score(update.programs, reference, batch, **limit)
    batch = batch.replace(ref_logprobs=ref.logprobs)
  return batch.replace(old_logprobs=old)


def _shape(
    batch: TokenBatch, plan: UpdatePlan, kl_coef: float
) -> tuple[TokenBatch, Metrics]:
  """The batch with the rewards that the algorithm learns from, and metrics."""
  hyperparams = plan.hyperparams
  metrics: Metrics = {}
  if hyperparams.overlong_buffer:
    batch, metrics = reward.punish_length(
        batch, buffer=hyperparams.overlong_buffer, max_context=plan.max_context
    )
  if hyperparams.kl_in_reward:
    batch, charged = reward.charge_kl(
        batch, coef=kl_coef, estimator=hyperparams.kl_estimator
    )
    metrics |= charged
  if batch.teacher_logprobs is not None:
    metrics |= reward.reverse_kl(batch)
  return batch, metrics


class _Fit(NamedTuple):
  """The updates on a collection.

  Attributes:
    state: the next.
    metrics: of each update that was applied.
    skipped: updates whose gradient was not finite.
    skips: those in a row at the end.
    suspects: rows that skipped updates may be due to.
    old: `[B, T]` log-probabilities before the policy moved.
    seen: rows in which those are known.
    last: outputs of the last update of each row.
  """

  state: TrainState
  metrics: list[Metrics]
  skipped: int
  skips: int
  suspects: set[int]
  old: np.ndarray
  seen: np.ndarray
  last: LastUpdate


def _fit(
    state: TrainState,
    batch: TokenBatch,
    update: Update,
    *,
    learnt: np.ndarray,
    kl_coef: float,
    rl_step: int,
    skips: int,
) -> _Fit:
  """An update of each minibatch; arguments as of `update_policy`."""
  plan, hyperparams = update.plan, update.plan.hyperparams
  used = batch.replace(valid=learnt, old_logprobs=_anchor(batch, plan))
  applied: list[Metrics] = []
  suspects: set[int] = set()
  skipped = 0
  old, seen = batch.old_logprobs, np.arange(len(learnt))
  assert old is not None  # see `_score`
  last = no_update(batch)
  for minibatch, rows in enumerate(minibatches(used, plan, rl_step)):
    if skips >= programs_lib.MAX_SKIPS:
      break
    result = programs_lib.update(
        update.programs,
        state,
        used,
        rows,
        max_tokens=plan.max_tokens,
        kl_coef=kl_coef,
        whole_episodes=hyperparams.whole_episodes,
    )
    state, metrics = result.state, result.metrics
    suspects.update(result.suspects)
    if metrics and not hyperparams.scores and not applied:
      # The policy has not moved yet.
      seen, old = rows, old.copy()
      for kept, places in result.outputs:
        collate.unpack(distributed.to_host(kept.logprobs), places, old)
    if minibatch >= hyperparams.updates - hyperparams.minibatches:
      number = minibatch % hyperparams.minibatches
      _keep(last, result.outputs, number, batch.completion_mask)
    skips = programs_lib.count_skips(skips, metrics) if metrics else skips
    if metrics.get('train/skipped'):
      skipped += 1
    elif metrics:
      applied.append(metrics)
  return _Fit(state, applied, skipped, skips, suspects, old, seen, last)


def _anchor(batch: TokenBatch, plan: UpdatePlan) -> Any:
  """`[B, T]` log-probabilities that ratios are to; None: the update's own.

  With a single update the ratio is 1 by definition. Log-probabilities of the
  scoring pass would differ by rounding (other shapes): that must not look like a
  policy change.
  """
  if plan.hyperparams.ratio == 'sampler':
    return batch.sampler_logprobs
  return batch.old_logprobs if plan.hyperparams.recomputes else None


def no_update(batch: TokenBatch) -> LastUpdate:
  """The outputs where no update was made."""
  shape = batch.tokens.shape
  return LastUpdate(
      np.full(shape, np.nan, np.float32),
      np.full(shape, np.nan, np.float32),
      np.full((shape[0], len(PLACEMENT)), -1, np.int32),
  )


def _keep(
    last: LastUpdate,
    outputs: Sequence[Any],
    minibatch: int,
    sampled: np.ndarray,
) -> None:
  """Writes the outputs of an update's microbatches to their rows.

  Args:
    last: written to.
    outputs: of the update.
    minibatch: its number in the epoch.
    sampled: `[B, T]` bool; other tokens have no outputs.
  """
  for microbatch, (kept, places) in enumerate(outputs):
    for values, rows in (
        (kept.logprobs, last.logprobs),
        (kept.entropy, last.entropy),
    ):
      if values is not None:
        collate.unpack(distributed.to_host(values), places, rows)
        rows[~sampled] = np.nan
    for place in places:
      last.placements[place.row] = (
          minibatch,
          microbatch,
          place.packed_row,
          place.start,
          place.skip,
      )


def minibatches(
    batch: TokenBatch, plan: UpdatePlan, rl_step: int
) -> Iterator[np.ndarray]:
  """Rows of each update; every epoch of every step has its own order.

  Groups stay together, but for the few that lie where two minibatches meet: a
  microbatch then computes their prompt once, and a group's advantages, which are
  relative to each other, push at the same time. All have the same number of
  episodes that are learnt from, or one less.

  Args:
    batch: whose valid episodes are learnt from.
    plan: of the updates.
    rl_step: its number.
  """
  rows = np.flatnonzero(batch.valid)
  for epoch in range(plan.hyperparams.epochs):
    order = rows
    if plan.hyperparams.updates > 1:
      rng = np.random.default_rng((plan.seed, rl_step, epoch))
      order = rng.permutation(order)
      _, groups = np.unique(batch.group_ids[order], return_inverse=True)
      rank = rng.permutation(len(order))  # of a group: of its number
      order = order[np.argsort(rank[groups], kind='stable')]
    yield from np.array_split(order, plan.hyperparams.minibatches)


def _agreement(batch: TokenBatch, fit: _Fit, learnt: np.ndarray) -> Metrics:
  """Mismatch of trainer and sampler, before the policy moved."""
  # Masked rather than taken out: one program for all numbers of rows.
  seen = np.isin(np.arange(len(learnt)), fit.seen) & learnt
  seen &= np.isfinite(fit.old).all(axis=1)
  mask = np.asarray(batch.completion_mask) & seen[:, None]
  if not mask.any():
    return {}
  values = _mismatch(fit.old, batch.sampler_logprobs, mask, mask.sum())
  return {name: float(value) for name, value in values.items()}


def _average(parts: Sequence[Metrics]) -> Metrics:
  merged = {}
  for name in dict.fromkeys(name for part in parts for name in part):
    values = [part[name] for part in parts if name in part]
    merged[name] = (
        max(values) if name.endswith('_max') else float(np.mean(values))
    )
  return merged
