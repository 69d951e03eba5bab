"""The loop of online reinforcement learning.

One rl step: choose the horizons, collect groups of episodes, update the policy
on them (`policy_update`), hand it to the sampler.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import jax
import numpy as np
import optax

from agentrl.algos import online
from agentrl.algos.hyperparams import Online
from agentrl.batch import TokenBatch
from agentrl.data import collate
from agentrl.models import value_head
from agentrl.ops import kl
from agentrl.parallel import compile_waits
from agentrl.rollout.sources import Share, Sources
from agentrl.rollout.supply import InTurns, Supply
from agentrl.training import (
    optim as optim_lib,
    policy_update,
    programs as programs_lib,
    state as state_lib,
    system,
)
from agentrl.training.options import RlOptim
from agentrl.training.policy_update import LastUpdate, Update, UpdatePlan
from agentrl.training.state import TrainState
from agentrl.training.supervised import Network
from agentrl.types import Group

T = TypeVar('T')


@dataclasses.dataclass(frozen=True)
class LoopState:
  """The host's side of a run between two rl steps; JSON values only."""

  step: int  # rl steps done
  policy_version: int  # weight pushes so far
  tasks: dict[str, Any]  # state of the supply: cursors, groups ahead
  horizon: Any  # state of the sources' schedules
  stats: dict[str, float]  # of the last step, and of an evaluation after it
  kl_coef: float = 0.0  # present weight of the KL to the reference


@dataclasses.dataclass(frozen=True)
class RlStep:
  """The results of an rl step.

  Attributes:
    step: from 0.
    metrics: of the step.
    groups: that were collected.
    batch: of them, with what was trained on.
    suspects: rows of it that skipped updates may be due to.
    last: outputs of the last update of each row; None: they are not kept.
  """

  step: int
  metrics: programs_lib.Metrics
  groups: list[Group]
  batch: TokenBatch
  suspects: list[int]
  last: LastUpdate | None = None


class Hooks(Protocol):
  """The work that the loop leaves to its caller."""

  def collect(
      self, step: int, shares: Sequence[Share], *, policy_version: int
  ) -> list[list[Group]]:
    """Plays a group of episodes for each task under the current policy.

    Returns:
      The groups of each share.
    """

  def beside(self, work: Callable[[], T]) -> T:
    """The result of `work`, which touches no event loop.

    Where episodes are played ahead, they go on meanwhile.
    """
    return work()

  def teach(self, batch: TokenBatch, groups: Sequence[Group]) -> TokenBatch:
    """The batch with what a teacher says of it, where there is one."""
    del groups
    return batch

  def push(self, params: Any, version: int) -> None:
    """Hands the policy to the sampler."""

  def record(self, rl_step: RlStep) -> None:
    """Keeps a step; called once for each."""

  def evaluate(self, step: int, version: int) -> bool:
    """Evaluates the policy after `step` steps, where that is due.

    Args:
      step: rl steps done.
      version: of the policy; the sampler has it.

    Returns:
      True if its state is worth a checkpoint, whether or not one is due.
    """
    del step, version
    return False

  def held_out(self, step: int) -> dict[str, float]:
    """Metrics of the evaluation after `step` steps; empty where none was due.

    Those of a named source begin with its name, as its metrics of a step do.
    """

  def save(self, state: TrainState, loop: LoopState) -> None:
    """Writes a checkpoint."""

  def stopped(self) -> bool:
    """True once the run shall end before its last step: asked to, or spent."""


def _next_kl_coef(
    coef: float, metrics: programs_lib.Metrics, hyperparams: Online
) -> float:
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
    loop: LoopState,
    *,
    num_steps: int,
    sources: Sources,
    update: Update,
    hooks: Hooks,
    save_every: int,
    supply: Supply | None = None,
) -> tuple[TrainState, LoopState]:
  """Runs rl steps until `num_steps` are done or `hooks.stopped()`.

  Whatever ends the loop, the last complete step is saved, if its state still
  exists: an error while collecting loses nothing but that collection. A step is
  complete once it is updated and recorded, though its push or its evaluation
  may fail: a resume hands the restored parameters over again, and plays an
  evaluation that is missing. After an error in between, the newest checkpoint
  is what remains.

  Args:
    state: at the end of step `loop.step`; donated.
    loop: the host's side of the same moment.
    num_steps: rl steps in the whole run.
    sources: give the tasks and the horizon of each step; at `loop.tasks`.
    update: how a collection is used.
    hooks: plays, pushes, records and saves.
    save_every: rl steps between checkpoints, besides those worth one.
    supply: gives the collections, from the same sources; None: `hooks.collect`
      plays each once it is its turn, by the policy that it updates.

  Returns:
    The last state and loop state.

  Raises:
    DivergedError: several updates in a row had no finite gradient. None of
      them was applied, and the state is saved.
  """
  hyperparams = update.plan.hyperparams
  old_samples = supply is not None
  supply = supply or InTurns(
      sources, hooks.collect, rounds=1 + hyperparams.refills
  )
  skips = int(loop.stats.get('train/skips_in_row', 0))
  # The same command again would not learn either.
  programs_lib.check_skips(skips)
  complete, saved = True, loop.step
  compile_waits.listen()
  policy_update.prepare(update, state)
  compile_waits.take()  # of what came before
  try:
    while loop.step < num_steps and not hooks.stopped():
      began = time.perf_counter()
      horizon_state, collection = supply.collect(
          loop.step, loop.horizon, loop.stats, loop.policy_version
      )
      groups = collection.groups
      collected = time.perf_counter()

      if loop.step + 1 == num_steps:
        update.programs.settle()
      batch = hooks.teach(collate.collate(groups), groups)
      taught = time.perf_counter()
      taught_s = {'teach': taught - collected} if hyperparams.TEACHER else {}
      applied = optim_lib.updates(state.opt_state)
      lr = float(update.learning_rate(applied))
      complete = False
      updated_policy, compilations = hooks.beside(
          functools.partial(
              _update,
              state,
              batch,
              update,
              num_groups=len(groups),
              learnt=policy_update.learnt_episodes(batch, groups, update.plan),
              kl_coef=loop.kl_coef,
              rl_step=loop.step,
              skips=skips,
              staleness=_staleness(groups, loop) if old_samples else None,
          )
      )
      state, metrics, batch, suspects, last = updated_policy
      updated = time.perf_counter()

      version = loop.policy_version + 1
      # The step is made, even if Ctrl-C or a dead sampler stops its push.
      unpushed: BaseException | None = None
      try:
        hooks.push(state.params, version)
      except BaseException as error:
        unpushed = error
      pushed = time.perf_counter()
      metrics = (
          collection.metrics()
          | metrics
          | {
              'train/lr': lr,
              'train/kl_coef': loop.kl_coef,
              'policy/version': float(version),
          }
          | compilations
          | system.shares(
              dict(
                  collect=collected - began,
                  **taught_s,
                  update=updated - taught,
                  push=pushed - updated,
              ),
              # Skipped updates have learnt nothing, and count none.
              tokens=metrics.get('train/tokens', 0.0),
          )
      )
      hooks.record(RlStep(loop.step, metrics, groups, batch, suspects, last))
      loop = LoopState(
          step=loop.step + 1,
          policy_version=version,
          tasks=supply.state(),
          horizon=horizon_state,
          stats=sources.remember(loop.stats, metrics),
          kl_coef=_next_kl_coef(loop.kl_coef, metrics, hyperparams),
      )
      complete = True
      if unpushed is not None:
        # The sampler has other weights: an evaluation would be of those.
        raise unpushed
      worthy = hooks.evaluate(loop.step, version)
      loop = dataclasses.replace(
          loop,
          tasks=supply.state(),  # with groups that ended meanwhile
          stats=loop.stats | hooks.held_out(loop.step),
      )
      skips = int(metrics['train/skips_in_row'])
      programs_lib.check_skips(skips)
      if worthy or loop.step % save_every == 0 or loop.step == num_steps:
        try:
          hooks.save(state, loop)
        except KeyboardInterrupt:
          complete = False  # a second save would meet the half of this one
          raise
        saved = loop.step
  finally:
    if complete and saved != loop.step:
      hooks.save(state, loop)
  return state, loop


def _staleness(groups: Sequence[Group], loop: LoopState) -> np.ndarray:
  """`[E]` pushes since each episode was admitted."""
  return np.array([
      loop.policy_version - episode.policy_version
      for group in groups
      for episode in group.episodes
  ])


def _update(
    state: TrainState, batch: TokenBatch, update: Update, **how: Any
) -> tuple[policy_update.UpdatedPolicy, programs_lib.Metrics]:
  """`update_policy`, and for how long this thread has waited for compilations."""
  updated = policy_update.update_policy(state, batch, update, **how)
  return updated, update.programs.compilations()


def make_optimizer(
    optim: RlOptim, hyperparams: Online, num_steps: int
) -> tuple[optax.GradientTransformation, optax.Schedule]:
  """The optimizer of all networks, and the policy's learning rate by update.

  Args:
    optim: of the policy.
    hyperparams: of the algorithm; a critic has a rate and a clip of its own,
      and while it warms up the policy stands still.
    num_steps: rl steps of the run.
  """
  updates = hyperparams.updates  # of an rl step
  critic = hyperparams.critic_settings
  tx, learning_rate = optim_lib.make(
      optim,
      optim_lib.Rate(
          optim.lr,
          optim.warmup_steps,
          optim.schedule,
          total_steps=num_steps * updates,
          frozen_steps=critic.warmup * updates if critic else 0,
      ),
  )
  if critic:
    tx = optim_lib.with_critic(
        tx,
        optim_lib.make_optimizer(
            critic.lr,
            name=optim.name,
            grad_clip=critic.grad_clip,
            b1=optim.b1,
            b2=optim.b2,
            momentum=optim.momentum,
        ),
    )
  return tx, learning_rate


def new_state(
    network: Network,
    params: Any,
    tx: optax.GradientTransformation,
    hyperparams: Online,
) -> TrainState:
  """A state before its first update.

  Args:
    network: of the parameters.
    params: of the policy, and where a critic starts; copied.
    tx: from `make_optimizer`.
    hyperparams: of the algorithm.
  """
  critic = hyperparams.critic_settings
  return state_lib.create(
      params,
      tx,
      network.mesh,
      critic=critic and value_head.init(critic.kind, network.module, params),
      offload=network.offload,
  )


def make_update(
    network: Network,
    state: TrainState,
    tx: optax.GradientTransformation,
    plan: UpdatePlan,
    *,
    temperature: float,
    learning_rate: optax.Schedule,
    ref_params: Any,
    few_shapes: Collection[str] = (),
    compiler: ThreadPoolExecutor | None = None,
) -> Update:
  """The update of an algorithm, compiled when it is first used.

  Args:
    network: of the policy.
    state: of which only shapes and shardings are read.
    tx: that made the state.
    plan: names the algorithm.
    temperature: of the sampler.
    learning_rate: of the policy, for the record.
    ref_params: of the reference policy, or None.
    few_shapes: see `compile_programs`.
    compiler: see `compile_programs`.
  """
  programs = programs_lib.compile_programs(
      network.module,
      online.bind_loss(plan.hyperparams),
      tx,
      state,
      temperature=temperature,
      base=network.base,
      keep_entropy=True,  # every loss of policy.loss reports it
      few_shapes=few_shapes,
      compiler=compiler,
  )
  advantages = jax.jit(
      online.bind_advantages(plan.hyperparams), static_argnames='num_groups'
  )
  return Update(programs, plan, advantages, learning_rate, ref_params)
