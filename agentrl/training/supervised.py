"""Supervised training on whole episodes: the warm start, and SFT."""

from collections.abc import Callable, Iterator

import numpy as np

from agentrl.batch import TokenBatch
from agentrl.training import step as step_lib
from agentrl.training.state import TrainState


def minibatches(
    size: int, minibatch_size: int, epochs: int, seed: int
) -> Iterator[np.ndarray]:
  """Row indices of each minibatch: every epoch in an order of its own."""
  for epoch in range(epochs):
    order = np.random.default_rng((seed, epoch)).permutation(size)
    for start in range(0, size, minibatch_size):
      yield order[start : start + minibatch_size]


def num_updates(size: int, minibatch_size: int, epochs: int) -> int:
  """How many minibatches `minibatches` yields."""
  return epochs * -(-size // minibatch_size)


def fit(
    state: TrainState,
    batch: TokenBatch,
    *,
    steps: step_lib.Steps,
    epochs: int,
    minibatch_size: int,
    max_tokens: int,
    seed: int,
    on_update: Callable[[int, step_lib.Metrics], None],
) -> TrainState:
  """Minimises the loss of `steps` over the rows of a batch.

  Args:
    state: donated.
    batch: NumPy arrays; all the demonstrations, one a row.
    steps: made with `algos.sft.loss`.
    epochs: passes over the rows.
    minibatch_size: rows per update.
    max_tokens: per microbatch, padding included.
    seed: of the order of the rows.
    on_update: called with the update's index and metrics; may raise to stop.

  Returns:
    The state after the last update.
  """
  order = minibatches(len(batch.tokens), minibatch_size, epochs, seed)
  for index, rows in enumerate(order):
    state, metrics = step_lib.update(
        steps, state, batch, rows, max_tokens=max_tokens
    )
    on_update(index, step_lib.checked(metrics))
  return state
