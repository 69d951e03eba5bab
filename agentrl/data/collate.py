"""The border: episodes in, a `TokenBatch` of NumPy arrays out.

`collate` lays a collection out, one episode a row, in (task, replica) order.
`microbatches` packs a choice of its rows into pieces of a few fixed shapes, so
that each shape is compiled once and little of it is padding.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agentrl.batch import SharedPrefix, TokenBatch
from agentrl.data import packing
from agentrl.data.shapes import ANY, Shapes
from agentrl.errors import DataError
from agentrl.types import ACT, TERMINATED, Episode, Group


class Placement(NamedTuple):
  """The place of a segment, or of its part after a shared prefix."""

  row: int  # of the whole batch
  packed_row: int  # of the microbatch
  start: int
  length: int
  skip: int  # tokens of the segment before it, in the prefix
  origin: int = 0  # of the segment in its row of the whole batch

  @property
  def source(self) -> tuple[int, slice]:
    """Index of its tokens in `[B, T]` arrays of the whole batch."""
    first = self.origin + self.skip
    return self.row, slice(first, first + self.length)

  @property
  def target(self) -> tuple[int, slice]:
    """Index of its tokens in the microbatch's."""
    return self.packed_row, slice(self.start, self.start + self.length)


class Microbatch(NamedTuple):
  """Packed rows, and where each episode of them came from."""

  batch: TokenBatch  # `[b, t]` fields packed, `[E]` fields whole and padded
  places: tuple[Placement, ...]


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


def check_tokens(episode: Episode) -> None:
  """Refuses an episode of which only the words are known.

  Raises:
    DataError: names it, why, and the way out.
  """
  if episode.turns and not episode.tokens:
    raise DataError(
        f'Episode {episode.episode_id!r} has {len(episode.turns)} turns and no'
        ' tokens: it was played over messages (by an API model, or an expert'
        ' or random policy without a tokenizer), or written with'
        ' rollout.save_tokens=False. Training needs the ids; mode sft makes'
        ' them from the words of data.files, mode dpo from those of'
        ' pairs.files.'
    )


def collate(groups: Sequence[Group]) -> TokenBatch[np.ndarray]:
  """Lays groups out as rows, padded to the longest episode.

  The segments of an episode follow each other in its row, so that whatever runs
  over an episode's sampled tokens runs over its row.

  Rewards go to the last sampled token of their turn: an observation that ends
  an episode does not move its reward. The width is one of
  `packing.LENGTHS`, so that functions of a whole collection compile few
  times.

  Args:
    groups: in task order; their episodes in replica order.

  Returns:
    A batch of NumPy arrays: B = E = number of episodes.

  Raises:
    DataError: an episode has turns and no tokens.
  """
  episodes = [e for group in groups for e in group.episodes]
  if not episodes:
    raise ValueError('Nothing to collate: no episodes.')
  for episode in episodes:
    check_tokens(episode)
  size = len(episodes)
  length = max(len(e.tokens) for e in episodes)
  shape = (size, packing.bucket_length(max(length, 1)))
  tokens = np.zeros(shape, np.int32)
  segment_ids = np.zeros(shape, np.int32)
  positions = np.zeros(shape, np.int32)
  completion_mask = np.zeros(shape, bool)
  turn_ids = np.full(shape, -1, np.int32)
  rewards = np.zeros(shape, np.float32)
  anchor_ids = np.full(shape, -1, np.int32)
  episode_ids = np.zeros(shape, np.int32)
  anchors: dict[tuple[int, str | tuple[int, int]], int] = {}
  segments = 0
  sampler_logprobs = np.zeros(shape, np.float32)
  group_ids = np.repeat(
      np.arange(len(groups), dtype=np.int32),
      [len(group.episodes) for group in groups],
  )
  for row, episode in enumerate(episodes):
    n = len(episode.tokens)
    tokens[row, :n] = episode.tokens
    episode_ids[row, :n] = row + 1
    for start, stop in episode.segment_spans:
      segments += 1
      segment_ids[row, start:stop] = segments
      positions[row, start:stop] = np.arange(stop - start)
    completion_mask[row, :n] = episode.completion_mask
    sampler_logprobs[row, :n] = episode.sampler_logprobs
    spans = turn_spans(episode)
    # Plans and context commands do not change the environment, so that the anchor
    # of an action is the last observation.
    seen = _opening(episode)
    for turn, ((start, stop), record) in enumerate(
        zip(spans, episode.turns, strict=True)
    ):
      anchor: str | tuple[int, int]
      if record.kind == ACT:
        anchor, seen = seen, record.observation
      else:
        anchor = (row, turn)  # a choice of another kind: like no other turn
      if not record.learn:
        completion_mask[row, start:stop] = False
        continue
      turn_ids[row, start:stop] = turn
      anchor_ids[row, start:stop] = anchors.setdefault(
          (int(group_ids[row]), anchor), len(anchors)
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
      episode_ids=None if segments == size else episode_ids,
  )


def blank(episodes: int) -> TokenBatch[np.ndarray]:
  """A batch without a token: the fields and types that every collection has."""
  nothing = Episode(
      *('', '', 0, '', 0, 0, 0, TERMINATED, False), *5 * ((),)
  )  # fmt: skip
  return collate([Group(0, 0, (nothing,) * episodes)])


def _opening(episode: Episode) -> str:
  """The first observation, as the prompt holds it."""
  return episode.prompt[-1].content if episode.prompt else ''


def microbatches(
    batch: TokenBatch,
    rows: np.ndarray,
    *,
    max_tokens: int,
    multiple: int = 1,
    rows_per_example: int = 1,
    share_prefixes: bool = False,
    whole_episodes: bool = False,
    shapes: Shapes = ANY,
) -> list[Microbatch]:
  """Packs rows into pieces of at most `max_tokens`.

  Several segments share a packed row: the first in which one fits, long ones
  first. Segment ids and positions keep them apart, so packing changes no
  log-probability and no gradient.

  The episodes of a group begin with the same prompt, and so do their segments.
  If that saves a tenth of what is computed, padding included, it is computed
  once in each piece and not in every segment; its tokens are then in no row of
  the piece.

  Args:
    batch: NumPy arrays, one episode a row.
    rows: indices of the rows to pack, less those of invalid episodes.
    max_tokens: largest rows times length of a piece, prefixes and padding
      included. A piece of `multiple` rows may exceed it: a row cannot be cut.
    multiple: the height of a piece is a multiple of this: shards of the rows.
    rows_per_example: neighbours in `rows` that share a packed row, 2 for pairs
      that a loss compares. One invalid row leaves all of them out.
    share_prefixes: whether prompts may be computed once for a group.
    whole_episodes: whether all segments of an episode must be in one piece,
      which may then exceed `max_tokens`: for losses with a term of the episode.
    shapes: those of the program that takes the pieces.
  """
  sets = np.asarray(rows).reshape(-1, rows_per_example)
  sets = sets[np.asarray(batch.valid)[sets].all(axis=1)]
  if not len(sets):
    return []
  spans = _segments(batch, sets.ravel())
  # Members of packed rows: segments, or all those of an example.
  members = [
      [span for row in example for span in spans[row]]
      for example in sets.tolist()
  ]
  examples = np.arange(len(sets))
  if rows_per_example == 1:
    examples = np.repeat(examples, [len(member) for member in members])
    members = [[span] for member in members for span in member]
  needs = np.array([sum(s.length for s in member) for member in members])
  units = examples if whole_episodes else None
  alone = packing.Members(needs, np.zeros_like(needs), units=units)
  ways = [(alone, dict.fromkeys(spans, 0))]
  if share_prefixes:
    # Any members would do: they share what they have in common.
    groups = np.asarray(batch.group_ids)[sets[:, 0]]
    common = _common_prefixes(batch, spans, sets, groups)
    if longest := max(common.values()):
      own = [sum(common[s.row] for s in member) for member in members]
      sharing = packing.Members(needs - own, groups[examples], longest, units)
      ways.append((sharing, common))
  way, pieces = shapes.pack(
      [members for members, _ in ways], max_tokens=max_tokens, multiple=multiple
  )
  shared = ways[way][1]
  whole = _of_episodes(batch)
  return [_pack(batch, whole, members, shared, piece) for piece in pieces]


class _Span(NamedTuple):
  """A segment in its row of the whole batch."""

  row: int
  start: int
  length: int


def _segments(batch: TokenBatch, rows: np.ndarray) -> dict[int, list[_Span]]:
  """The segments of each row, in order."""
  segments: dict[int, list[_Span]] = {}
  for row in rows.tolist():
    ids = np.asarray(batch.segment_ids[row])
    starts = np.flatnonzero((np.diff(ids, prepend=0) != 0) & (ids > 0))
    stops = [*starts[1:].tolist(), int((ids > 0).sum())]
    segments[row] = [
        _Span(row, start, stop - start)
        for start, stop in zip(starts.tolist(), stops, strict=True)
    ]
  return segments


def _common_prefixes(batch, spans, sets, groups) -> dict[int, int]:
  """Tokens that the segments of a row's group have in common, by row."""
  shared: dict[int, int] = {}
  order = np.argsort(groups, kind='stable')
  ends = np.flatnonzero(np.diff(groups[order])) + 1
  for of_group in np.split(sets[order], ends):
    rows = of_group.ravel().tolist()
    parts = [span for row in rows for span in spans[row]]
    lengths = np.array([span.length for span in parts])
    width = int(lengths.min())  # no prefix is longer
    starts = np.array([span.start for span in parts])[:, None]
    at = (
        np.array([span.row for span in parts])[:, None],
        starts + np.arange(width),
    )
    common = packing.common_prefix(
        batch.tokens[at], lengths, batch.completion_mask[at]
    )
    shared |= dict.fromkeys(rows, common)
  return shared


def _of_episodes(batch) -> dict[str, np.ndarray]:
  """The `[E]` fields, padded: collections of any size share programs."""
  fields = {
      name: np.asarray(x)
      for name in batch.__dataclass_fields__
      if (x := getattr(batch, name)) is not None and x.ndim == 1
  }
  return {
      name: np.pad(x, (0, packing.bucket_count(len(x)) - len(x)))
      for name, x in fields.items()
  }


def _pack(batch, whole, members, shared, piece: packing.Piece) -> Microbatch:
  places = []
  for packed_row, packed in enumerate(piece.rows):
    start = 0
    for span in (span for member in packed for span in members[member]):
      skip = shared[span.row]
      length = span.length - skip
      places.append(
          Placement(span.row, packed_row, start, length, skip, span.start)
      )
      start += length

  def fill(name):
    x = getattr(batch, name)
    if x is None or name in whole:
      return whole.get(name)
    x = np.asarray(x)
    rest = -1 if name in ('turn_ids', 'anchor_ids') else 0
    out = np.full(piece.shape[:2], rest, x.dtype)
    for place in places:
      out[place.target] = x[place.source]
    return out

  fields = {name: fill(name) for name in batch.__dataclass_fields__}
  if piece.shape.prefixes:
    fields['prefix'] = _prefix(batch, piece, places)
  return Microbatch(TokenBatch(**fields), tuple(places))


def _prefix(batch, piece: packing.Piece, places) -> SharedPrefix:
  tokens = np.zeros(piece.shape[2:], np.int32)
  segment_ids = np.zeros(piece.shape[2:], np.int32)
  rows = np.zeros(piece.shape.height, np.int32)
  rows[: len(piece.prefixes)] = piece.prefixes
  for place in places:
    here = rows[place.packed_row], slice(place.skip)
    first = slice(place.origin, place.origin + place.skip)
    tokens[here] = batch.tokens[place.row, first]
    segment_ids[here] = 1
  return SharedPrefix(tokens, segment_ids, rows)


def unpack(
    values: np.ndarray, places: Sequence[Placement], out: np.ndarray
) -> None:
  """Copies a microbatch's `[b, t]` values to their rows of `[B, T]` `out`.

  Tokens of shared prefixes keep what `out` has.
  """
  for place in places:
    out[place.source] = values[place.target]
