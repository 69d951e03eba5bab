"""The loop of online reinforcement learning.

One rl step: choose the horizon, collect groups of episodes, update the policy
on them (`policy_update`), hand it to the sampler.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from agentrl.algos.hyperparams import Online
from agentrl.batch import TokenBatch
from agentrl.data import collate
from agentrl.data.tasks import TaskIterator
from agentrl.ops import kl
from agentrl.rollout.collect import is_tied, rollout_metrics
from agentrl.schedules import Horizon
from agentrl.training import policy_update, programs as programs_lib
from agentrl.training.policy_update import UpdatePlan
from agentrl.training.programs import Metrics, Programs
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


def _collect(
    collect: Collect,
    tasks: TaskIterator,
    books: Bookkeeping,
    *,
    hyperparams: Online,
    tasks_per_step: int,
    horizon: int,
) -> list[Group]:
  """A step's groups; more than `tasks_per_step` where ties are replaced."""
  groups: list[Group] = []
  for _ in range(
      1 + (hyperparams.refill_rounds if hyperparams.ties == 'refill' else 0)
  ):
    missing = tasks_per_step - sum(not is_tied(group) for group in groups)
    if groups and (missing <= 0 or hyperparams.ties != 'refill'):
      break
    groups += collect(
        books.step,
        tasks.next_tasks(missing if groups else tasks_per_step),
        horizon=horizon,
        policy_version=books.policy_version,
    )
  return groups


def _next_kl_coef(coef: float, metrics: Metrics, hyperparams: Online) -> float:
  """The coefficient after a step; the same without a target."""
  observed = metrics.get('policy/kl_ref', metrics.get('reward/kl'))
  if hyperparams.kl_target is None or observed is None:
    return coef
  return kl.adapt(
      coef,
      observed,
      target=hyperparams.kl_target,
      count=int(metrics['rollout/episodes']),
      horizon=hyperparams.kl_horizon,
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
    programs: Programs,
    plan: UpdatePlan,
    ref_params: Any,
    learning_rate: Callable[[int], Any],
    push: Callable[[Any, int], None],
    record: Callable[[int, Metrics, list[Group], TokenBatch, list[int]], None],
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
    programs: the compiled pieces.
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
  hyperparams = plan.hyperparams
  skips = int(books.stats.get('train/skips_in_row', 0))
  # The same command again would not learn either.
  programs_lib.check_skips(skips)
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
          hyperparams=hyperparams,
          tasks_per_step=tasks_per_step,
          horizon=horizon,
      )
      collected = time.perf_counter()

      batch = collate.collate(groups)
      lr = float(learning_rate(int(state.step)))
      complete, suspects = False, []
      state, metrics, batch = policy_update.update_policy(
          state,
          batch,
          programs=programs,
          plan=plan,
          advantages=functools.partial(advantages, num_groups=len(groups)),
          trainable=policy_update.trainable(batch, groups, plan),
          ref_params=ref_params,
          kl_coef=books.kl_coef,
          rl_step=books.step,
          skips=skips,
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
            kl_coef=_next_kl_coef(books.kl_coef, metrics, hyperparams),
        )
        complete = True
      skips = int(metrics['train/skips_in_row'])
      programs_lib.check_skips(skips)
      if books.step % save_every == 0 or books.step == num_steps:
        save(state, books)
        saved = books.step
  finally:
    if complete and saved != books.step:
      save(state, books)
  return state, books
