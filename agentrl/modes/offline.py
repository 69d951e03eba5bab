"""What sft and dpo share: one pass of updates over data, resumable."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from agentrl import metrics as metrics_lib
from agentrl.batch import TokenBatch
from agentrl.data import conversations
from agentrl.modes import base, demonstrations, warmstart
from agentrl.modes.host import Interrupted
from agentrl.rollout import seeds
from agentrl.training import state as state_lib, step, supervised
from agentrl.training.state import TrainState
from agentrl.types import Conversation, Episode


class OfflineRun(base.Run):
  """A run over demonstrations or pairs; `state.step` is its cursor."""

  def read_data(self) -> list[Conversation | Episode]:
    """The records of config.data.files that are worth imitating."""
    data = self.wanted.data
    if not data.files:
      return []
    found = demonstrations.read_files(data.files, self.console)
    return demonstrations.chosen(found, data, self.console)

  def data_texts(self, found: Sequence[Conversation | Episode]) -> list[str]:
    """What a tokenizer is trained on: the files' words and the expert's."""
    texts = [text for item in found for text in conversations.texts_of(item)]
    data = self.wanted.data
    if data.expert_episodes:
      texts += self.expert_texts(data.expert_horizon)
    return texts

  def demonstrations(
      self, found: Sequence[Conversation | Episode]
  ) -> list[Episode]:
    """All that config.data describes, in the policy's ids."""
    data, episodes = self.wanted.data, []
    if found:
      episodes += demonstrations.to_episodes(
          self.agent,
          found,
          max_context=self.wanted.rollout.max_context,
          own_opening=data.own_opening,
          console=self.console,
      )
    if data.expert_episodes:
      episodes += self.play_expert(data.expert_episodes, data.expert_horizon)
    return episodes

  def prepare(
      self, batch: TokenBatch, loss: step.LossFn, *, together: int = 1
  ) -> None:
    """Makes the optimiser and a state, and knows how many updates there are.

    Args:
      batch: NumPy arrays; `[B, T]`.
      loss: of the algorithm, its knobs bound.
      together: rows that the loss compares.
    """
    algo = self.wanted.algo
    self.batch, self.together = batch, together
    self.total = supervised.num_updates(
        len(batch.valid) // together, algo.minibatch_size, algo.epochs
    )
    optim = dataclasses.replace(
        self.wanted.optim, warmup_steps=algo.warmup_steps(self.total)
    )
    self.tx, self.learning_rate = warmstart.make_tx(optim, self.total)
    self.state, shardings = state_lib.create(
        self.model.params, self.tx, self.mesh
    )
    self.steps = step.make_steps(
        self.module, loss, self.tx, self.mesh, self.state, shardings
    )

  def resume(self) -> None:
    """Brings the newest checkpoint back."""
    self.state, _, _ = self.restore(self.state)
    self.model = dataclasses.replace(self.model, params=self.state.params)

  def keep(self, state: TrainState, version: int) -> None:
    """Saves; `version` is that of the policy before the first update."""
    done = int(state.step)
    self.save(state, {'step': done, 'policy_version': version + done})

  def learn(self, mode: str, version: int, shown: Sequence[str]) -> None:
    """All updates that are left, the last evaluation and the summary."""
    wanted, algo = self.wanted, self.wanted.algo
    writer = metrics_lib.Writer(
        self.directory,
        total=self.total,
        start=int(self.state.step),
        shown=(*shown, 'train/grad_norm'),
        console=self.console,
        show_every=max(self.total // 20, 1),
    )
    self.stack.callback(writer.close)

    def on_update(index: int, state: TrainState, values: dict[str, Any]):
      self.totals['tokens'] += values['train/tokens']
      values = values | {'train/lr': float(self.learning_rate(index))}
      writer.write(index, values | self.measure(index, state))
      done = index + 1
      stop = self.host.interrupted
      if stop or done % wanted.checkpoint.every == 0 or done == self.total:
        self.keep(state, version)
      if stop:
        self.checkpoints.wait()
        raise Interrupted

    self.state = supervised.fit(
        self.state,
        self.batch,
        steps=self.steps,
        epochs=algo.epochs,
        minibatch_size=algo.minibatch_size,
        max_tokens=wanted.optim.max_tokens,
        seed=seeds.derive_seed(wanted.seed, 'rows'),
        on_update=on_update,
        start=int(self.state.step),
        together=self.together,
    )
    self.checkpoints.wait()
    if wanted.eval.num_tasks:
      self.push(self.state.params, version + self.total)
      self.evaluate('after', self.total, version + self.total)
    self.summarise(mode, self.total, updates=self.total)

  def measure(self, index: int, state: TrainState) -> dict[str, float]:
    """More metrics of update `index`, of the state after it."""
    del index, state
    return {}
