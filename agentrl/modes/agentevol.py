"""mode='agentevol': rounds of exploring and of imitating what went well.

A run that was killed continues after its last whole round when the same command
is started again.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from agentrl.algos import agentevol as algo_lib
from agentrl.config import modes
from agentrl.data import episodes as episodes_lib
from agentrl.data.tasks import TaskIterator
from agentrl.modes import base, offline, resume, warmstart
from agentrl.rollout import collect, seeds
from agentrl.runtime.event_loop import Interrupted
from agentrl.training import (
    agentevol,
    state as state_lib,
    supervised,
)
from agentrl.training.agentevol import Bookkeeping
from agentrl.training.programs import Metrics
from agentrl.training.state import TrainState
from agentrl.types import Episode, Group

_SHOWN = (
    'rollout/return_mean',
    'rollout/success',
    'filter/share',
    'filter/kept',
    'policy/loss',
)


read = resume.read


def run(config: ConfigDict, workdir: str | None) -> None:
  """Trains as `config` says and leaves everything in `workdir`.

  Raises:
    AgentrlError: something that the user can mend.
  """
  base.start(_Run, read(config), workdir)


class _Run(offline.OfflineRun):
  """One run, from its demonstrations to its summary."""

  wanted: modes.AgentEvol

  def run(self) -> None:
    wanted = self.wanted
    self.demonstrations = self.build_data()
    # Where each round starts.
    self.base_params = self.model.params
    tasks = TaskIterator(
        self.train_tasks, seed=seeds.derive_seed(wanted.seed, 'tasks')
    )
    books, kept = Bookkeeping(0, 0, tasks.state()), []
    if self.checkpoints.latest is not None:
      books, kept = self._restore()
    tasks.restore(books.tasks)
    self.start_sampling(books.policy_version)
    if not books.step:
      self.evaluate('untrained', 0, 0)
    self.write = self.make_writer(
        wanted.num_steps + 1, books.step, shown=_SHOWN
    )
    books = agentevol.train(
        books,
        kept,
        num_rounds=wanted.num_steps,
        tasks_per_round=wanted.explore.tasks,
        tasks=tasks,
        threshold=wanted.algo.threshold,
        explore=self._explore,
        learn=self._learn,
        push=self.push,
        record=self._record,
        save=self._save,
    )
    self.evaluate('after', wanted.num_steps, books.policy_version)
    self.summarise('agentevol', books.step)

  def _explore(self, number, tasks, *, policy_version):
    return self.explore(f'round-{number}', tasks, policy_version=policy_version)

  def _learn(self, number: int, kept: Sequence[Episode]) -> tuple[Any, Metrics]:
    """What the base policy becomes on the demonstrations and these episodes."""
    algo = self.wanted.algo
    episodes = [*self.demonstrations, *kept]
    weights = np.ones(len(episodes))
    if algo.weighting == 'return' and kept:
      # A demonstration is as good as it gets.
      weights[-len(kept) :] = [episode.episode_return for episode in kept]
    total = supervised.num_updates(
        len(episodes), algo.minibatch_size, algo.epochs
    )
    directory = self.directory / 'rounds' / str(number)
    directory.mkdir(parents=True, exist_ok=True)
    batch = warmstart.as_batch(episodes)
    params, values = self.imitate(
        self.base_params,
        batch.replace(
            advantages=batch.completion_mask * np.float32(weights)[:, None]
        ),
        epochs=algo.epochs,
        minibatch_size=algo.minibatch_size,
        optim=self.wanted.optim,
        schedule=self.schedule(total),
        seed=seeds.derive_seed(self.wanted.seed, 'rows', number),
        directory=directory,
        name='sft',
        loss=algo_lib.loss,
    )
    return params, values | {'train/updates': float(total)}

  def _record(
      self,
      number: int,
      values: Metrics,
      groups: Sequence[Group],
      kept: Sequence[Episode],
      version: int,
  ) -> None:
    if groups:
      self.write_episodes(
          episodes_lib.step_path(self.directory, 'train', number),
          [episode for group in groups for episode in group.episodes],
          tokens=self.wanted.rollout.save_tokens,
      )
      values = values | collect.rollout_metrics(
          groups, self.wanted.explore.horizon
      )
    self.write_episodes(self._kept_path(number), kept)
    self.write(number, values)
    if number < self.wanted.num_steps:
      # The round is done and recorded: a signal that comes now ends this
      # evaluation, and the loop saves the round before it stops.
      with contextlib.suppress(Interrupted):
        self.evaluate(
            f'round_{number}' if number else 'before', number, version
        )

  def _save(self, params: Any, books: Bookkeeping) -> None:
    # A round starts from the base policy with a new optimizer: nothing of the
    # last one's is needed.
    self.save(self._state(books.step, params), dataclasses.asdict(books))
    self.checkpoints.wait()

  def _restore(self) -> tuple[Bookkeeping, list[Episode]]:
    """The bookkeeping after the last whole round, and what it had kept."""
    like = state_lib.abstract(self._state(0, self.base_params))
    state, _, books = self.restore(like)
    self.model = dataclasses.replace(self.model, params=state.params)
    kept = list(episodes_lib.read(self._kept_path(books['step'] - 1)))
    return Bookkeeping(**books), kept

  def _state(self, rounds: int, params: Any) -> TrainState:
    done = state_lib.place(np.int32(rounds), self.mesh)
    return TrainState(done, params, opt_state=None)

  def _kept_path(self, number: int) -> pathlib.Path:
    return self.directory / 'rounds' / str(number) / 'kept.jsonl'
