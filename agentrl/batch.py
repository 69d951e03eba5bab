"""The one structure that crosses from the host into jitted code."""

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flax import struct

# The kind of a batch's arrays: np.ndarray on the host, jax.Array in jitted code,
# jax.ShapeDtypeStruct where a program is traced and not run.
Array = TypeVar('Array')


@struct.dataclass
class SharedPrefix(Generic[Array]):
  """First tokens that several episodes have in common, computed once."""

  tokens: Array  # [G, P] int32; column t has position t
  segment_ids: Array  # [G, P] int32, 1 on tokens, 0 on padding
  rows: Array  # [B] int32, the prefix that all episodes of a row continue


@struct.dataclass
class TokenBatch(Generic[Array]):
  """Padded rows of segments: B rows of T tokens, E episodes.

  An episode is one segment, or several where its context was begun anew.
  Attention and positions restart with each; `segment_ids` keeps them apart. As
  collated, a row holds one episode, its segments in order; a microbatch holds
  segments of any episodes in a row. With a `prefix` a row holds what follows
  it, and positions go on from there; nothing in a prefix is sampled. Every
  `[B, T]` field describes the token at its own index. So `old_logprobs[b, t]` is
  log p(tokens[b, t] | the tokens of its segment before t), and the first token
  of a segment, which nothing predicts, has 0.

  `[E]` fields are indexed by episode - 1, see `episodes`. Segment ids are unique
  in the batch.

  Fields that nobody needs in a run are None: they cost no transfer.
  """

  tokens: Array  # [B, T] int32
  segment_ids: Array  # [B, T] int32, 0 on padding
  positions: Array  # [B, T] int32, of a token in its segment
  completion_mask: Array  # [B, T] bool, True on ids the sampler returned
  turn_ids: Array  # [B, T] int32, the turn of a sampled id; -1 elsewhere
  rewards: Array  # [B, T] float32, on the last sampled id of each turn
  group_ids: Array  # [E] int32, in [0, number of groups)
  valid: Array  # [E] bool, False on failed and on padding episodes
  episode_return: Array  # [E] float32, sum of the rewards
  truncated: Array  # [E] bool, cut by us (horizon, context)
  # [B, T] int32 on sampled ids: turns of a group that answer one observation
  # share a number in [0, turns of the batch); -1 elsewhere. Files of episodes
  # (.npz) have it, plus 1, as `turn_groups`.
  anchor_ids: Array | None = None
  sampler_logprobs: Array | None = None  # [B, T] float32
  old_logprobs: Array | None = None  # [B, T] float32
  ref_logprobs: Array | None = None  # [B, T] float32
  teacher_logprobs: Array | None = None  # [B, T] float32, on sampled ids
  advantages: Array | None = None  # [B, T] float32
  returns: Array | None = None  # [B, T] float32
  values: Array | None = None  # [B, T] float32
  bootstrap_value: Array | None = None  # [E] float32
  prefix: SharedPrefix[Array] | None = None
  # [B, T] int32, the episode of a token, from 1; 0 on padding. None: every
  # episode is one segment, and segment_ids number them.
  episode_ids: Array | None = None

  if TYPE_CHECKING:  # struct.dataclass adds it, unseen by type checkers

    def replace(self, **changes: Any) -> 'TokenBatch':
      """A copy with other values of some fields."""
      raise NotImplementedError

  @property
  def episodes(self) -> Array:
    """`[B, T]` int32: the episode of each token, from 1; 0 on padding."""
    return self.segment_ids if self.episode_ids is None else self.episode_ids
