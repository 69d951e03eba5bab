"""The loop over a batch of episodes that servers and other systems are timed by."""

import asyncio
import dataclasses
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import numpy as np

from experiments.benchmarks import peers


@dataclasses.dataclass(frozen=True)
class Case:
  """A loop of turns over a batch."""

  batch: int
  turns: int
  observation: int
  new: int

  @property
  def sampled(self) -> int:
    """Tokens of all completions."""
    return self.batch * self.turns * self.new

  @property
  def length(self) -> int:
    """Tokens of an episode at its end."""
    return self.turns * (self.observation + self.new)


CASES = {
    'generate': (Case(1, 1, 64, 128), Case(16, 1, 64, 128)),
    'turns': (Case(16, 10, 60, 30),),
}


class Answer(Protocol):
  """One completion."""

  tokens: Sequence[int]
  prompt_tokens: int
  cached_tokens: int  # of the prompt, which were not computed again


# (prompt, row of the batch, turn) -> the completion.
Ask = Callable[[list[int], int, int], Awaitable[Answer]]


async def play(
    ask: Ask, case: Case, vocab_size: int, run: int
) -> dict[str, Any]:
  """One batch of episodes; `run` makes its tokens unlike those of others."""
  rng = np.random.default_rng([run, case.batch])
  rows = [[] for _ in range(case.batch)]
  turn_s, prompted, cached = [], 0, 0
  for turn in range(case.turns):
    for row in rows:
      row += rng.integers(vocab_size, size=case.observation).tolist()
    start = time.perf_counter()
    answers = await asyncio.gather(
        *(ask(row, i, turn) for i, row in enumerate(rows))
    )
    turn_s.append(time.perf_counter() - start)
    for row, answer in zip(rows, answers, strict=True):
      row += answer.tokens
      prompted += answer.prompt_tokens
      cached += answer.cached_tokens
  assert all(len(row) == case.length for row in rows)
  return dict(turn_s=turn_s, prompted=prompted, cached=cached)


def summary(case: Case, runs: list[dict[str, Any]]) -> dict[str, Any]:
  """Times of one side."""
  seconds = [sum(run['turn_s']) for run in runs]
  turns = zip(*(run['turn_s'] for run in runs), strict=True)
  return dict(
      seconds=peers.spread(seconds),
      tokens_per_s=peers.spread([case.sampled / s for s in seconds]),
      turn_s=[round(statistics.median(times), 4) for times in turns],
  )


def compare(sides: dict[str, dict[str, Any]], ours: str) -> None:
  """Adds `times_as_long` to all sides but ours: its median over our median."""
  for name in sides.keys() - {ours}:
    theirs = sides[name]['seconds']['median']
    sides[name]['times_as_long'] = theirs / sides[ours]['seconds']['median']
