"""What sft, dpo and agentevol share: data, exploring, updates that resume."""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from agentrl import metrics as metrics_lib
from agentrl.batch import TokenBatch
from agentrl.data import conversations, episodes as episodes_lib
from agentrl.modes import base, demonstrations, parts, resume, warmstart
from agentrl.parallel import distributed
from agentrl.rollout import seeds
from agentrl.runtime.event_loop import Interrupted
from agentrl.training import (
    ranks,
    state as state_lib,
    supervised,
)
from agentrl.training.programs import LossFn
from agentrl.training.state import TrainState
from agentrl.types import Episode, Group


class OfflineRun(base.Run):
  """A run that learns from a fixed set of episodes, once or in rounds.

  Every process of several reads the same files and has all episodes.
  """

  def build_data(self) -> list[Episode]:
    """Makes the environment, the policy and what `config.data` describes.

    The episodes are kept in the workdir: a run that goes on needs neither the
    files nor the expert.
    """
    data = self.wanted.data
    self.build_world(expert=data.expert_episodes > 0)
    path = self.directory / 'episodes' / 'demonstrations.jsonl'
    if self.checkpoints.latest is not None:
      self.build_policy(lambda: [])  # there is a tokenizer
      return list(episodes_lib.read(path))
    found = []
    if data.files:
      read = functools.partial(conversations.read, env=self.wanted.env.name)
      found = demonstrations.read_files(data.files, read, self.console)
      found = demonstrations.worth_imitating(
          found, data.min_return, self.console
      )

    def texts() -> list[str]:
      texts = [text for item in found for text in conversations.texts_of(item)]
      if data.expert_episodes:
        texts += self.expert_texts(data.expert_horizon)
      return texts

    self.build_policy(texts)
    episodes = []
    if found:
      episodes += demonstrations.to_episodes(
          self.agent,
          [(item,) for item in found],
          max_context=self.wanted.rollout.max_context,
          own_opening=data.own_opening,
          console=self.console,
      )
    if data.expert_episodes:
      episodes += self.play_expert(data.expert_episodes, data.expert_horizon)
    self.write_episodes(path, episodes)
    return episodes

  def write_episodes(
      self, path: pathlib.Path, episodes: Sequence[Episode], **options: Any
  ) -> None:
    """Writes a file once; afterwards every process can read it."""
    if self.first:
      episodes_lib.write(path, episodes, **options)
    distributed.wait(path.name)

  def explore(
      self,
      name: str,
      tasks: Sequence[tuple[int, int]],
      *,
      policy_version: int,
  ) -> list[Group]:
    """Episodes of the policy, as `config.explore` says.

    Args:
      name: begins the episodes' names, and decides their seeds.
      tasks: (ordinal, task id) of each group.
      policy_version: for the record.
    """
    wanted = self.wanted.explore
    play = parts.make_play(
        self.environment,
        self.agent,
        self.make_sampler(wanted.temperature),
        self.wanted.rollout,
        name=name,
        split='train',
        horizon=wanted.horizon,
        policy_version=policy_version,
    )
    return parts.collect_groups(
        self.host,
        self.console,
        name,
        tasks,
        wanted.samples,
        play,
        self.wanted.rollout,
        seed=seeds.derive_seed(self.wanted.seed, name),
    )

  def make_writer(
      self, total: int, start: int, *, shown: Sequence[str], show_every: int = 1
  ) -> Callable[[int, dict[str, Any]], None]:
    """`write(index, values)` adds to `metrics.jsonl`, from line `start` on.

    Lines beyond it, of a run that was killed before its first checkpoint was
    complete, are set aside.
    """
    if not self.first:
      return lambda index, values: None
    resume.discard_from(self.directory, start)
    self.writer = metrics_lib.Writer(
        self.directory,
        total=total,
        start=start,
        shown=shown,
        console=self.console,
        show_every=show_every,
    )
    self.stack.callback(self.writer.close)
    return lambda index, values: self.writer.write(
        index, values | self.early_evals(index)
    )

  def make_learner(self, size: int, loss: LossFn) -> warmstart.Learner:
    """A learner of `config.algo` and `config.optim`, of the model's parameters.

    From then on the model has the learner's, which its first update donates.

    Args:
      size: demonstrations or pairs.
      loss: of the algorithm, its hyperparameters bound.
    """
    algo = self.wanted.algo
    total = supervised.num_updates(size, algo.minibatch_size, algo.epochs)
    learner = warmstart.make_learner(
        self.model.params,
        total,
        optim=self.wanted.optim,
        schedule=self.schedule(total),
        module=self.module,
        mesh=self.mesh,
        loss=loss,
        offload=self.offload,
        base=self.model.base,
    )
    self.model = dataclasses.replace(self.model, params=learner.state.params)
    return learner

  def schedule(self, total: int) -> warmstart.Schedule:
    """The learning rate over a phase of `total` updates."""
    optim = self.wanted.optim
    return warmstart.Schedule(
        optim.lr, math.ceil(self.wanted.algo.warmup * total), optim.schedule
    )

  def at_checkpoint(self, learner: warmstart.Learner) -> warmstart.Learner:
    """The learner at the newest checkpoint; its parameters become the model's."""
    state, _, _ = self.restore(state_lib.abstract(learner.state))
    self.model = dataclasses.replace(self.model, params=state.params)
    return learner._replace(state=state)

  def keep(self, state: TrainState, version: int) -> None:
    """Saves; `version` is that of the policy before the first update."""
    done = int(state.step)
    self.save(state, {'step': done, 'policy_version': version + done})

  def learn(
      self,
      mode: str,
      learner: warmstart.Learner,
      batch: TokenBatch,
      *,
      version: int,
      shown: Sequence[str],
      rows_per_example: int = 1,
  ) -> None:
    """Makes the updates that are left, evaluates and writes the summary.

    Args:
      mode: for the summary.
      learner: its state is donated.
      batch: NumPy arrays, `[B, T]`.
      version: of the policy before the first update.
      shown: metrics of the progress line.
      rows_per_example: rows that the loss compares.

    Raises:
      Interrupted: the user asked to stop; what was done is saved.
    """
    wanted, algo = self.wanted, self.wanted.algo
    total, start = learner.total, int(learner.state.step)
    write = self.make_writer(
        total,
        start,
        shown=(*shown, 'train/grad_norm'),
        show_every=max(total // 20, 1),
    )

    def on_update(index: int, state: TrainState, values: dict[str, Any]):
      done = index + 1
      # A skipped update has learnt from none.
      self.totals['tokens'] += values.get('train/tokens', 0.0)
      values = values | {'train/lr': float(learner.learning_rate(index))}
      write(index, values | self.measure(learner, done, state))
      stop = ranks.interrupted(self.host)
      if stop or done % wanted.checkpoint.every == 0 or done == total:
        self.keep(state, version)
      if stop:
        self.checkpoints.wait()
        raise Interrupted

    state = supervised.fit(
        learner.state,
        batch,
        programs=learner.programs,
        epochs=algo.epochs,
        minibatch_size=algo.minibatch_size,
        max_tokens=wanted.optim.max_tokens,
        seed=seeds.derive_seed(wanted.seed, 'rows'),
        on_update=on_update,
        start=start,
        rows_per_example=rows_per_example,
    )
    self.checkpoints.wait()
    if wanted.eval.num_tasks:
      self.push(state.params, version + total)
      self.evaluate('after', total, version + total)
    self.summarise(mode, total, updates=total)

  def measure(
      self, learner: warmstart.Learner, done: int, state: TrainState
  ) -> dict[str, float]:
    """More metrics, after `done` updates."""
    del learner, done, state
    return {}
