"""Supervised training on whole episodes: warm starts, SFT, DPO, AgentEvol."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import optax
import rich.console
from absl import logging
from jax.sharding import Mesh

from agentrl import metrics as metrics_lib
from agentrl.batch import TokenBatch
from agentrl.data import collate
from agentrl.models.lora import Base
from agentrl.models.transformer import Transformer
from agentrl.parallel import compile_waits
from agentrl.trackers import Tracker
from agentrl.training import (
    optim as optim_lib,
    programs as programs_lib,
    state as state_lib,
)
from agentrl.training.options import Optim
from agentrl.training.state import TrainState
from agentrl.types import Episode, Group

OnUpdate = Callable[[int, TrainState, programs_lib.Metrics], None]


@dataclasses.dataclass(frozen=True)
class Passes:
  """The use of a set of demonstrations.

  Attributes:
    epochs: passes over them.
    minibatch_size: demonstrations of an update, or pairs of them.
    max_tokens: of a microbatch, padding included.
    seed: of their order.
    rows_per_example: neighbouring rows that the loss compares: 2 for pairs.
    learns_prompts: whether the loss reads tokens that were not sampled; if not
      they have no log-probabilities, and groups may share prompts.
  """

  epochs: int
  minibatch_size: int
  max_tokens: int
  seed: int
  rows_per_example: int = 1
  learns_prompts: bool = False

  def num_updates(self, rows: int) -> int:
    """The number of minibatches in all passes."""
    return self.epochs * -(
        -rows // self.rows_per_example // self.minibatch_size
    )

  def minibatches(self, rows: int) -> Iterator[np.ndarray]:
    """Rows of each minibatch: every epoch in an order of its own."""
    for epoch in range(self.epochs):
      rng = np.random.default_rng((self.seed, epoch))
      order = rng.permutation(rows // self.rows_per_example)
      for start in range(0, len(order), self.minibatch_size):
        members = order[start : start + self.minibatch_size]
        yield rows_of(members, self.rows_per_example)


class Network(NamedTuple):
  """A network to be trained, and where.

  Attributes:
    module: the trainer's.
    mesh: the devices.
    base: the frozen model, where the parameters are an adapter.
    offload: see `state.create`.
  """

  module: Transformer
  mesh: Mesh
  base: Base | None = None
  offload: bool = False


class Learner(NamedTuple):
  """A supervised phase, at the beginning of one of its minibatches.

  Attributes:
    state: before the next update.
    programs: for this state.
    learning_rate: by update.
    total: minibatches of the phase.
    passes: over the demonstrations.
    start: minibatches that are done. `state.step` is no such position: it counts
      updates, and a minibatch without a token to learn makes none.
  """

  state: TrainState
  programs: programs_lib.Programs
  learning_rate: optax.Schedule
  total: int
  passes: Passes
  start: int = 0


def make_learner(
    params: Any,
    rows: int,
    *,
    network: Network,
    loss: programs_lib.LossFn,
    optim: Optim,
    rate: Callable[[int], optim_lib.Rate],
    passes: Passes,
) -> Learner:
  """A learner before its first update.

  Args:
    params: trainer layout; not donated.
    rows: of the batch that it will learn from.
    network: of the parameters.
    loss: of an offline algorithm, its hyperparameters bound.
    optim: the optimizer; its learning rate is `rate`'s.
    rate: gives the learning rate of a phase of so many updates.
    passes: over the batch.
  """
  total = passes.num_updates(rows)
  tx, learning_rate = optim_lib.make(optim, rate(total))
  module, mesh, base, offload = network
  state = state_lib.create(params, tx, mesh, offload=offload)
  programs = programs_lib.compile_programs(
      module,
      loss,
      tx,
      state,
      base=base,
      learns_prompts=passes.learns_prompts,
      few_shapes=[programs_lib.ACCUMULATE],
  )
  return Learner(state, programs, learning_rate, total, passes)


def as_batch(episodes: Sequence[Episode]) -> TokenBatch:
  """Demonstrations, one a row."""
  batch = collate.collate([Group(e.task_id, 0, (e,)) for e in episodes])
  # Nobody sampled these tokens: there is no sampler to agree with.
  return batch.replace(sampler_logprobs=None)


def rows_of(members: np.ndarray, rows_per_example: int) -> np.ndarray:
  """The rows of these members, of `rows_per_example` neighbouring rows each."""
  return (
      members[:, None] * rows_per_example + np.arange(rows_per_example)
  ).ravel()


def fit(
    learner: Learner, batch: TokenBatch, *, on_update: OnUpdate
) -> TrainState:
  """Makes the updates of the minibatches that are left.

  Args:
    learner: its state is donated.
    batch: NumPy arrays; all the demonstrations, one a row.
    on_update: called with the minibatch's index, the state after it, which the
      next update donates, and metrics, none where it had no token to learn; may
      raise to stop.

  Returns:
    The state after the last update.

  Raises:
    DivergedError: several updates in a row had no finite gradient.
  """
  state, programs, _, _, passes, start = learner
  skips = 0
  compile_waits.listen()
  compile_waits.take()  # of what came before
  cut: dict[str, Any] = dict(
      max_tokens=passes.max_tokens,
      rows_per_example=passes.rows_per_example,
      share_prefixes=not passes.learns_prompts,
  )
  for index, rows in enumerate(passes.minibatches(len(batch.tokens))):
    if index < start:
      # Shapes follow from those before.
      programs_lib.cut(programs.accumulate, programs.mesh, batch, rows, **cut)
      continue
    updated = programs_lib.update(programs, state, batch, rows, **cut)
    state, metrics = updated.state, updated.metrics
    if metrics and not updated.suspects:
      metrics |= programs.compilations()
    skips = programs_lib.count_skips(skips, metrics)
    if updated.suspects:
      logging.warning(
          'Update %d is skipped: its gradient is not finite. Demonstrations in'
          ' question, from 0: %s.',
          *(index, sorted(updated.suspects)),
      )
    on_update(index, state, metrics)
    programs_lib.check_skips(skips)
  return state


def imitate(
    learner: Learner,
    batch: TokenBatch,
    *,
    directory: pathlib.Path,
    console: rich.console.Console,
    check: Callable[[], None],
    name: str,
    write: bool,
    trackers: Sequence[Tracker] = (),
) -> tuple[Any, programs_lib.Metrics]:
  """A whole phase, with metrics in a file of its own.

  Args:
    learner: before its first update; its state is donated.
    batch: NumPy arrays; what to learn, one demonstration a row.
    directory: gets `NAME.jsonl`, anew.
    console: where progress is shown.
    check: called after each update; may raise to stop.
    name: of the phase.
    write: True in the process that writes and shows.
    trackers: where its metrics go as well.

  Returns:
    The parameters learnt, and the last update's metrics, but with the tokens
    of all updates, and their number.
  """
  filename = f'{name}.jsonl'
  tokens = 0.0
  last: programs_lib.Metrics = {}
  with contextlib.ExitStack() as stack:
    if write:
      (directory / filename).unlink(missing_ok=True)
      writer = metrics_lib.Writer(
          directory,
          filename=filename,
          prefix=f'{name}/',
          total=learner.total,
          shown=('policy/loss', 'train/grad_norm'),
          console=console,
          trackers=trackers,
          show_every=max(learner.total // 10, 1),
      )
      stack.callback(writer.close)

    def on_update(
        index: int, _: TrainState, values: programs_lib.Metrics
    ) -> None:
      nonlocal tokens, last
      # A skipped update has learnt nothing.
      tokens += values.get('train/tokens', 0.0)
      last = values or last
      if write:
        writer.write(index, values)
      check()

    state = fit(learner, batch, on_update=on_update)
  updates = float(state.step)
  return state.params, last | {
      'train/tokens': tokens,
      'train/updates': updates,
  }


def mean_loss(
    state: TrainState,
    batch: TokenBatch,
    *,
    programs: programs_lib.Programs,
    max_tokens: int,
) -> float:
  """Mean negative log-likelihood of the tokens that a batch would teach."""
  scores = programs_lib.score(
      programs, state.networks, batch, max_tokens=max_tokens
  )
  mask = np.asarray(batch.completion_mask)
  return -float(scores.logprobs[mask].mean())
