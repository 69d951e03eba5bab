"""The loop of online reinforcement learning.

One rl step: choose the horizon, collect groups of episodes, turn their returns
into advantages, update the policy on them, hand it to the sampler.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from agentrl.batch import TokenBatch
from agentrl.data import collate
from agentrl.data.tasks import TaskIterator
from agentrl.rollout.collect import rollout_metrics
from agentrl.schedules import Horizon
from agentrl.training import step as step_lib
from agentrl.training.state import TrainState
from agentrl.types import Group


@dataclasses.dataclass(frozen=True)
class Bookkeeping:
  """The host's side of a run between two rl steps; JSON values only."""

  step: int  # rl steps done
  policy_version: int  # weight pushes so far
  tasks: dict[str, Any]  # cursor of the task iterator
  horizon: Any  # state of the schedule
  stats: dict[str, float]  # metrics of the last step


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
  """How a collection is used.

  Attributes:
    epochs: passes over it.
    minibatches: updates per pass.
    max_tokens: per microbatch, padding included.
    seed: of the order of the rows.
  """

  epochs: int
  minibatches: int
  max_tokens: int
  seed: int

  @property
  def updates(self) -> int:
    return self.epochs * self.minibatches


def update_policy(
    state: TrainState,
    batch: TokenBatch,
    *,
    steps: step_lib.Steps,
    plan: UpdatePlan,
    ref_params: Any,
    rl_step: int,
) -> tuple[TrainState, step_lib.Metrics, TokenBatch]:
  """All updates on one collection.

  With one update the policy that is updated is the one that sampled, so the
  ratio is 1 by definition and old log-probabilities are not computed again;
  `train/old_logprobs_skipped` says so.

  Args:
    state: donated.
    batch: NumPy arrays with advantages.
    steps: the compiled pieces, with the algorithm's loss.
    plan: passes and minibatches.
    ref_params: of the reference policy; None when nothing needs it.
    rl_step: seeds the order of the rows.

  Returns:
    The next state; metrics averaged over the updates (`_max`: the largest),
    of which the sampler's agreement is that of the first update, before the
    policy moved; and the batch with what was trained on, old
    log-probabilities included in any case.
  """
  if plan.updates > 1:
    old = step_lib.score(steps, state.params, batch, max_tokens=plan.max_tokens)
    batch = batch.replace(old_logprobs=old)
  else:
    old = np.zeros(batch.tokens.shape, np.float32)  # the update fills it
  if ref_params is not None:
    ref = step_lib.score(steps, ref_params, batch, max_tokens=plan.max_tokens)
    batch = batch.replace(ref_logprobs=ref)

  parts = []
  used = batch
  for epoch in range(plan.epochs):
    order = np.arange(len(batch.tokens))
    if plan.updates > 1:
      rng = np.random.default_rng((plan.seed, rl_step, epoch))
      order = rng.permutation(order)
    for rows in np.array_split(order, plan.minibatches):
      state, metrics = step_lib.update(
          steps,
          state,
          used,
          rows,
          max_tokens=plan.max_tokens,
          logprobs=old if plan.updates == 1 else None,
      )
      if metrics:
        parts.append(step_lib.checked(metrics))
        # Later updates are off policy: their gap is not the sampler's fault.
        used = used.replace(sampler_logprobs=None)
  metrics = _average(parts)
  metrics['train/updates'] = float(len(parts))
  metrics['train/old_logprobs_skipped'] = float(plan.updates == 1)
  return state, metrics, batch.replace(old_logprobs=old)


def _average(parts: Sequence[step_lib.Metrics]) -> step_lib.Metrics:
  merged = {}
  for name in dict.fromkeys(name for part in parts for name in part):
    values = [part[name] for part in parts if name in part]
    merged[name] = (
        max(values) if name.endswith('_max') else float(np.mean(values))
    )
  return merged


def train(
    state: TrainState,
    books: Bookkeeping,
    *,
    num_steps: int,
    tasks_per_step: int,
    tasks: TaskIterator,
    schedule: Horizon,
    collect: Collect,
    advantages: Callable[[TokenBatch], jax.Array],
    steps: step_lib.Steps,
    plan: UpdatePlan,
    ref_params: Any,
    learning_rate: Callable[[int], Any],
    push: Callable[[Any, int], None],
    record: Callable[[int, step_lib.Metrics, list[Group], TokenBatch], None],
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
    advantages: `[B, T]` advantages of a NumPy batch.
    steps: the compiled pieces.
    plan: how a collection is used.
    ref_params: of the reference policy, or None.
    learning_rate: of update i, for the record.
    push: `push(params, version)`.
    record: `record(step, metrics, groups, batch)`, once a step; the batch
      holds what was trained on.
    save: writes a checkpoint.
    save_every: rl steps between checkpoints.
    stopped: true once the user asked to stop.

  Returns:
    The last state and books.
  """
  complete, saved = True, books.step
  try:
    while books.step < num_steps and not stopped():
      began = time.perf_counter()
      horizon_state, horizon = schedule.update(
          books.horizon, books.step, books.stats
      )
      groups = collect(
          books.step,
          tasks.next_tasks(tasks_per_step),
          horizon=horizon,
          policy_version=books.policy_version,
      )
      collected = time.perf_counter()

      batch = collate.collate(groups)
      batch = batch.replace(advantages=np.asarray(advantages(batch)))
      lr = float(learning_rate(int(state.step)))
      complete = False
      state, metrics, batch = update_policy(
          state,
          batch,
          steps=steps,
          plan=plan,
          ref_params=ref_params,
          rl_step=books.step,
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
                'policy/version': float(version),
                'time/collect_s': collected - began,
                'time/update_s': updated - collected,
                'time/push_s': pushed - updated,
                'time/step_s': pushed - began,
            }
        )
        record(books.step, metrics, groups, batch)
        books = Bookkeeping(
            step=books.step + 1,
            policy_version=version,
            tasks=tasks.state(),
            horizon=horizon_state,
            stats=metrics,
        )
        complete = True
      if books.step % save_every == 0 or books.step == num_steps:
        save(state, books)
        saved = books.step
  finally:
    if complete and saved != books.step:
      save(state, books)
  return state, books
