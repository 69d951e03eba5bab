"""mode='agentevol': rounds of exploring and of imitating what went well.

A run that was killed continues after its last whole round when the same command
is started again.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from agentrl.algos import agentevol as algo_lib
from agentrl.config import modes
from agentrl.data import episodes as episodes_lib
from agentrl.data.tasks import TaskIterator
from agentrl.modes import (
    checkpoints,
    demonstrations,
    learning,
    offline,
    session as session_lib,
)
from agentrl.modes.build import Run
from agentrl.modes.session import Session
from agentrl.rollout import collect
from agentrl.serving.start import Serving
from agentrl.training import agentevol, state as state_lib, supervised
from agentrl.training.agentevol import LoopState
from agentrl.training.state import TrainState
from agentrl.types import Episode

_SHOWN = (
    'rollout/return_mean',
    'rollout/success',
    'filter/share',
    'filter/kept',
    'policy/loss',
)


def _run(session: Session) -> None:
  config: modes.AgentEvol = session.config
  run, params, episodes = demonstrations.build_data(session)
  tasks = TaskIterator(
      run.arena.tasks,
      seed=session.seed('tasks'),
      data_version=run.arena.environment.spec.data_version,
  )
  loop, kept, current = LoopState(0, 0, tasks.state()), [], params
  if run.checkpoints.latest is not None:
    state, _, books = checkpoints.restore(
        run, state_lib.abstract(_state(run, 0, params))
    )
    current, loop = state.params, LoopState(**books)
    kept = list(episodes_lib.read(_kept_path(session, loop.step - 1)))
  tasks.restore(loop.tasks)
  serving = learning.start_sampling(run, current, loop.policy_version)
  del current
  if not loop.step:
    learning.evaluate_all(run, serving, 'untrained', 0, 0, checkpoint=None)
  run.record.open(session.stack, config.num_steps + 1, loop.step, shown=_SHOWN)
  hooks = _Hooks(run, serving, params, episodes)
  if loop.step:
    if loop.step <= config.num_steps:  # it had ended here, and has more rounds
      run.record.rename('after', _name(loop.step - 1))
    # Stopped before the evaluation of its last round was done.
    hooks.evaluate(loop.step - 1, loop.policy_version)
    learning.keep_best(run)
  loop = agentevol.train(
      loop,
      kept,
      num_rounds=config.num_steps,
      tasks_per_round=config.explore.tasks,
      tasks=tasks,
      threshold=config.algo.threshold,
      hooks=hooks,
  )
  learning.evaluate_last(
      run,
      serving,
      config.num_steps,
      loop.policy_version,
      checkpoint=loop.step,
  )
  learning.finish(run, 'agentevol', loop.step)


run = session_lib.command(_run)


@dataclasses.dataclass(frozen=True)
class _Hooks(agentevol.Hooks):
  """Exploring, learning, records and checkpoints of a run.

  Attributes:
    run: its parts.
    serving: samples.
    base_params: where each round starts.
    demonstrations: learnt in every round.
  """

  run: Run
  serving: Serving
  base_params: Any
  demonstrations: Sequence[Episode]

  def explore(self, number, tasks, *, policy_version):
    name = f'round-{number}'
    return offline.explore(
        self.run, self.serving, name, tasks, policy_version=policy_version
    )

  def learn(self, number, kept):
    session = self.run.session
    algo = session.config.algo
    episodes = [*self.demonstrations, *kept]
    weights = np.ones(len(episodes))
    if algo.weighting == 'return' and kept:
      # A demonstration is as good as it gets.
      weights[-len(kept) :] = [episode.episode_return for episode in kept]
    directory = session.directory / 'rounds' / str(number)
    directory.mkdir(parents=True, exist_ok=True)
    batch = supervised.as_batch(episodes)
    passes = supervised.Passes(
        algo.epochs,
        algo.minibatch_size,
        session.config.optim.max_tokens,
        session.seed('rows', number),
    )
    return learning.imitate(
        self.run,
        self.base_params,
        batch.replace(
            advantages=batch.completion_mask * np.float32(weights)[:, None]
        ),
        passes=passes,
        rate=functools.partial(offline.rate, self.run),
        loss=algo_lib.loss,
        name='sft',
        directory=directory,
    )

  def push(self, params, version):
    learning.push(self.run, self.serving, params, version)

  def record(self, number, values, groups, kept):
    session, config = self.run.session, self.run.session.config
    if groups:
      demonstrations.write_episodes(
          session,
          episodes_lib.step_path(session.directory, 'train', number),
          [episode for group in groups for episode in group.episodes],
          tokens=config.rollout.save_tokens,
      )
      values = values | collect.rollout_metrics(groups, config.explore.horizon)
    demonstrations.write_episodes(session, _kept_path(session, number), kept)
    self.run.record.write(number, values)

  def evaluate(self, number, version):
    """Plays the panel after a round, unless it was played; not after the last."""
    name = _name(number)
    if number < self.run.session.config.num_steps:
      learning.evaluate_all(
          self.run,
          self.serving,
          name,
          number,
          version,
          checkpoint=number + 1,
          evaluations=self.run.record.evaluations(),
      )

  def save(self, params, loop):
    # A round starts from the base policy with a new optimizer: nothing of the
    # last one's is needed.
    state = _state(self.run, loop.step, params)
    learning.keep_best(self.run, loop.step)
    checkpoints.save(self.run, state, dataclasses.asdict(loop))
    self.run.checkpoints.wait()


def _name(number: int) -> str:
  """The name of the evaluation after a round that is not the last."""
  return f'round_{number}' if number else 'before'


def _state(run: Run, rounds: int, params: Any) -> TrainState:
  done = state_lib.place(np.int32(rounds), run.mesh)
  return TrainState(done, params, opt_state=None)


def _kept_path(session: Session, number: int) -> pathlib.Path:
  return session.directory / 'rounds' / str(number) / 'kept.jsonl'
