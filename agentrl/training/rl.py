"""The loop of online reinforcement learning.

One rl step: choose the horizon, collect groups of episodes, shape their rewards
and turn them into advantages, update the policy on them, hand it to the
sampler.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from agentrl.batch import TokenBatch
from agentrl.data import collate
from agentrl.data.tasks import TaskIterator
from agentrl.ops import kl, mismatch
from agentrl.parallel import sharding
from agentrl.rollout.collect import is_tied, rollout_metrics
from agentrl.schedules import Horizon
from agentrl.training import step as step_lib
from agentrl.training.state import Networks, TrainState
from agentrl.types import Group


@dataclasses.dataclass(frozen=True)
class Bookkeeping:
  """The host's side of a run between two rl steps; JSON values only."""

  step: int  # rl steps done
  policy_version: int  # weight pushes so far
  tasks: dict[str, Any]  # cursor of the task iterator
  horizon: Any  # state of the schedule
  stats: dict[str, float]  # metrics of the last step
  kl_coef: float = 0.0  # present weight of the KL to the reference


class Collect(Protocol):
  """Plays a group of episodes for each task under the current policy."""

  def __call__(
      self,
      step: int,
      tasks: Sequence[tuple[int, int]],
      *,
      horizon: int,
      policy_version: int,
  ) -> list[Group]:
    ...


@dataclasses.dataclass(frozen=True)
class UpdatePlan:
  """How a collection is used, whatever the algorithm.

  Attributes:
    epochs: passes over it.
    minibatches: updates per pass.
    max_tokens: per microbatch, padding included.
    seed: of the order of the rows.
    ratio: what the policy is compared with. 'old': log-probabilities that the
      trainer computes before the first update; 'sampler': those that came with
      the tokens, which costs no pass and corrects for a stale sampler.
    kl: where the KL to the reference acts: None, 'loss' or 'reward'.
    kl_estimator: see `ops.kl`.
    kl_target: KL that the coefficient is steered to; None keeps it fixed.
    kl_horizon: episodes over which that controller acts.
    ties: groups of equal returns, from which nothing follows. 'keep': they
      count in the denominators; 'mask': they do not; 'refill': nor do they, and
      other tasks take their place (dynamic sampling, arXiv:2503.14476).
    refill_rounds: most collections more that a step may make for it.
    truncated: episodes that we cut. 'keep': trained on like others; 'mask':
      part of group statistics, but not of the loss (overlong filtering, ibid.).
    overlong_buffer: the last tokens before `max_context` in which the return is
      lowered linearly, by 1 at the end (soft overlong punishment, ibid.); 0: no
      such punishment.
    max_context: tokens of the longest episode.
  """

  epochs: int
  minibatches: int
  max_tokens: int
  seed: int
  ratio: str = 'old'
  kl: str | None = None
  kl_estimator: str = 'k3+'
  kl_target: float | None = None
  kl_horizon: int = 10_000
  ties: str = 'keep'
  refill_rounds: int = 3
  truncated: str = 'keep'
  overlong_buffer: int = 0
  max_context: int = 0

  @property
  def updates(self) -> int:
    return self.epochs * self.minibatches

  @property
  def recomputes(self) -> bool:
    """Whether ratios compare with log-probabilities of an extra pass."""
    return self.updates > 1 and self.ratio == 'old'

  def scores(self, *, critic: bool) -> bool:
    """Whether a collection is scored before its first update."""
    return self.recomputes or self.kl == 'reward' or critic

  @property
  def shapes(self) -> bool:
    """Whether the rewards learnt from are not the environment's alone."""
    return self.kl == 'reward' or self.overlong_buffer > 0


def shape_rewards(
    batch: TokenBatch, plan: UpdatePlan, kl_coef: float
) -> tuple[TokenBatch, step_lib.Metrics]:
  """The batch with the rewards that are learnt from, and what was changed.

  Args:
    batch: NumPy arrays, one episode a row; with a KL in the reward it has old
      and reference log-probabilities.
    plan: what shapes the rewards.
    kl_coef: weight of a KL in the reward.
  """
  rewards, metrics = np.array(batch.rewards), {}
  mask = np.asarray(batch.completion_mask)
  valid = np.asarray(batch.valid)
  if plan.overlong_buffer:
    length = (np.asarray(batch.segment_ids) > 0).sum(axis=1)
    free = plan.max_context - plan.overlong_buffer
    penalty = np.clip((free - length) / plan.overlong_buffer, -1, 0)
    # On the last sampled token, like every reward.
    last = mask.shape[1] - 1 - np.argmax(mask[:, ::-1], axis=1)
    rewards[np.arange(len(rewards)), last] += np.where(
        mask.any(axis=1), penalty, 0
    )
    metrics['reward/overlong_penalty'] = float(penalty[valid].mean())
  if plan.kl == 'reward':
    divergence = np.asarray(
        kl.estimate(
            batch.old_logprobs,
            batch.ref_logprobs,
            mask,
            estimator=plan.kl_estimator,
        )
    )
    rewards -= kl_coef * divergence
    learnt = mask & valid[:, None]
    metrics['reward/kl'] = float(divergence[learnt].mean())
  if metrics:
    batch = batch.replace(rewards=rewards, episode_return=rewards.sum(axis=1))
  return batch, metrics


def learnt_from(
    batch: TokenBatch, groups: Sequence[Group], plan: UpdatePlan
) -> np.ndarray:
  """`[E]` bool: the valid episodes that the loss sees."""
  valid = np.array(batch.valid)
  if plan.ties != 'keep':
    tied = np.array([is_tied(group) for group in groups])
    valid &= ~tied[np.asarray(batch.group_ids)]
  if plan.truncated == 'mask':
    valid &= ~np.asarray(batch.truncated)
  return valid


def update_policy(
    state: TrainState,
    batch: TokenBatch,
    *,
    steps: step_lib.Steps,
    plan: UpdatePlan,
    advantages: Callable[[TokenBatch], TokenBatch],
    learnt: np.ndarray,
    ref_params: Any,
    kl_coef: float,
    rl_step: int,
    skips: int = 0,
    suspects: list[int] | None = None,
) -> tuple[TrainState, step_lib.Metrics, TokenBatch]:
  """All updates on one collection.

  With one update the policy that is updated is the one that sampled, so the
  ratio is 1 by definition and old log-probabilities are not computed again;
  `train/old_logprobs_skipped` says so.

  Args:
    state: donated.
    batch: NumPy arrays, as collated.
    steps: the compiled pieces, with the algorithm's loss.
    plan: passes, minibatches and what shapes the rewards.
    advantages: fills in advantages and, with a critic, returns.
    learnt: `[E]` bool, the episodes that the loss sees.
    ref_params: of the reference policy; None when nothing needs it.
    kl_coef: weight of the KL to it.
    rl_step: seeds the order of the rows.
    skips: updates in a row before these whose gradient was not finite; with
      `step.MAX_SKIPS` of them no more are tried.
    suspects: gets the rows that such updates may be due to.

  Returns:
    The next state; metrics averaged over the updates (`_max`: the largest),
    of which the sampler's agreement is that of the first update, before the
    policy moved; and the batch with what was trained on, old
    log-probabilities included in any case.
  """
  limit = dict(max_tokens=plan.max_tokens)
  old = np.zeros(batch.tokens.shape, np.float32)  # an only update fills it
  scored = plan.scores(critic=state.critic is not None)
  if scored:
    scores = step_lib.score(steps, state.networks, batch, **limit)
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
    ref = step_lib.score(steps, reference, batch, **limit)
    del reference
    batch = batch.replace(ref_logprobs=ref.logprobs)
  # What was computed anyhow is the same number as the ratio's 1, but it would
  # come from a pass of other shapes: rounding is not a policy change.
  fixed = old if plan.recomputes else None
  if plan.ratio == 'sampler':
    fixed = batch.sampler_logprobs
  batch, shaped = shape_rewards(batch.replace(old_logprobs=old), plan, kl_coef)
  batch = jax.tree.map(np.asarray, advantages(batch))

  parts, skipped = [], 0
  used = batch.replace(valid=learnt, old_logprobs=fixed)
  before = np.arange(len(learnt))  # rows that `old` speaks of
  for epoch in range(plan.epochs):
    order = np.arange(len(learnt))
    if plan.updates > 1:
      rng = np.random.default_rng((plan.seed, rl_step, epoch))
      order = rng.permutation(order)
    for rows in np.array_split(order, plan.minibatches):
      if skips >= step_lib.MAX_SKIPS:
        break
      first = not scored and not parts
      state, metrics = step_lib.update(
          steps,
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
        skips = step_lib.count_skips(skips, metrics)
      if metrics.get('train/skipped'):
        skipped += 1
      elif metrics:
        parts.append(metrics)
  metrics = _average(parts) | shaped | _agreement(batch, old, before, learnt)
  metrics['train/updates'] = float(len(parts))
  metrics['train/skipped'] = float(skipped)
  metrics['train/skips_in_row'] = float(skips)
  metrics['train/old_logprobs_skipped'] = float(not scored)
  metrics['train/learnt_share'] = float(learnt.mean())
  used_logprobs = old if fixed is None else fixed
  return state, metrics, batch.replace(old_logprobs=used_logprobs)


def _agreement(
    batch: TokenBatch, old: np.ndarray, rows: np.ndarray, learnt: np.ndarray
) -> step_lib.Metrics:
  """How far the trainer, before the policy moved, is from the sampler."""
  rows = rows[learnt[rows] & np.isfinite(old[rows]).all(axis=1)]
  mask = np.asarray(batch.completion_mask)[rows]
  if not mask.any():
    return {}
  found = mismatch.metrics(
      old[rows], np.asarray(batch.sampler_logprobs)[rows], mask, mask.sum()
  )
  return {name: float(value) for name, value in found.items()}


def _average(parts: Sequence[step_lib.Metrics]) -> step_lib.Metrics:
  merged = {}
  for name in dict.fromkeys(name for part in parts for name in part):
    values = [part[name] for part in parts if name in part]
    merged[name] = (
        max(values) if name.endswith('_max') else float(np.mean(values))
    )
  return merged


def _collect(
    collect: Collect,
    tasks: TaskIterator,
    books: Bookkeeping,
    *,
    plan: UpdatePlan,
    tasks_per_step: int,
    horizon: int,
) -> list[Group]:
  """A step's groups; more than `tasks_per_step` where ties are replaced."""
  groups: list[Group] = []
  for _ in range(1 + (plan.refill_rounds if plan.ties == 'refill' else 0)):
    missing = tasks_per_step - sum(not is_tied(group) for group in groups)
    if groups and (missing <= 0 or plan.ties != 'refill'):
      break
    groups += collect(
        books.step,
        tasks.next_tasks(missing if groups else tasks_per_step),
        horizon=horizon,
        policy_version=books.policy_version,
    )
  return groups


def _next_kl_coef(
    coef: float, metrics: step_lib.Metrics, plan: UpdatePlan
) -> float:
  """The coefficient after a step; the same without a target."""
  observed = metrics.get('policy/kl_ref', metrics.get('reward/kl'))
  if plan.kl_target is None or observed is None:
    return coef
  return kl.adapt(
      coef,
      observed,
      target=plan.kl_target,
      count=int(metrics['rollout/episodes']),
      horizon=plan.kl_horizon,
  )


def train(
    state: TrainState,
    books: Bookkeeping,
    *,
    num_steps: int,
    tasks_per_step: int,
    tasks: TaskIterator,
    schedule: Horizon,
    collect: Collect,
    advantages: Callable[..., TokenBatch],
    steps: step_lib.Steps,
    plan: UpdatePlan,
    ref_params: Any,
    learning_rate: Callable[[int], Any],
    push: Callable[[Any, int], None],
    record: Callable[
        [int, step_lib.Metrics, list[Group], TokenBatch, list[int]], None
    ],
    save: Callable[[TrainState, Bookkeeping], None],
    save_every: int,
    stopped: Callable[[], bool],
) -> tuple[TrainState, Bookkeeping]:
  """Runs rl steps until `num_steps` are done or `stopped()`.

  Whatever ends the loop, the last complete step is saved, if its state still
  exists: an error while collecting loses nothing but that collection. A step is
  complete once it is updated and recorded; after an error in between, the
  newest checkpoint is what remains.

  Args:
    state: at the end of step `books.step`; donated.
    books: the host's side of the same moment.
    num_steps: rl steps in the whole run.
    tasks_per_step: groups per collection.
    tasks: gives the tasks, in an order that `books.tasks` resumes.
    schedule: gives the horizon of each step.
    collect: plays the episodes.
    advantages: `advantages(batch, num_groups=)` fills them in, and with a
      critic the returns.
    steps: the compiled pieces.
    plan: how a collection is used.
    ref_params: of the reference policy, or None.
    learning_rate: of update i, for the record.
    push: `push(params, version)`.
    record: `record(step, metrics, groups, batch, suspects)`, once a step; the
      batch holds what was trained on, `suspects` the rows of it that skipped
      updates may be due to.
    save: writes a checkpoint.
    save_every: rl steps between checkpoints.
    stopped: true once the user asked to stop.

  Returns:
    The last state and books.

  Raises:
    DivergedError: several updates in a row had no finite gradient. None of
      them was applied, and the state is saved.
  """
  complete, saved = True, books.step
  try:
    while books.step < num_steps and not stopped():
      began = time.perf_counter()
      horizon_state, horizon = schedule.update(
          books.horizon, books.step, books.stats
      )
      groups = _collect(
          collect,
          tasks,
          books,
          plan=plan,
          tasks_per_step=tasks_per_step,
          horizon=horizon,
      )
      collected = time.perf_counter()

      batch = collate.collate(groups)
      lr = float(learning_rate(int(state.step)))
      complete, suspects = False, []
      state, metrics, batch = update_policy(
          state,
          batch,
          steps=steps,
          plan=plan,
          advantages=functools.partial(advantages, num_groups=len(groups)),
          learnt=learnt_from(batch, groups, plan),
          ref_params=ref_params,
          kl_coef=books.kl_coef,
          rl_step=books.step,
          skips=int(books.stats.get('train/skips_in_row', 0)),
          suspects=suspects,
      )
      updated = time.perf_counter()

      version = books.policy_version + 1
      try:
        push(state.params, version)
      finally:
        # The step is made, even if Ctrl-C or a dead sampler stopped its push:
        # a resume hands the restored parameters over again.
        pushed = time.perf_counter()
        metrics = (
            rollout_metrics(groups, horizon)
            | metrics
            | {
                'train/lr': lr,
                'train/kl_coef': books.kl_coef,
                'policy/version': float(version),
                'time/collect_s': collected - began,
                'time/update_s': updated - collected,
                'time/push_s': pushed - updated,
                'time/step_s': pushed - began,
            }
        )
        record(books.step, metrics, groups, batch, sorted(set(suspects)))
        books = Bookkeeping(
            step=books.step + 1,
            policy_version=version,
            tasks=tasks.state(),
            horizon=horizon_state,
            stats=metrics,
            kl_coef=_next_kl_coef(books.kl_coef, metrics, plan),
        )
        complete = True
      step_lib.check_skips(int(metrics['train/skips_in_row']))
      if books.step % save_every == 0 or books.step == num_steps:
        save(state, books)
        saved = books.step
  finally:
    if complete and saved != books.step:
      save(state, books)
  return state, books
