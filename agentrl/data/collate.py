"""The border: episodes in, a `TokenBatch` of NumPy arrays out.

`collate` lays a collection out, one episode a row, in (task, replica) order.
`microbatches` cuts a choice of its rows into pieces of a few fixed shapes, so
that each shape is compiled once and short episodes do not pay for long ones.
"""

from collections.abc import Sequence

import numpy as np

from agentrl.batch import TokenBatch
from agentrl.types import Episode, Group

# Lengths that rows are padded to, and least rows of a piece. Every length and
# height is a program to compile, so both are powers of two.
LENGTHS = tuple(64 << k for k in range(13))
_LEAST_ROWS = 8


def bucket_length(length: int) -> int:
  """The smallest of `LENGTHS` that holds `length` tokens."""
  for candidate in LENGTHS:
    if length <= candidate:
      return candidate
  raise ValueError(f'{length} tokens exceed the longest row, {LENGTHS[-1]}.')


def turn_spans(episode: Episode) -> list[tuple[int, int]]:
  """`(start, stop)` of each turn's sampled ids in the episode's tokens."""
  mask = np.asarray(episode.completion_mask, bool)
  edges = np.flatnonzero(np.diff(np.pad(mask.astype(np.int8), 1)))
  spans = [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
  expected = [t.completion_tokens for t in episode.turns]
  if [b - a for a, b in spans] != expected:
    raise ValueError(
        f'Episode {episode.episode_id!r}: the mask has runs of'
        f' {[b - a for a, b in spans]} tokens, its turns sampled {expected}.'
    )
  return spans


def collate(groups: Sequence[Group]) -> TokenBatch:
  """Lays groups out as rows, padded to the longest episode.

  Rewards go to the last sampled token of their turn: an observation that ends
  an episode has no say in where its reward lands.

  Args:
    groups: in task order; their episodes in replica order.

  Returns:
    A batch of NumPy arrays: B = E = number of episodes.
  """
  episodes = [e for group in groups for e in group.episodes]
  if not episodes:
    raise ValueError('Nothing to collate: no episodes.')
  size = len(episodes)
  length = max(len(e.tokens) for e in episodes)
  shape = (size, max(length, 1))
  tokens = np.zeros(shape, np.int32)
  segment_ids = np.zeros(shape, np.int32)
  positions = np.zeros(shape, np.int32)
  completion_mask = np.zeros(shape, bool)
  turn_ids = np.full(shape, -1, np.int32)
  rewards = np.zeros(shape, np.float32)
  sampler_logprobs = np.zeros(shape, np.float32)
  for row, episode in enumerate(episodes):
    n = len(episode.tokens)
    tokens[row, :n] = episode.tokens
    segment_ids[row, :n] = row + 1
    positions[row, :n] = np.arange(n)
    completion_mask[row, :n] = episode.completion_mask
    sampler_logprobs[row, :n] = episode.sampler_logprobs
    spans = turn_spans(episode)
    for turn, ((start, stop), record) in enumerate(
        zip(spans, episode.turns, strict=True)
    ):
      turn_ids[row, start:stop] = turn
      rewards[row, stop - 1] = record.reward
  return TokenBatch(
      tokens=tokens,
      segment_ids=segment_ids,
      positions=positions,
      completion_mask=completion_mask,
      turn_ids=turn_ids,
      rewards=rewards,
      group_ids=np.repeat(
          np.arange(len(groups), dtype=np.int32),
          [len(group.episodes) for group in groups],
      ),
      valid=np.array([e.valid for e in episodes]),
      episode_return=np.array([e.episode_return for e in episodes], np.float32),
      truncated=np.array([e.truncated for e in episodes]),
      sampler_logprobs=sampler_logprobs,
  )


def _take(batch: TokenBatch, rows: np.ndarray, length: int, height: int):
  """Chosen rows as `[height, length]`; `[E]` fields stay whole.

  Missing rows and columns are padding: zeros, with turn id -1.
  """

  def cut(name, x):
    if x is None or np.ndim(x) != 2:
      return x
    x = np.asarray(x)[rows, :length]
    pad = ((0, height - x.shape[0]), (0, length - x.shape[1]))
    return np.pad(x, pad, constant_values=-1 if name == 'turn_ids' else 0)

  fields = batch.__dataclass_fields__
  return batch.replace(**{f: cut(f, getattr(batch, f)) for f in fields})


def microbatches(
    batch: TokenBatch,
    rows: np.ndarray,
    *,
    max_tokens: int,
    multiple: int = 1,
) -> list[tuple[TokenBatch, np.ndarray]]:
  """Cuts rows into pieces of at most `max_tokens`, long rows first.

  A piece takes rows of one length bucket, so that short episodes do not pay for
  long ones; its height is a power of two, so that few shapes are compiled.

  Args:
    batch: NumPy arrays, one episode a row.
    rows: indices of the rows wanted. Rows of invalid episodes are left out:
      nothing is learnt from them.
    max_tokens: largest rows times length of a piece, padding included. The
      fewest rows of a piece may exceed it: a row cannot be cut.
    multiple: the height of a piece is a multiple of this: shards of the rows.

  Returns:
    `(piece, its rows)`. Padding rows belong to segment 0.
  """
  used = np.asarray(batch.segment_ids).astype(bool).sum(axis=1)
  rows = np.asarray(rows)[np.asarray(batch.valid)[rows]]
  by_length: dict[int, list[int]] = {}
  for row in rows[np.argsort(-used[rows], kind='stable')]:
    by_length.setdefault(bucket_length(int(used[row])), []).append(row)
  pieces = []
  for length, members in by_length.items():
    most = max(max_tokens // length // multiple, 1) * multiple
    for start in range(0, len(members), most):
      chosen = np.array(members[start : start + most])
      pieces.append((
          _take(batch, chosen, length, _height(len(chosen), most, multiple)),
          chosen,
      ))
  return pieces


def _height(count: int, most: int, multiple: int) -> int:
  """Rows of a piece: `multiple` times a power of two, or `most`."""
  height = multiple
  while height < max(count, _LEAST_ROWS):
    height *= 2
  return min(height, most)
