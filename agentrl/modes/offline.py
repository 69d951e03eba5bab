"""The steps that sft, dpo and agentevol share: exploring and learning."""

import functools
import math
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agentrl.batch import TokenBatch
from agentrl.data import episodes as episodes_lib
from agentrl.modes import checkpoints, learning
from agentrl.modes.build import Run
from agentrl.modes.session import Session
from agentrl.parallel import distributed, ranks
from agentrl.runtime.event_loop import Interrupted
from agentrl.serving.start import Serving
from agentrl.training import (
    optim,
    programs as programs_lib,
    state as state_lib,
    supervised,
)
from agentrl.training.optim import Rate
from agentrl.training.state import TrainState
from agentrl.training.supervised import Learner
from agentrl.types import Group

# (minibatches done, state) -> more metrics
Measure = Callable[[int, TrainState], dict[str, float]]


def explore(
    run: Run,
    serving: Serving,
    name: str,
    tasks: Sequence[tuple[int, int]],
    *,
    policy_version: int,
) -> list[Group]:
  """Groups of the policy's episodes, as `config.explore` says.

  Args:
    run: of the mode.
    serving: samples.
    name: prefix of the episodes' ids; decides their seeds.
    tasks: (ordinal, task id) of each group.
    policy_version: for the record.
  """
  config = run.session.config.explore
  return run.collector.collect(
      tasks,
      config.samples,
      serving.make_sampler(temperature=config.temperature),
      name=name,
      horizon=config.horizon,
      policy_version=policy_version,
      seed=run.session.seed(name),
  )


def rate(run: Run, total: int) -> Rate:
  """The learning rate of a phase of `total` updates."""
  optim, warmup = run.session.config.optim, run.session.config.algo.warmup
  return Rate(optim.lr, math.ceil(warmup * total), optim.schedule, total)


def make_learner(
    run: Run,
    params: Any,
    rows: int,
    loss: programs_lib.LossFn,
    **passes: Any,
) -> Learner:
  """A learner of `config.algo` and `config.optim`.

  Args:
    run: of the mode.
    params: that it begins with; not donated.
    rows: of the batch that it will learn from.
    loss: of the algorithm, its hyperparameters bound.
    **passes: what `supervised.Passes` has beside `config.algo`.
  """
  config = run.session.config
  return supervised.make_learner(
      params,
      rows,
      network=run.network,
      loss=loss,
      optim=config.optim,
      rate=functools.partial(rate, run),
      passes=supervised.Passes(
          config.algo.epochs,
          config.algo.minibatch_size,
          config.optim.max_tokens,
          run.session.seed('rows'),
          **passes,
      ),
  )


def at_checkpoint(run: Run, learner: Learner) -> Learner:
  """The learner at the newest checkpoint."""
  state, _, loop = checkpoints.restore(run, state_lib.abstract(learner.state))
  return learner._replace(state=state, start=loop['step'])


def save(run: Run, state: TrainState, done: int, version: int) -> None:
  """Saves.

  Args:
    run: of the mode.
    state: after these minibatches.
    done: minibatches.
    version: of the policy before the first update.
  """
  checkpoints.save(run, state, {'step': done, 'policy_version': version + done})


def learn(
    run: Run,
    serving: Serving | None,
    learner: Learner,
    batch: TokenBatch,
    *,
    version: int,
    shown: Sequence[str],
    measure: Measure = lambda done, state: {},
) -> None:
  """Takes the minibatches that are left, evaluates and writes the summary.

  Args:
    run: of the mode.
    serving: samples in evaluations; None: no evaluation.
    learner: its state is donated.
    batch: NumPy arrays, `[B, T]`.
    version: of the policy before the first update.
    shown: metrics of the progress line.
    measure: gives more metrics after a minibatch.

  Raises:
    Interrupted: the user asked to stop; what was done is saved.
  """
  session, total = run.session, learner.total
  run.record.open(
      session.stack,
      total,
      learner.start,
      shown=(*shown, 'train/grad_norm'),
      show_every=max(total // 20, 1),
  )

  def on_update(index: int, state: TrainState, values: dict[str, Any]):
    done = index + 1
    # A skipped update has learnt nothing.
    run.record.add_tokens(values.get('train/tokens', 0.0))
    if values:  # an update was made, or tried and skipped
      last = 0 if values['train/skipped'] else 1
      made = optim.updates(state.opt_state) - last
      values = values | {'train/lr': float(learner.learning_rate(made))}
    run.record.write(index, values | measure(done, state))
    stop = ranks.interrupted(session.loop)
    every = session.config.checkpoint.every
    if stop or done % every == 0 or done == total:
      save(run, state, done, version)
    if stop:
      run.checkpoints.wait()
      raise Interrupted(session.loop.asked)

  state = supervised.fit(learner, batch, on_update=on_update)
  run.checkpoints.wait()
  if serving is not None and session.config.eval.num_tasks:
    learning.push(run, serving, state.params, version + total)
    learning.evaluate_last(
        run, serving, total, version + total, checkpoint=total
    )
  run.record.summarise(session.config.mode, total, updates=int(state.step))


def with_reference(
    session: Session, batch: TokenBatch, learner: Learner, path: pathlib.Path
) -> TokenBatch:
  """The batch with log-probabilities of the starting policy.

  They are computed once and kept: later the policy is another.
  """
  if not distributed.agree(path.exists()):
    scores = programs_lib.score(
        learner.programs,
        learner.state.networks,
        batch,
        max_tokens=session.config.optim.max_tokens,
    )
    if session.first:
      episodes_lib.write_learned(path, ref_logprobs=scores.logprobs)
    distributed.wait(path.name)
  with np.load(path) as kept:
    return batch.replace(ref_logprobs=kept['ref_logprobs'])
