"""The border: episodes in, a `TokenBatch` of NumPy arrays out.

`collate` lays a collection out, one episode a row, in (task, replica) order.
`microbatches` packs a choice of its rows into pieces of a few fixed shapes, so
that each shape is compiled once and little of it is padding.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agentrl.batch import TokenBatch
from agentrl.types import Episode, Group

# Lengths of packed rows. Every length and height is a program to compile, so
# there are few; between neighbours at most a third of a row is waste.
LENGTHS = tuple(sorted({base << k for base in (64, 96) for k in range(12)}))


class Place(NamedTuple):
  """Where an episode lies in a microbatch."""

  row: int  # of the whole batch
  packed_row: int  # of the microbatch
  start: int
  length: int


class Microbatch(NamedTuple):
  """Packed rows, and where each episode of them came from."""

  batch: TokenBatch  # `[b, t]` fields packed, `[E]` fields whole
  places: tuple[Place, ...]


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
  an episode has no say in where its reward lands. The width is one of
  `LENGTHS`, so that what is computed on a whole collection compiles few times.

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
  shape = (size, bucket_length(max(length, 1)))
  tokens = np.zeros(shape, np.int32)
  segment_ids = np.zeros(shape, np.int32)
  positions = np.zeros(shape, np.int32)
  completion_mask = np.zeros(shape, bool)
  turn_ids = np.full(shape, -1, np.int32)
  rewards = np.zeros(shape, np.float32)
  anchor_ids = np.full(shape, -1, np.int32)
  anchors: dict[tuple[int, str], int] = {}
  sampler_logprobs = np.zeros(shape, np.float32)
  group_ids = np.repeat(
      np.arange(len(groups), dtype=np.int32),
      [len(group.episodes) for group in groups],
  )
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
      seen = episode.turns[turn - 1].observation if turn else _opening(episode)
      anchor_ids[row, start:stop] = anchors.setdefault(
          (int(group_ids[row]), seen), len(anchors)
      )
      rewards[row, stop - 1] = record.reward
  return TokenBatch(
      tokens=tokens,
      segment_ids=segment_ids,
      positions=positions,
      completion_mask=completion_mask,
      turn_ids=turn_ids,
      rewards=rewards,
      group_ids=group_ids,
      valid=np.array([e.valid for e in episodes]),
      episode_return=np.array([e.episode_return for e in episodes], np.float32),
      truncated=np.array([e.truncated for e in episodes]),
      anchor_ids=anchor_ids,
      sampler_logprobs=sampler_logprobs,
  )


def _opening(episode: Episode) -> str:
  """The first observation, as the prompt holds it."""
  return episode.prompt[-1].content if episode.prompt else ''


def microbatches(
    batch: TokenBatch,
    rows: np.ndarray,
    *,
    max_tokens: int,
    multiple: int = 1,
    together: int = 1,
) -> list[Microbatch]:
  """Packs rows into pieces of at most `max_tokens`.

  Several episodes share a packed row: the first in which an episode fits, long
  ones first. Segment ids and positions keep them apart, so packing changes no
  log-probability and no gradient.

  Args:
    batch: NumPy arrays, one episode a row.
    rows: indices of the rows wanted. Rows of invalid episodes are left out:
      nothing is learnt from them.
    max_tokens: largest rows times length of a piece, padding included. A piece
      of `multiple` rows may exceed it: a row cannot be cut.
    multiple: the height of a piece is a multiple of this: shards of the rows.
    together: so many rows, one after the other in `rows`, share a packed row:
      2 for pairs that a loss compares. One invalid row leaves all of them out.
  """
  used = np.asarray(batch.segment_ids).astype(bool).sum(axis=1)
  sets = np.asarray(rows).reshape(-1, together)
  sets = sets[np.asarray(batch.valid)[sets].all(axis=1)]
  needs = used[sets].sum(axis=1)
  order = np.argsort(-needs, kind='stable')
  if not len(order):
    return []
  length = bucket_length(int(needs[order[0]]))
  packed: list[list[int]] = []
  room: list[int] = []
  for member in order:
    need = int(needs[member])
    index = next((i for i, free in enumerate(room) if free >= need), len(room))
    if index == len(room):
      packed.append([])
      room.append(length)
    packed[index] += sets[member].tolist()
    room[index] -= need
  most = max(max_tokens // length // multiple, 1) * multiple
  return [
      _pack(batch, used, packed[start : start + most], length, most, multiple)
      for start in range(0, len(packed), most)
  ]


def _pack(batch, used, packed, length, most, multiple) -> Microbatch:
  """One piece of these packed rows."""
  height = multiple
  while height < len(packed):
    height *= 2
  height = min(height, most)
  places = []
  for packed_row, members in enumerate(packed):
    start = 0
    for row in members:
      places.append(Place(row, packed_row, start, int(used[row])))
      start += int(used[row])

  def fill(name):
    x = getattr(batch, name)
    if x is None or np.ndim(x) != 2:
      return x
    x = np.asarray(x)
    rest = -1 if name in ('turn_ids', 'anchor_ids') else 0
    out = np.full((height, length), rest, x.dtype)
    for p in places:
      stop = p.start + p.length
      out[p.packed_row, p.start : stop] = x[p.row, : p.length]
    return out

  fields = {name: fill(name) for name in batch.__dataclass_fields__}
  return Microbatch(TokenBatch(**fields), tuple(places))


def unpack(
    values: np.ndarray, places: Sequence[Place], out: np.ndarray
) -> None:
  """Copies a microbatch's `[b, t]` values to their rows of `[B, T]` `out`."""
  for p in places:
    stop = p.start + p.length
    out[p.row, : p.length] = values[p.packed_row, p.start : stop]
