"""Supervised training on whole episodes: the warm start, and SFT."""

from collections.abc import Callable, Iterator

import numpy as np
from absl import logging

from agentrl.batch import TokenBatch
from agentrl.training import programs as programs_lib
from agentrl.training.programs import Metrics, Programs
from agentrl.training.state import TrainState

OnUpdate = Callable[[int, TrainState, Metrics], None]


def minibatches(
    size: int, minibatch_size: int, epochs: int, seed: int
) -> Iterator[np.ndarray]:
  """Indices of each minibatch: every epoch in an order of its own."""
  for epoch in range(epochs):
    order = np.random.default_rng((seed, epoch)).permutation(size)
    for start in range(0, size, minibatch_size):
      yield order[start : start + minibatch_size]


def rows_of(members: np.ndarray, rows_per_example: int) -> np.ndarray:
  """The rows of these members, of `rows_per_example` neighbouring rows each."""
  return (
      members[:, None] * rows_per_example + np.arange(rows_per_example)
  ).ravel()


def num_updates(size: int, minibatch_size: int, epochs: int) -> int:
  """How many minibatches `minibatches` yields."""
  return epochs * -(-size // minibatch_size)


def fit(
    state: TrainState,
    batch: TokenBatch,
    *,
    programs: Programs,
    epochs: int,
    minibatch_size: int,
    max_tokens: int,
    seed: int,
    on_update: OnUpdate,
    start: int = 0,
    rows_per_example: int = 1,
) -> TrainState:
  """Minimises the loss of `programs` over the rows of a batch.

  Args:
    state: after update `start`; donated.
    batch: NumPy arrays; all the demonstrations, one a row.
    programs: made with the loss of an offline algorithm.
    epochs: passes over the rows.
    minibatch_size: demonstrations per update, or pairs of them.
    max_tokens: per microbatch, padding included.
    seed: of the order of the rows.
    on_update: called with the update's index, the state after it, which the
      next update donates, and metrics; may raise to stop.
    start: updates done before, by a run that was stopped.
    rows_per_example: neighbouring rows that the loss compares: 2 for pairs.

  Returns:
    The state after the last update.

  Raises:
    DivergedError: several updates in a row had no finite gradient.
  """
  members = len(batch.tokens) // rows_per_example
  order = minibatches(members, minibatch_size, epochs, seed)
  skips = 0
  for index, chosen in enumerate(order):
    if index < start:
      continue
    suspects: list[int] = []
    state, metrics = programs_lib.update(
        programs,
        state,
        batch,
        rows_of(chosen, rows_per_example),
        max_tokens=max_tokens,
        rows_per_example=rows_per_example,
        suspects=suspects,
    )
    skips = programs_lib.count_skips(skips, metrics)
    if suspects:
      logging.warning(
          'Update %d is skipped: its gradient is not finite. Demonstrations in'
          ' question, from 0: %s.',
          *(index, sorted(suspects)),
      )
    on_update(index, state, metrics)
    programs_lib.check_skips(skips)
  return state


def mean_loss(
    state: TrainState,
    batch: TokenBatch,
    *,
    programs: Programs,
    max_tokens: int,
) -> float:
  """Mean negative log-likelihood of the tokens that a batch would teach."""
  scores = programs_lib.score(
      programs, state.networks, batch, max_tokens=max_tokens
  )
  mask = np.asarray(batch.completion_mask)
  return -float(scores.logprobs[mask].mean())
